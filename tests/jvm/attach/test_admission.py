"""The probe never gets a JVM near its container's memory limit killed: its tables shrink, or it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.command_line import offheap
from harness.hostile.small_places import MemoryCgroup, memory_cgroup
from harness.jvms.waiting_jvm import WaitingJVM, waiting_jvm
from harness.jvms.zoo import Running, Zoo, programs
from harness.measuring.recorder_memory import most_anonymous
from harness.waiting import wait_until
from offheap.errors import UserError
from offheap.jemalloc import request
from offheap.probe import admission, control
from offheap.probe.contract import Coverage
from offheap.probe.live_files.live_file import LiveFile
from offheap.proc import cgroup

pytestmark = pytest.mark.usefixtures("probe_library")

MIB = 1 << 20
# These options make the memory use of two JVMs of one kind equal.
STEADY = ("-Xms32m", "-Xmx32m", "-XX:+AlwaysPreTouch", "-XX:ReservedCodeCacheSize=16m")
MODES = {"default": "budget=1%", "exact": "exact"}
LIMITS = (4, 8, 16, 64)  # MiB above what the JVM takes without the probe
OF_LONG_TABLES = 12 * MIB
OBJECTS = 16_384  # JAVA_OBJECTS of probe/options.c


@contextmanager
def confined(
    java: Path, classes: Path, group: MemoryCgroup, environment: Mapping[str, str] | None = None
) -> Iterator[WaitingJVM]:
    wrapper = ("sh", "-c", f'echo $$ > {group.group}/cgroup.procs && exec "$0" "$@"')
    with waiting_jvm(java, classes, *STEADY, wrapper=wrapper, environment=dict(environment or {})) as jvm:
        yield jvm


@pytest.fixture(scope="module")
def alone(jdk: Path, waiting_classes: Path) -> int:
    """Bytes that the JVM takes without the probe."""
    with memory_cgroup() as group, confined(jdk / "bin" / "java", waiting_classes, group) as jvm:
        assert jvm.answers()
        return group.used()


def stop_and_remove(pid: int, started: control.Started) -> None:
    control.detach(pid)
    started.live_file.unlink()


@pytest.mark.parametrize("mode", [*MODES, "java"])
def test_what_the_probe_needs_is_what_it_says(mode: str, jdk: Path, waiting_classes: Path) -> None:
    """The figures of docs/reference.md and of section_sizes.c, as the kernel counts them."""
    with memory_cgroup() as group, confined(jdk / "bin" / "java", waiting_classes, group) as jvm:
        assert jvm.answers()
        before = group.used()
        started = control.start(jvm.pid, MODES.get(mode, "budget=1%,java"))
        if mode == "java":
            wait_until(lambda: follows_objects(started.live_file))
        assert jvm.answers()
        took = group.used() - before
        stop_and_remove(jvm.pid, started)
    # This JVM makes too few objects to fill the slots for them.
    needs = {"default": 6.1, "exact": 57.0, "java": 6.1}[mode]
    assert 0.8 * needs < took / MIB < needs


def follows_objects(path: Path) -> bool:
    """Whether the JVM's sampler serves the probe, and all slots are granted."""
    with LiveFile(path) as live_file:
        java = live_file.header.java_heap
    return java is not None and java.state == "followed" and java.most == OBJECTS


