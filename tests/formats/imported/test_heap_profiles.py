"""jemalloc's and gperftools' heap profiles: figures, names, series; a real JVM's series as a recording."""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import needs
from harness.command_line import run_offheap
from harness.jvms import zoo as zoo_programs
from harness.jvms.zoo import Running, Zoo
from harness.recordings.imported_profiles import SAMPLES, last
from harness.warm_command import warm
from offheap.cli.import_ import _NAMES
from offheap.errors import UserError
from offheap.formats.imported.formats import READERS
from offheap.formats.imported.samples import heap_text

SECONDS = 14.0
MAPS = "MAPPED_LIBRARIES:\n"


def dump(path: Path, interval: int, *stacks: tuple[str, int, int], age: float = 0.0) -> Path:
    """A dump whose stacks have live blocks and bytes; `age`: seconds since it was written."""
    lines = [f"heap_v2/{interval}", "  t*: 0: 0 [0: 0]"]
    for addresses, blocks, size in stacks:
        lines += [f"@ {addresses}", f"  t*: {blocks}: {size} [0: 0]", f"  t3: {blocks}: {size} [0: 0]"]
    path.write_text("\n".join([*lines, "", MAPS]))
    os.utime(path, (1.7e9 - age, 1.7e9 - age))
    return path


def test_samples_count_for_what_was_not_sampled(tmp_path: Path) -> None:
    profile = heap_text.read([dump(tmp_path / "a.heap", 4096, ("0x10 0x20", 18, 18 * 1024))])
    weight = 1 / -math.expm1(-1024 / 4096)
    assert profile.interval_bytes == 4096
    ((blocks, size),) = last(profile).values()
    assert blocks == pytest.approx(18 * weight)
    assert size == pytest.approx(18 * 1024 * weight)
    assert (profile.live["size"] / profile.live["probability"]).sum() == pytest.approx(size)
    assert len(profile.live) == profile.series["samples"][0] == 18
    variance = float(profile.series["live_bytes_variance"][0])
    assert variance == pytest.approx(size**2 * (1 - 1 / weight) / 18)


def test_the_real_dump_has_the_programs_blocks_within_its_error() -> None:
    profile = heap_text.read([SAMPLES / "jemalloc.heap"])
    row = max(profile.series.tolist(), key=lambda one: one[2])
    sizes = dict(zip(profile.series.dtype.names or (), row, strict=True))
    error = math.sqrt(sizes["live_bytes_variance"])
    # jemalloc's size class of 1,000 bytes is 1,024.
    assert abs(sizes["live_bytes"] - 102_400) < 3 * error


def test_figures_are_jeprofs(tmp_path: Path) -> None:
    jeprof = needs.program("jeprof")
    command = [jeprof, "--show_bytes", "--text", "/bin/true", str(SAMPLES / "jemalloc.heap")]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    total = next(int(line.split()[1]) for line in said.splitlines() if line.startswith("Total:"))
    profile = heap_text.read([SAMPLES / "jemalloc.heap"])
    assert float(profile.process["live_bytes"][-1]) == pytest.approx(total, abs=len(profile.stacks))


def test_java_methods_have_the_names_of_a_perf_map(tmp_path: Path) -> None:
    perf_map = tmp_path / "perf-1.map"
    perf_map.write_text(
        "0x00007f0000001000 0x100 [Tier 4, inlined] void com.example.Shop.open(java.lang.String, int)\n"
        "00007f0000002000 80 Interpreter\n"
    )
    stacks = ("0x7f0000001010 0x7f0000002001 0x7f0000009000", 3, 3000)
    profile = heap_text.read([dump(tmp_path / "a.heap", 0, stacks)], perf_map=perf_map)
    assert [frame.name for frame in profile.frames] == [
        "com.example.Shop.open",
        "Interpreter",
        "0x7f0000009000",
    ]
    assert [frame.kind for frame in profile.frames] == ["java", "jvm", "unknown"]


def test_a_series_is_in_the_order_of_its_numbers(tmp_path: Path) -> None:
    dumps = [
        dump(
            tmp_path / f"jeprof.7.{number}.i{number}.heap",
            1,
            ("0x10", number, number * 100),
            age=100.0 - number,
        )
        for number in (10, 2, 9)
    ]
    profile = heap_text.read(dumps)
    assert profile.pid == 7
    assert profile.process["live_bytes"].tolist() == pytest.approx([200, 900, 1000])
    assert profile.process["time"].tolist() == pytest.approx([0, 7, 8])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("heap_v2/1\n  t*: 1: 1 [0: 0]\n@ 0xzz\n  t*: 1: 1 [0: 0]\n", "line 3: an address"),
        ("heap_v2/1\n  t*: 1: 1 [0: 0]\n@ 0x1\n  t*: -1: 1 [0: 0]\n", "line 4: a count is negative"),
        ("heap_v2/1\n  t*: 1: 1 [0: 0]\nwhat\n", "line 3: neither a stack"),
        ("heap profile: 1: 1 [ 1: 1 ] @ heapprofile\n1: 1\n", "line 2: no `BLOCKS"),
        ("heap_v2/1\n", "ends before its first stack"),
    ],
)
def test_a_fault_has_its_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.heap"
    path.write_text(text)
    with pytest.raises(UserError, match=said):
        heap_text.read([path])


