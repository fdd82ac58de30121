"""Java frames of native allocations: joined, named, with lines, for both starts of the probe."""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.jvms import java_homes
from harness.jvms import zoo as zoo_programs
from harness.jvms.allocating_jvm import (
    CHAINS,
    INFLATER_INIT,
    TIMES,
    UNSAFE,
    ask,
    check_allocations,
    contains,
    line_of,
    live_below,
    names,
    preload,
    run,
    started,
    waiting,
)
from harness.native.compiler import compile_c
from harness.paths import JAVA
from harness.plugins.rotation import one_a_row
from offheap import recording
from offheap.jvm.listener.attach import AttachedVM
from offheap.probe import control
from offheap.probe.contract import Section
from offheap.probe.live_files.live_file import LiveFile

SOURCES = JAVA
VERSIONS = java_homes.JRE_VERSIONS

# enum probe_error of probe/errors.h
OK, BAD_OPTIONS, ALREADY_RECORDING, NOT_RECORDING, PRELOADED = 0, 101, 102, 106, 109


@pytest.fixture(scope="module")
def probe_library(probe_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy: a rebuilt library would make an attach load a second one during a test."""
    return Path(shutil.copy(probe_library, tmp_path_factory.mktemp("probe")))


@pytest.fixture(scope="module")
def classes(jdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    sources = [str(SOURCES / f"{name}.java") for name in ("Allocations", "Inlined", "Unloading", "Ticking")]
    command = [str(jdk / "bin" / "javac"), "--release", "11", "-nowarn", "-d", str(folder), *sources]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


@pytest.mark.parametrize("version", VERSIONS)
def test_stacks_join_when_preloaded(
    version: int, jre: Callable[[int], Path], classes: Path, probe_library: Path, tmp_path: Path
) -> None:
    live_file = tmp_path / "recording.live"
    run([jre(version), "-Xmx64m", "-cp", classes, "Allocations", TIMES], preload(probe_library, live_file))
    found = recording.load(live_file)
    check_allocations(found)
    assert found.info.properties["java.version"].startswith(str(version))
    assert found.info.properties["sun.java.command"] == f"Allocations {TIMES}"
    assert found.info.command_line[1:3] == ("-Xmx64m", "-cp")
    assert "DestroyJavaVM" in found.threads  # by its Java name, which is longer than the kernel's
    # Stacks that begin in JNI have Java frames: only the VM's own work (deoptimization) may lack them.
    for number in range(len(found.stack_kinds)):
        stack = found.stack(number)
        gaps = [i for i, frame in enumerate(stack) if frame.name.startswith("Java frames missing")]
        assert [names(stack) for i in gaps if stack[i - 1].kind != "jvm"] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_stacks_join_by_agentpath(
    version: int, jre: Callable[[int], Path], classes: Path, probe_library: Path, tmp_path: Path
) -> None:
    live_file = tmp_path / "recording.live"
    agent = f"-agentpath:{probe_library}=interval=0,file={live_file}"
    run([jre(version), "-Xmx64m", agent, "-cp", classes, "Allocations", TIMES])
    found = recording.load(live_file)
    assert found.info.entry == "agentpath"
    check_allocations(found)


@pytest.mark.parametrize("version", VERSIONS)
def test_stacks_join_after_attach_and_again(
    version: int, jre: Callable[[int], Path], classes: Path, probe_library: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.live", tmp_path / "second.live"
    with waiting([jre(version), "-Xmx64m", "-Dwait=true", "-cp", classes, "Allocations", TIMES]) as process:
        vm = AttachedVM(process.pid)

        def agent(options: str) -> int:
            return control.ask(vm, str(probe_library), options)

        assert agent("stop") == NOT_RECORDING
        assert agent("start,nonsense=1") == BAD_OPTIONS
        assert agent(f"start,interval=0,file={first}") == OK
        assert agent(f"start,interval=0,file={second}") == ALREADY_RECORDING
        assert agent("status") == OK
        assert agent("stop") == OK
        assert agent("status") == NOT_RECORDING
        assert agent(f"start,interval=0,file={second}") == OK
        assert ask(process) == "done\n"
        assert agent("stop") == OK
    found = recording.load(second)
    check_allocations(found)
    assert recording.load(first).info.properties["java.version"].startswith(str(version))


@pytest.mark.parametrize(
    ("version", "options"),
    [
        (11, "-Xint"),
        (17, "-Xcomp -XX:TieredStopAtLevel=1"),
        (21, "-Xcomp -XX:-TieredCompilation"),
        (17, "-XX:+UseZGC"),
        (25, "-XX:+UseZGC"),
        (25, "-XX:+UseShenandoahGC"),
        (21, "-XX:+UseParallelGC -Xcheck:jni"),
        (25, "-XX:+UseSerialGC -Xcheck:jni -XX:-UsePerfData"),
    ],
)
def test_stacks_join_however_java_runs(
    version: int, options: str, jre: Callable[[int], Path], classes: Path, probe_library: Path, tmp_path: Path
) -> None:
    live_file = tmp_path / "recording.live"
    command = [jre(version), "-Xmx128m", *options.split(), "-cp", classes, "Allocations", TIMES]
    outcome = run(command, preload(probe_library, live_file))
    check_allocations(recording.load(live_file))
    assert "in native method" not in outcome.stdout + outcome.stderr  # these are warnings of -Xcheck:jni


INLINED = tuple(f"Inlined.{name}" for name in ("inner", "middle", "outer", "hot"))
INLINING = (
    *("-Xbatch", "-XX:CompileCommand=quiet", "-XX:CompileCommand=inline,Inlined::*"),
    *("-XX:+PrintCompilation", "-XX:+UnlockDiagnosticVMOptions", "-XX:+PrintInlining"),
)


@pytest.mark.parametrize(
    ("version", "compiler"), one_a_row(VERSIONS, ("-XX:-TieredCompilation", "-XX:TieredStopAtLevel=1"))
)
def test_inlined_methods_are_in_the_stack(
    version: int,
    compiler: str,
    jre: Callable[[int], Path],
    classes: Path,
    probe_library: Path,
    tmp_path: Path,
) -> None:
    """The stack has one compiled method, and the recording four, each with its line."""
    live_file = tmp_path / "recording.live"
    command = [jre(version), "-Xmx64m", compiler, *INLINING, "-cp", classes, "Inlined", 20_000, TIMES]
    said = run(command, preload(probe_library, live_file)).stdout
    # The compiler's output for hot(): a line with its size, and below three methods, each in the previous.
    whole = r" Inlined::hot \(\d+ bytes\)\n" + "".join(
        rf" +@ \d+ +Inlined::{name} \(\d+ bytes\) +force inline by \w+\n"
        for name in ("outer", "middle", "inner")
    )
    assert re.search(whole, said.split("hot\n")[0]), said
    assert not re.search(r"Inlined::hot .*made not entrant", said), said
    found = recording.load(live_file)
    kept = found.live[np.isin(found.live["size"], (54_321, 54_328))]  # JDK 11 rounds up to words
    assert len(kept) == TIMES
    stacks = [found.stack(int(number)) for number in np.unique(kept["stack"])]
    chain = (*UNSAFE, "sun.misc.Unsafe.allocateMemory", *INLINED, "Inlined.main")
    assert [names(stack) for stack in stacks if not contains(stack, chain)] == []
    lines = {(f.name, f.line) for stack in stacks for f in stack if f.name in INLINED}
    calls = ("unsafe.allocateMemory(bytes)", "inner(bytes)", "middle(bytes)", "outer(bytes)")
    assert lines == {
        (name, line_of("Inlined.java", f"return {call}")) for name, call in zip(INLINED, calls, strict=True)
    }


@pytest.mark.parametrize("version", [version for version in java_homes.JRE_VERSIONS if version >= 21])
def test_stacks_of_virtual_threads(
    version: int, jre: Callable[[int], Path], classes: Path, probe_library: Path, tmp_path: Path
) -> None:
    live_file = tmp_path / "recording.live"
    run(
        [jre(version), "-Xmx64m", "-Dvirtual=true", "-cp", classes, "Allocations", TIMES],
        preload(probe_library, live_file),
    )
    found = recording.load(live_file)
    inflaters = live_below(found, "Allocations.inflater", INFLATER_INIT)
    assert len(inflaters.sizes) == 2 * TIMES
    for stack in inflaters.stacks:
        assert contains(stack, CHAINS["Allocations.inflater"])
        assert "java.lang.VirtualThread.run" in names(stack)


def unnamed(live_file: LiveFile) -> list[int]:
    """The ids of methods without a name: seen and not yet named, or unloaded before they got one."""
    return [int(row["id"]) for row in live_file.methods(np.arange(1 << 16)) if row["state"] in (1, 3)]


@pytest.mark.parametrize("version", [11, 17, 25])
def test_names_outlive_their_classes(
    version: int, jre: Callable[[int], Path], classes: Path, probe_library: Path, tmp_path: Path
) -> None:
    live_file = tmp_path / "recording.live"
    copies, round_ = 500, 25
    command = [jre(version), "-Xmx64m", "-XX:+UseSerialGC", "-cp", classes, "Unloading", copies, round_]
    beats = [0.0]  # heartbeats of the agent thread, one for each time that it has woken and named methods
    with started(command, preload(probe_library, live_file)) as process:
        assert process.stdin
        assert process.stdout
        for _ in range(copies // round_):
            assert process.stdout.readline() == "collect?\n"
            deadline = time.monotonic() + 60
            with LiveFile(live_file) as raw:
                while unnamed(raw) or raw.refresh().heartbeat <= beats[-1]:
                    assert time.monotonic() < deadline
                    time.sleep(0.005)
                beats.append(raw.header.heartbeat)
            process.stdin.write("\n")
            process.stdin.flush()
        assert process.stdout.read() == f"{copies} unloaded\n"
        assert process.wait(60) == 0
    # An event wakes the agent thread at once; its ticks alone are a second apart.
    # A busy machine may take as long for a round.
    assert np.quantile(np.diff(beats[1:]), 0.25) < 1, beats
    found = recording.load(live_file)
    plugins = live_below(found, "Unloading$Plugin.allocateInPlugin", INFLATER_INIT)
    assert len(plugins.sizes) == 2 * copies
    assert {
        line for stack in plugins.stacks for f in stack if (line := f.line) and "allocateIn" in f.name
    } == {line_of("Unloading.java", "keep(new Inflater())")}
    with LiveFile(live_file) as raw:
        assert unnamed(raw) == []


@pytest.mark.parametrize("version", [version for version in VERSIONS if version != 21])
def test_jvm_created_without_a_launcher(
    version: int,
    jre: Callable[[int], Path],
    jdk: Path,
    classes: Path,
    probe_library: Path,
    tmp_path: Path,
) -> None:
    """GIVEN a program linked with libjvm WHEN it creates a JVM THEN the probe meets the complete JVM."""
    server = jre(version).parent.parent / "lib" / "server"
    embedder = compile_c(
        [SOURCES / "embedder.c"],
        tmp_path / "embedder",
        flags=(
            *(f"-I{jdk / 'include'}", f"-I{jdk / 'include' / 'linux'}"),
            *(str(server / "libjvm.so"), f"-Wl,-rpath,{server}", "-Wl,--allow-shlib-undefined"),
        ),
    )
    live_file = tmp_path / "recording.live"
    outcome = run([embedder, classes, "Allocations", TIMES], preload(probe_library, live_file))
    assert outcome.stdout == "done\ndestroyed\n"
    check_allocations(recording.load(live_file))


def test_preload_and_agentpath_are_one_recording(
    jre: Callable[[int], Path], classes: Path, probe_library: Path, tmp_path: Path
) -> None:
    live_file, other = tmp_path / "recording.live", tmp_path / "other.live"
    agent = f"-agentpath:{probe_library}=interval=0,file={other}"
    run(
        [jre(17), "-Xmx64m", agent, "-cp", classes, "Allocations", TIMES],
        preload(probe_library, live_file),
    )
    assert not other.exists()
    check_allocations(recording.load(live_file))


def test_stopping_a_preloaded_probe_and_starting_it_again(
    jre: Callable[[int], Path], classes: Path, probe_library: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.live", tmp_path / "second.live"
    command = [jre(17), "-Xmx64m", "-Dwait=true", "-cp", classes, "Allocations", TIMES]
    variables = [f"{key}={value}" for key, value in preload(probe_library, first).items()]
    with waiting(["env", *variables, *command]) as process:
        vm = AttachedVM(process.pid)
        assert control.ask(vm, str(probe_library), "start") == ALREADY_RECORDING
        assert control.ask(vm, str(probe_library), "stop") == PRELOADED
        assert control.ask(vm, str(probe_library), f"start,interval=0,file={second}") == OK
        assert ask(process) == "done\n"
        # Every method has its name after the stop: a JVM that is killed at once may leave some without.
        assert control.ask(vm, str(probe_library), "stop") == PRELOADED
    check_allocations(recording.load(second))


def test_a_program_without_a_jvm_gets_no_thread(probe_library: Path, tmp_path: Path) -> None:
    command = ["cat", "/proc/self/status"]
    outcome = run(command, preload(probe_library, tmp_path / "recording.live"))
    assert "Threads:\t1\n" in outcome.stdout
    assert (tmp_path / "recording.live").exists()


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_attach_hardly_stops_the_program(
    version: int, jre: Callable[[int], Path], classes: Path, probe_library: Path, tmp_path: Path
) -> None:
    """WHEN attached 10 times with 2,000 classes THEN a ticking thread is under 20 ms late at the median."""
    delays = []
    with waiting([jre(version), "-Xmx128m", "-XX:+UseSerialGC", "-cp", classes, "Ticking", 2000]) as process:
        vm = AttachedVM(process.pid)
        for turn in range(10):
            time.sleep(0.3)
            ask(process)
            assert control.ask(vm, str(probe_library), f"start,file={tmp_path / str(turn)}.live") == OK
            time.sleep(0.1)
            delays.append(int(ask(process)) / 1e6)
            assert control.ask(vm, str(probe_library), "stop") == OK
    print(f"JDK {version}: {statistics.median(delays):.1f} ms, at most {max(delays):.1f} ms")
    assert statistics.median(delays) < 20


def test_a_recording_that_stops_at_once_is_whole_and_harms_no_other(
    jre: Callable[[int], Path], zoo: zoo_programs.Zoo, probe_library: Path, tmp_path: Path
) -> None:
    """WHEN a stop comes before the agent thread has attached itself, as in one of ten here."""
    command = zoo.command(zoo_programs.programs()["churn"], jre(17))
    with zoo_programs.Running(command) as running:
        running.truths(1)
        vm = AttachedVM(running.pid)

        def agent(options: str) -> int:
            return control.ask(vm, str(probe_library), options)

        for turn in range(60):
            first, second = tmp_path / f"{turn}.first.live", tmp_path / f"{turn}.second.live"
            assert agent(f"start,interval=0,file={first}") == OK
            assert agent("stop") == OK
            assert agent(f"start,interval=0,file={second}") == OK
            time.sleep(0.03)
            assert agent("stop") == OK
            with LiveFile(second) as live_file:
                methods = live_file.used(Section.METHODS)
            assert methods > 0, turn
            with LiveFile(first) as live_file:
                assert live_file.properties()["java.version"].startswith("17.")
            first.unlink()
            second.unlink()


def test_methods_of_the_very_first_samples_are_named(
    jre: Callable[[int], Path], zoo: zoo_programs.Zoo, probe_library: Path, tmp_path: Path
) -> None:
    """GIVEN churn WHEN attached THEN samples before the agent thread's start have names."""
    command = zoo.command(zoo_programs.programs()["churn"], jre(11))
    with zoo_programs.Running(command) as running:
        running.truths(1)
        vm = AttachedVM(running.pid)
        for turn in range(4):
            live_file = tmp_path / f"{turn}.live"
            assert control.ask(vm, str(probe_library), f"start,interval=0,file={live_file}") == OK
            time.sleep(0.3)
            assert control.ask(vm, str(probe_library), "stop") == OK
            found = recording.load(live_file)
            stacks = [found.stack(number) for number in range(len(found.stack_kinds))]
            names = {frame.name for stack in stacks for frame in stack}
            assert "java.util.zip.Deflater.init" in names
            assert "unknown Java method" not in names
        running.stop_leaking()
        running.exit()