def test_the_least_that_it_needs(jdk: Path, waiting_classes: Path) -> None:
    with memory_cgroup() as group, confined(jdk / "bin" / "java", waiting_classes, group) as jvm:
        assert jvm.answers()
        before = group.used()
        with pytest.raises(UserError, match="too little room below the memory limit"):
            control.start(jvm.pid, f"memory={admission.PROBE_BYTES - (64 << 10)}")
        started = control.start(jvm.pid, f"memory={admission.PROBE_BYTES}")
        assert jvm.answers()
        took = group.used() - before
        with LiveFile(started.live_file) as live_file:
            assert Coverage.SHORT_OF_MEMORY in live_file.header.coverage
        stop_and_remove(jvm.pid, started)
    assert took < admission.PROBE_BYTES


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("above", LIMITS)
def test_an_attach_near_the_limit(above: int, mode: str, jdk: Path, waiting_classes: Path) -> None:
    with memory_cgroup() as group, confined(jdk / "bin" / "java", waiting_classes, group) as jvm:
        assert jvm.answers()
        group.limit(group.used() + above * MIB)
        room = cgroup.room(jvm.pid)
        assert room
        assert abs(room.left - above * MIB) < MIB
        if above == 4:
            # The probe may be loaded and then refuse, if the JVM takes part of the room in between.
            with pytest.raises(UserError, match=r"memory limit of .*--force"):
                control.start(jvm.pid, MODES[mode])
        else:
            started = control.start(jvm.pid, MODES[mode])
            smaller = (mode, above) not in (("default", 16), ("default", 64))
            assert bool(started.notes) == smaller, started.notes
            with LiveFile(started.live_file) as live_file:
                assert (Coverage.SHORT_OF_MEMORY in live_file.header.coverage) == smaller
            stop_and_remove(jvm.pid, started)
        assert jvm.answers()
        assert group.kills() == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("above", LIMITS)
def test_the_variables_near_the_limit(
    above: int, mode: str, jdk: Path, waiting_classes: Path, probe_library: Path, alone: int
) -> None:
    """The probe decides alone, before the JVM has taken any memory."""
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm", prefix="offheap-test-") as folder,
        memory_cgroup() as group,
    ):
        group.limit(alone + above * MIB)
        variables = {"LD_PRELOAD": str(probe_library), "OFFHEAP": f"{MODES[mode]},dir={folder},search=1"}
        with confined(jdk / "bin" / "java", waiting_classes, group, variables) as jvm:
            assert jvm.answers()
            recorded = list(Path(folder).glob("*.live"))
            assert len(recorded) == 1 or "nothing is recorded" in jvm.stderr()
            assert jvm.answers()
            assert group.kills() == 0


@pytest.mark.parametrize("mode", ["--budget=1%", "--exact"])
@pytest.mark.parametrize("above", LIMITS)
def test_a_run_near_the_limit(
    above: int, mode: str, jdk: Path, waiting_classes: Path, alone: int, tmp_path: Path
) -> None:
    """The recorder is in the same container, and refuses before the kernel kills it or the JVM."""
    with memory_cgroup() as group:
        group.limit(alone + above * MIB)
        command = [sys.executable, "-m", "offheap", "run", mode, "-o", str(tmp_path / "x.offheap"), "--"]
        command += [
            str(jdk / "bin" / "java"),
            *STEADY,
            "-Xshare:auto",
            "-cp",
            str(waiting_classes),
            "Waiting",
        ]
        outcome = subprocess.run(
            command, preexec_fn=group.enter, input=b"\n", capture_output=True, timeout=120
        )
        said = outcome.stderr.decode()
        assert group.kills() == 0, said
        if outcome.returncode == 2:
            (line,) = said.splitlines()
            assert "for this recorder" in line
            assert "--force" in line
        else:
            assert outcome.returncode == 0, said


def test_force_loads_it_all_the_same(jdk: Path, waiting_classes: Path) -> None:
    with memory_cgroup() as group, confined(jdk / "bin" / "java", waiting_classes, group) as jvm:
        assert jvm.answers()
        group.limit(group.used() + 8 * MIB)
        started = control.start(jvm.pid, "budget=1%,force")
        assert jvm.answers()
        with LiveFile(started.live_file) as live_file:
            assert Coverage.SHORT_OF_MEMORY not in live_file.header.coverage
        stop_and_remove(jvm.pid, started)


def test_who_shares_a_limit() -> None:
    with memory_cgroup() as group:
        group.limit(512 * MIB)
        with subprocess.Popen(["sleep", "60"], preexec_fn=group.enter) as inside:
            try:
                room = cgroup.room(inside.pid)
                assert room
                assert room.limit == 512 * MIB
                assert cgroup.shares(inside.pid, room)
                assert not cgroup.shares(os.getpid(), room)
                allowed = admission.admit(inside.pid)
                assert allowed.bytes
                assert allowed.words == f"room={allowed.bytes}"
                assert 240 * MIB < allowed.bytes <= 256 * MIB
            finally:
                inside.kill()