def imported(folder: Path, *arguments: str | Path) -> tuple[Path, str]:
    output = folder / "imported.offheap"
    done = warm("import", *arguments, "-o", output)
    assert done.returncode == 0, done.stderr
    return output, done.stderr


def leaks(recording: Path) -> Any:
    return json.loads(run_offheap("leaks", recording, "--all", "--json").stdout)


def test_a_single_file_gives_no_verdict(tmp_path: Path) -> None:
    recording, said = imported(tmp_path, SAMPLES / "jemalloc.heap")
    assert "imported 1 file of jemalloc" in said
    text = run_offheap("leaks", recording)
    words = " ".join(text.stdout.split())
    assert "Cannot tell yet: one imported file shows no course of time. Import a series of files" in words
    gate = " ".join(run_offheap("check", recording, expect=3).stdout.split())
    assert "the files cover only 0.00 s; import a series of files, taken over 10 s or more" in gate
    assert {one["verdict"] for one in leaks(recording)["suspects"]} <= {"cannot tell yet", "freed"}


def test_the_advice_of_a_series_is_a_longer_series(tmp_path: Path) -> None:
    """No import of a series is ever called a leak, and nobody can record files for longer."""
    files = [tmp_path / f"{number:02}.heap" for number in range(12)]
    for number, file in enumerate(files):
        blocks, size = 10 + number, (10 + number) << 16
        line = f"{blocks}: {size} [{blocks}: {size}]"
        file.write_text(f"heap profile: {line} @ heapprofile\n{line} @ 0x10 0x20\n\nMAPPED_LIBRARIES:\n")
        os.utime(file, (1.7e9 + 10 * number,) * 2)
    recording, _ = imported(tmp_path, *files)
    words = " ".join(run_offheap("leaks", recording).stdout.split())
    assert "Growing, and not shown to be a leak in 1 min 50 s" in words
    assert "Import files that cover 4 min or more to see whether it goes on;" in words
    assert "whether old blocks stay shows in a recording of offheap alone" in words
    gate = run_offheap("check", recording, expect=3).stdout
    assert "import files that cover 4 min or more" in gate
    assert "Record " not in words
    assert "record " not in gate


@pytest.mark.parametrize(
    "sample", [path.name for path in sorted(SAMPLES.iterdir()) if path.suffix not in (".md", "")]
)
def test_every_sample_is_recognised_and_every_report_reads_it(sample: str, tmp_path: Path) -> None:
    recording, _ = imported(tmp_path, SAMPLES / sample)
    # One sample has every report: what differs between formats is in the tables.
    commands = ("leaks", "summary", "tree", "stats") if sample == "jemalloc.heap" else ("leaks",)
    for command in commands:
        done = warm(command, recording)
        assert done.returncode == 0, done.stderr
        assert done.stdout


def test_the_command_names_every_format() -> None:
    assert {reader.FORMAT for reader in READERS} == set(_NAMES)


def test_files_of_two_formats_are_no_series(tmp_path: Path) -> None:
    files = [SAMPLES / "jemalloc.heap", SAMPLES / "mtrace.log"]
    done = warm("import", *files, "-o", tmp_path / "a.offheap")
    assert done.returncode == 2
    assert "import one series at a time" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_jvm_under_jemalloc_grows_where_it_leaks(
    zoo: Zoo, jre: Callable[[int], Path], tmp_path: Path
) -> None:
    library = needs.shared_library("jemalloc")
    program = zoo_programs.programs()["inflaters"]
    options = f"prof:true,prof_accum:true,lg_prof_sample:15,lg_prof_interval:22,prof_prefix:{tmp_path}/jeprof"
    command = ["env", f"LD_PRELOAD={library}", f"MALLOC_CONF={options}", *zoo.command(program, jre(17))]
    with Running(command) as running:
        running.truths(1)
        time.sleep(SECONDS)
        subprocess.run(
            ["jcmd", str(running.pid), "Compiler.perfmap"], capture_output=True, timeout=60, check=True
        )
        perf_map = tmp_path / "perf.map"
        made = Path(f"/tmp/perf-{running.pid}.map")
        perf_map.write_bytes(made.read_bytes())
        made.unlink()
        assert running.exit() == 0, running.errors
    dumps = sorted(tmp_path.glob("jeprof.*.heap"))
    assert len(dumps) > 10, f"jemalloc of this machine has no profiling: {len(dumps)} dumps"
    recording, _ = imported(tmp_path, *dumps, "--perf-map", perf_map)
    first = leaks(recording)["suspects"][0]
    assert first["verdict"] == "growing"
    assert first["kind"] == "malloc"
    names = [frame["name"] for frame in first["stack"]]
    assert "Java_java_util_zip_Inflater_init" in names
    assert names[0] == "inflateInit2_", "jemalloc's own frames are left out"
    assert "java.util.zip.Inflater.init" in names
