"""Every command that reads recordings, on an import of every format: each tells the same figures."""

from __future__ import annotations

import base64
import gzip
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness import needs
from harness.command_line import run_offheap
from harness.recordings.imported_profiles import SAMPLES
from offheap.formats.imported.formats import READERS

KINDS = ("malloc_bytes", "mapped_bytes")
# (older file, newer file, the function that the newer one names first).  A number: the older file is so many
# lines of the newer one.  None: the file has its own time line, within which `diff` compares.
FILES: dict[str, tuple[str | int | None, str, str]] = {
    "jemalloc": ("gperftools.heap", "jemalloc.heap", ""),
    "gperftools": ("jemalloc.heap", "gperftools.heap", ""),
    "pprof text": ("go.pb.gz", "go-debug1.txt", "main.leak"),
    "mtrace": (20, "mtrace.log", "make_block"),
    "nmt": ("nmt-25-summary.txt", "nmt-17-detail.txt", "NMT category Java Heap"),
    "heaptrack": (None, "heaptrack.zst", "keep_one"),
    "massif": (None, "massif.out", "keep_one"),
    "memcheck": ("memcheck.txt", "memcheck.xml", "make_block"),
    "lsan": ("lsan.txt", "asan.txt", "make_block"),
    "pprof": ("async-profiler.pb.gz", "go.pb.gz", "main.leak"),
    "sapmachine-malloctrace": (10, "malloctrace.txt", "java.util.zip.Inflater.init"),
    "jfr": ("async-profiler-sampled.jfr.gz", "async-profiler.jfr.gz", "java.util.zip.Inflater.init"),
    "jfr of NMT": (None, "nmt-25.jfr.gz", "NMT category Java Heap"),
    "jfr of objects": ("async-profiler-sampled.jfr.gz", "async-profiler-live.jfr.gz", "Keep.keepOne"),
    "collapsed": (8, "async-profiler.collapsed", "java.util.zip.Inflater.init"),
    "memray": (None, "capture.bin", "keep_one"),
}

# They have Java objects, and the JVM's own memory, which --max-live leaves out.
NO_BLOCKS = ("jfr of NMT", "jfr of objects")


@pytest.fixture(params=FILES)
def imports(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path | None, Path]:
    """(format, recording of the older file if there is one, recording of the newer one)."""
    name: str = request.param
    older, newer, _ = FILES[name]
    new = SAMPLES / newer if name != "memray" else _memray_capture(tmp_path / newer)
    old = SAMPLES / older if isinstance(older, str) else None
    if isinstance(older, int):
        old = tmp_path / "older"
        old.write_bytes(b"".join(new.read_bytes().splitlines(keepends=True)[:older]))
    recordings = [tmp_path / f"{what}.offheap" for what in ("old", "new")]
    for file, recording in zip((old, new), recordings, strict=True):
        if file:
            run_offheap("import", file, "-o", recording)
    return name, recordings[0] if old else None, recordings[1]


def _memray_capture(path: Path) -> Path:
    if importlib.util.find_spec("memray") is None:
        needs.skip("memray", ".venv/bin/pip install memray")
    program = SAMPLES / "src" / "forget.py"
    command = [sys.executable, "-m", "memray", "run", "-q", "-o", str(path), str(program)]
    subprocess.run(command, check=True, timeout=120)
    return path


def said(*arguments: object) -> Any:
    return json.loads(run_offheap(*arguments, "--json").stdout)


def embedded(page: Path) -> Any:
    """The data that an HTML report carries."""
    found = re.search(r'data-encoding="([\w-]+)">([^<]*)<', page.read_text("utf-8"))
    assert found
    text = found[2] if found[1] == "json" else gzip.decompress(base64.b64decode(found[2]))
    return json.loads(text)


def live(values: Any) -> list[float]:
    return [values[kind]["estimate"] for kind in KINDS]


def survivors(heap: Any) -> float:
    """Bytes of Java objects that survived the last collection; 0 without a Java heap."""
    return float(heap["survivors"]["bytes"]["estimate"]) if heap else 0.0


def test_every_format_is_here() -> None:
    read_as_jemalloc = {"gperftools", "pprof text"}
    assert {reader.FORMAT for reader in READERS} == {*FILES} - read_as_jemalloc - {*NO_BLOCKS}