def test_a_recorder_in_the_same_container(jdk: Path, waiting_classes: Path, tmp_path: Path) -> None:
    """The admission leaves room for the recorder's growth; otherwise the program would be killed first."""
    script = "import time\nfrom offheap.probe import admission\nimport sys\n"
    script += "try: print(admission.admit(int(sys.argv[1])).bytes)\nexcept Exception as error: print(error)"
    with memory_cgroup() as group, confined(jdk / "bin" / "java", waiting_classes, group) as jvm:
        assert jvm.answers()
        for above, expected in ((96, None), (24, "for this recorder: the probe may take 0 B")):
            group.limit(group.used() + above * MIB)
            command = [sys.executable, "-c", script, str(jvm.pid)]
            outcome = subprocess.run(
                command, preexec_fn=group.enter, capture_output=True, text=True, timeout=60
            )
            outside = admission.admit(jvm.pid)
            assert outside.bytes
            if expected:
                assert expected in outcome.stdout
                assert "record from outside of the container" in outcome.stdout
            else:
                assert 10 * MIB < int(outcome.stdout) < outside.bytes - 10 * MIB


def test_a_recorder_needs_no_more_than_is_kept_for_it(
    zoo: Zoo, jre: Callable[[int], Path], tmp_path: Path
) -> None:
    """What the kernel cannot drop, while it records, while it names frames, and while it writes Parquet."""
    output = tmp_path / "x.offheap"
    with Running(zoo.command(programs()["inflaters"], jre(17), 200)) as running:
        command = offheap("attach", str(running.pid), "--duration", "8s", "-o", output)
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as recorder:
            most = most_anonymous(recorder)
            assert recorder.returncode == 0, recorder.communicate()
    assert 0 < most.recording < most.writing
    # A recording of hours has more rows to write: test_journal.py measures what these take.
    assert most.writing + OF_LONG_TABLES < admission.RECORDER_BYTES, f"{most.writing / MIB:.1f} MiB"


def test_the_kernel_kills_the_recorder_first(jdk: Path, waiting_classes: Path, tmp_path: Path) -> None:
    script = (
        "from pathlib import Path; print(Path('/proc/self/oom_score_adj').read_text().strip(), end=' ')\n"
    )
    script += "print(Path('/proc/%d/oom_score_adj' % __import__('os').getppid()).read_text().strip())"
    command = [sys.executable, "-m", "offheap", "run", "-o", str(tmp_path / "x.offheap"), "--"]
    command += [sys.executable, "-c", script]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=120)
    before = Path("/proc/self/oom_score_adj").read_text().strip()
    assert outcome.stdout.split() == [before, "1000"], outcome.stderr


def test_the_refusal_has_the_figures_and_the_way_out(
    jdk: Path, waiting_classes: Path, tmp_path: Path
) -> None:
    with memory_cgroup() as group, confined(jdk / "bin" / "java", waiting_classes, group) as jvm:
        assert jvm.answers()
        group.limit(group.used() + 3 * MIB)
        said = (
            r"^the memory limit of PID \d+.s container is .*: the probe may take .*, and needs 2.1 MiB; raise"
        )
        with pytest.raises(UserError, match=said):
            control.start(jvm.pid)
        with pytest.raises(UserError, match=said):
            request.dump(jvm.pid, tmp_path)
        assert not control.loaded(jvm.pid)


def test_a_jemalloc_dump_near_the_limit(jdk: Path, waiting_classes: Path, tmp_path: Path) -> None:
    """It loads the probe, which this JVM without jemalloc then answers; the kernel kills nothing."""
    with memory_cgroup() as group, confined(jdk / "bin" / "java", waiting_classes, group) as jvm:
        assert jvm.answers()
        for above, force in ((8, False), (3, True)):
            group.limit(group.used() + above * MIB)
            with pytest.raises(UserError, match="found no jemalloc that profiles"):
                request.dump(jvm.pid, tmp_path, force=force)
        assert jvm.answers()
        assert group.kills() == 0
