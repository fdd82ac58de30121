"""`offheap jemalloc run` and `dump`, and what `offheap mtrace` says, on a real JVM."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import needs
from harness.command_line import documented, offheap
from harness.jvms import zoo as zoo_programs
from harness.jvms.zoo import Running, Zoo
from harness.plugins.rotation import one_a_row, one_of
from harness.warm_command import warm

SECONDS = 10.0
VERSIONS = (17, 21, 25)  # with Compiler.perfmap; from 25 on offheap names the map's file
FUNCTIONS = {"unsafe": "Unsafe_Allocate", "churn": "flateInit"}  # of the zoo's programs
# In JDK 25 Unsafe_AllocateMemory0 jumps to os::malloc, whose caller is then that of Unsafe_AllocateMemory0.
JUMPED_FROM = (["jdk.internal.misc.Unsafe.allocateMemory0"], ["Interpreter"])


def ran(*arguments: str | Path, status: int = 0) -> str:
    done = warm(*arguments)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("version", one_of(VERSIONS))
def test_a_program_under_jemalloc_is_dumped_and_imported(
    version: int, zoo: Zoo, jre: Callable[[int], Path], tmp_path: Path
) -> None:
    needs.shared_library("jemalloc")
    program = zoo_programs.programs()["inflaters"]
    recording, dumps = tmp_path / "app.offheap", tmp_path / "dumps"
    dumps.mkdir()
    options = ("--interval", "32KiB", "--dump-every", "4MiB", "-o", recording)
    with Running(offheap("jemalloc", "run", *options, "--", *zoo.command(program, jre(version)))) as running:
        running.truths(1)
        time.sleep(SECONDS)
        said = ran("jemalloc", "dump", str(running.pid), "-o", dumps)
        assert "offheap import" in said
        value = json.loads(ran("jemalloc", "dump", str(running.pid), "-o", dumps, "--json"))
        assert value.keys() == documented("offheap.jemalloc-dump/1").keys()
        assert value["pid"] == running.pid
        assert Path(value["dump"]).read_text().startswith("heap_v2/32768")
        assert Path(value["perf_map"]).is_file()
        advice = ran("mtrace", str(running.pid))
        assert "libc_malloc_debug" in advice
        assert "--exact" in advice
        assert running.exit() == 0, running.errors
    picture = recording.with_suffix(".svg")
    assert f"drew the call graph in {picture}" in running.errors
    ran("report", recording, "-o", tmp_path / "again.svg")
    assert picture.read_text() == (tmp_path / "again.svg").read_text()
    assert "Inflater.init" in picture.read_text()
    first = json.loads(ran("leaks", recording, "--all", "--json").partition("\noffheap:")[0])["suspects"][0]
    assert first["verdict"] == "growing"
    names = [frame["name"] for frame in first["stack"]]
    assert {"inflateInit2_", "java.util.zip.Inflater.init"} <= set(names)
    dump = max(dumps.glob("*.heap"))
    (perf_map,) = dumps.glob("perf-*.map")
    ran("import", dump, "--perf-map", perf_map, "-o", tmp_path / "one.offheap")
    tree = ran("tree", tmp_path / "one.offheap")
    assert "Inflater.init" in tree


@pytest.mark.parametrize(("name", "version"), one_a_row(tuple(FUNCTIONS), VERSIONS))
def test_figures_are_the_programs_own(
    name: str, version: int, zoo: Zoo, jre: Callable[[int], Path], tmp_path: Path
) -> None:
    """A leak has as many blocks as the program counted; nothing is accused where nothing leaks."""
    needs.shared_library("jemalloc")
    recording = tmp_path / "app.offheap"
    options = ("--interval", "32KiB", "--dump-every", "8MiB", "-o", recording)
    program = zoo.command(zoo_programs.programs()[name], jre(version))
    with Running(offheap("jemalloc", "run", *options, "--", *program)) as running:
        truth = running.truths(6)[-1]
        truth = running.stop_leaking()
        assert running.exit() == 0, running.errors
    found = json.loads(ran("leaks", recording, "--all", "--json"))
    assert found["verdicts"]["leak"] == 0, "no dump says which blocks are old"
    stacks = [[frame["name"] for frame in one["stack"]] for one in found["suspects"]]
    its = [
        one
        for one, names in zip(found["suspects"], stacks, strict=True)
        if any(FUNCTIONS[name] in function for function in names)
        or (name == "unsafe" and names[0].startswith("os::malloc") and names[1:2] in JUMPED_FROM)
    ]
    assert its, stacks
    if name == "churn":
        assert {one["verdict"] for one in its} <= {"steady", "startup", "freed", "cannot tell yet"}
        assert found["power"]["conclusion"] != "leak"
    else:
        # The interpreter's frames have no names: each compiled form of the caller is a site of its own.
        estimate = sum(one["live_blocks"]["estimate"] for one in its)
        below, above = (
            math.hypot(*(one["live_blocks"][end] - one["live_blocks"]["estimate"] for one in its))
            for end in ("low", "high")
        )
        # Twice the 95 % interval: one in 16,000 runs is beyond it.
        assert estimate - 2 * below <= truth.blocks <= estimate + 2 * above


def test_jdk_11_has_dumps_and_says_why_java_has_no_names(
    zoo: Zoo, jre: Callable[[int], Path], tmp_path: Path
) -> None:
    needs.shared_library("jemalloc")
    program = zoo.command(zoo_programs.programs()["inflaters"], jre(11))
    recording, dumps = tmp_path / "app.offheap", tmp_path / "dumps"
    dumps.mkdir()
    options = ("--interval", "32KiB", "--dump-every", "4MiB", "-o", recording)
    with Running(offheap("jemalloc", "run", *options, "--", *program)) as running:
        running.truths(6)
        asked = json.loads(ran("jemalloc", "dump", str(running.pid), "-o", dumps, "--json"))
        why = f"PID {running.pid}: it has no Compiler.perfmap (JDK 17 or later): Java methods have no names"
        assert (asked["perf_map"], asked["why"]) == (None, why)
        assert why in ran("jemalloc", "dump", str(running.pid), "-o", dumps)
        assert running.exit() == 0, running.errors
    assert running.errors.count(why) == 1
    assert not [*dumps.glob("perf-*"), *recording.with_suffix(".jemalloc").glob("perf-*")]
    stacks = [one["stack"] for one in json.loads(ran("leaks", recording, "--all", "--json"))["suspects"]]
    names = {frame["name"] for stack in stacks for frame in stack}
    assert "inflateInit2_" in names
    assert not any("Inflater.init" in name for name in names)


def test_json_is_all_that_standard_output_has(tmp_path: Path) -> None:
    """GIVEN a program that prints THEN its words go to standard error, and its status is the command's."""
    needs.shared_library("jemalloc")
    options = ("--json", "--interval", "4KiB", "-o", tmp_path / "app.offheap")
    program = (sys.executable, "-c", "print('its own words'); import numpy; raise SystemExit(7)")
    done = subprocess.run(
        offheap("jemalloc", "run", *options, "--", *program), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 7, done.stderr
    value = json.loads(done.stdout)
    assert "its own words" in done.stderr
    expected = documented("offheap.jemalloc-run/1")
    assert value.keys() == expected.keys()
    assert value["status"] == 7
    (made,) = value["recordings"]
    assert made.keys() == expected["recordings"][0].keys()
    assert made["interval_bytes"] == 4096
    assert made["perf_map"] is None
    assert made["call_graph"] == str(tmp_path / "app.svg")
    assert Path(made["call_graph"]).read_text().startswith("<svg")
    assert json.loads(ran("summary", made["recording"], "--json"))


def test_a_file_that_is_no_picture_is_not_replaced(tmp_path: Path) -> None:
    """GIVEN another file where the call graph goes THEN the program does not start."""
    needs.shared_library("jemalloc")
    (tmp_path / "app.svg").write_text("a drawing")
    program = (sys.executable, "-c", f"open({str(tmp_path / 'started')!r}, 'w')")
    said = ran("jemalloc", "run", "-o", tmp_path / "app.offheap", "--", *program, status=2)
    assert "app.svg exists and is not an offheap report" in said
    assert {path.name for path in tmp_path.iterdir()} == {"app.svg"}


def test_a_jvm_without_jemalloc_has_no_dump(zoo: Zoo, jre: Callable[[int], Path], tmp_path: Path) -> None:
    with Running(zoo.command(zoo_programs.programs()["inflaters"], jre(17))) as running:
        running.truths(1)
        said = ran("jemalloc", "dump", str(running.pid), "-o", tmp_path, status=2)
        assert "offheap jemalloc run" in said
        assert len(said.splitlines()) == 1
        assert running.exit() == 0, running.errors