def test_every_command_reads_an_import(imports: tuple[str, Path | None, Path], tmp_path: Path) -> None:
    name, old, new = imports
    leaks = said("leaks", new, "--all")
    heap = leaks["java_heap"]
    assert (survivors(heap) if name == "jfr of objects" else sum(live(leaks))) > 0
    suspects = [*leaks["suspects"], *(heap["suspects"] if heap else ())]
    names = {frame["name"] for suspect in suspects for frame in suspect["stack"]}
    assert FILES[name][2] in {"", *names}, names

    tree = said("tree", new, "--least", "0%")
    assert live(tree) == live(leaks)
    roots = [node["live_bytes"]["estimate"] for node in tree["nodes"] if node["parent"] is None]
    assert sum(roots) == pytest.approx(tree["live_bytes"]["estimate"], abs=len(roots))

    page = tmp_path / "report.html"
    run_offheap("report", new, "-o", page)
    data = embedded(page)
    assert live(data) == pytest.approx(live(leaks), rel=1e-5)  # six digits
    shown = data["java_heap"]["live"]["estimate"] if heap else 0.0
    assert shown == pytest.approx(survivors(heap), rel=1e-5)
    assert data["suspect_count"] == len(leaks["suspects"])

    # At half a second, each program with a time line has kept a part of what it keeps.
    diff = said("diff", old, new, "--all") if old else said("diff", new, "--from", "0.5s", "--all")
    before = live(said("leaks", old)) if old else [diff[kind]["old"]["estimate"] for kind in KINDS]
    for kind, earlier, now in zip(KINDS, before, live(leaks), strict=True):
        assert diff[kind]["old"]["estimate"] == pytest.approx(earlier, abs=1)
        assert diff[kind]["new"]["estimate"] == pytest.approx(now, abs=1)
        assert diff[kind]["change"]["estimate"] == pytest.approx(now - earlier, abs=2)
    assert diff["sites"]
    assert old or sum(diff[kind]["change"]["estimate"] for kind in KINDS) > 0

    (refused,) = run_offheap("where", new, expect=2).stderr.splitlines()
    assert "which does not tell who owns RSS" in refused

    # No sample lasts the 10 s that exclude a leak.
    assert outcome_of_check(new, 3) == "cannot tell"
    status, outcome = (3, "cannot tell") if name in NO_BLOCKS else (1, "failed")
    assert outcome_of_check(new, status, "--max-live", "1") == outcome


def test_check_passes_a_series_that_does_not_grow(tmp_path: Path) -> None:
    files = [tmp_path / f"{minute}.log" for minute in range(5)]
    for minute, file in enumerate(files):
        shutil.copyfile(SAMPLES / "mtrace.log", file)
        os.utime(file, (1.7e9 + 60 * minute,) * 2)
    recording = tmp_path / "series.offheap"
    run_offheap("import", *files, "-o", recording)
    assert outcome_of_check(recording, 0) == "passed"
    assert outcome_of_check(recording, 0, "--max-live", "1MiB", "--max-growth", "1MiB/min") == "passed"
    assert outcome_of_check(recording, 1, "--max-live", "3000") == "failed"


@pytest.mark.parametrize("sample", ["nmt-17-detail.txt", "nmt-25-summary.txt"])
def test_what_native_memory_tracking_does_not_count_is_not_cleared(sample: str, tmp_path: Path) -> None:
    """GIVEN reports of the JVM's own memory that does not grow THEN the answer is about that memory alone."""
    files = [tmp_path / f"{minute}.txt" for minute in range(5)]
    for minute, file in enumerate(files):
        shutil.copyfile(SAMPLES / sample, file)
        os.utime(file, (1.7e9 + 60 * minute,) * 2)
    recording = tmp_path / "series.offheap"
    run_offheap("import", *files, "-o", recording)
    limit = "in what Native Memory Tracking counts, which lacks the memory of native libraries"
    answer = " ".join(run_offheap("leaks", recording).stdout.split())
    assert answer.startswith(f"No leak found in 4 min {limit}: no site leaks more than ")
    for gate in ((), ("--max-growth", "1MiB/min")):
        assert limit in " ".join(run_offheap("check", recording, *gate).stdout.split())


def outcome_of_check(recording: Path, status: int, *limits: str) -> str:
    outcome: str = json.loads(run_offheap("check", recording, *limits, "--json", expect=status).stdout)[
        "outcome"
    ]
    return outcome
