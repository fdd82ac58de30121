"""`--jfr`: events in the recordings of JDK Flight Recorder, read back by the JDK's own tools."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import needs
from harness.jvms import java_homes
from harness.jvms.java_homes import JRE_VERSIONS
from harness.jvms.waiting_jvm import WaitingJVM, read_line, remove_live_files, waiting_jvm
from harness.jvms.zoo import Running, Zoo, programs
from harness.paths import JAVA
from offheap import recording
from offheap.analysis.leaks.leaks import ranking
from offheap.analysis.nmt.external import of_recording
from offheap.jfr.event_text import LeakSuspect, NativeMemory, ResidentSet, requests
from offheap.jfr.recorded_events import leak_suspects, native_memory
from offheap.jvm.listener.attach import AttachedVM
from offheap.probe import control

OFFHEAP = (sys.executable, "-m", "offheap")
# A recording that runs until it is dumped.
RECORDS = "-XX:StartFlightRecording=name=test"
EVENTS = (
    NativeMemory("libz.so", "malloc", 12_000_000, 42, 99_000_000),
    LeakSuspect(1, "leak", 0.987, "malloc", "com.Foo.b\u00e4r\u20ac", "libz.so", 123, 4, -5, "a\nb"),
    ResidentSet("java-heap", 1000, 2000),
)

pytestmark = pytest.mark.usefixtures("probe_library")


def printed(java: Path, jfr: Path) -> list[dict[str, str]]:
    """The events of offheap that `jfr print` finds, in order: the fields, the type as "type"."""
    own = java.parent / "jfr"  # Debian's JREs lack it
    tool = str(own) if own.exists() else needs.program("jfr", "which a JDK has")
    command = [tool, "print", "--events", "offheap.*", str(jfr)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, encoding="utf-8")
    assert told.returncode == 0, told.stderr
    found = []
    for name, body in re.findall(r"^offheap\.(\w+) \{\n(.*?)^\}", told.stdout, re.MULTILINE | re.DOTALL):
        fields = re.findall(r"^  (\w+) = (.*?)(?=\n  \w+ = |\n\Z)", body, re.MULTILINE | re.DOTALL)
        found.append({"type": name, **{key: value.strip('"') for key, value in fields}})
    return found


@contextmanager
def probed(jvm: WaitingJVM) -> Iterator[Callable[[str], int]]:
    """The probe records; what is yielded asks it."""
    control.start(jvm.pid, "interval=64k", passing=True)
    present = control.loaded(jvm.pid)
    assert present
    vm = AttachedVM(jvm.pid)
    try:
        yield lambda request: control.ask(vm, present.libraries[0], request)
    finally:
        remove_live_files(jvm.pid)


@pytest.mark.parametrize("version", JRE_VERSIONS)
def test_events_come_in_and_their_classes_go_again(
    version: int, jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    """GIVEN a JVM WHEN JFR starts, the probe commits and is detached THEN JFR has the events, the JVM no
    class of them."""
    dump = tmp_path / "dump.jfr"
    # A JVM that is killed leaves JFR's folder in its temporary folder.
    options = ("-Xcheck:jni", f"-Djava.io.tmpdir={tmp_path}")
    with waiting_jvm(jre(version), waiting_classes, *options) as jvm, probed(jvm) as ask:
        vm = AttachedVM(jvm.pid)
        (request,) = requests(EVENTS)
        assert ask("jfr") == control.JFR_IDLE
        assert ask(f"jfr={request}") == control.JFR_IDLE
        vm.jcmd("JFR.start name=test")
        assert ask("jfr") == control.OK
        assert ask(f"jfr={request}") == control.OK
        assert ask("jfr=0\x1flibz.so") == 101
        vm.jcmd("JFR.stop name=test filename=" + str(dump))
        assert ask(f"jfr={request}") == control.JFR_IDLE
        assert "offheap.NativeMemory" in vm.jcmd("GC.class_histogram -all")
        control.detach(jvm.pid)
        assert ask(f"jfr={request}") == control.NOT_RECORDING
        unloaded_by = time.monotonic() + 20
        while "offheap." in vm.jcmd("GC.class_histogram"):
            assert time.monotonic() < unloaded_by, "the event classes are still loaded"
            vm.jcmd("GC.run")
        assert jvm.answers()
        assert "WARNING in native" not in jvm.stderr()
        assert "FATAL ERROR" not in jvm.stderr()
    native, suspect, resident = printed(jre(version), dump)
    assert native["type"] == "NativeMemory"
    assert (native["library"], native["blocks"], native["live"]) == ("libz.so", "42", "11.4 MB")
    assert suspect["type"] == "LeakSuspect"
    assert (suspect["site"], suspect["confidence"]) == ("com.Foo.b\u00e4r\u20ac", "98.70%")
    assert suspect["path"] == "a\nb"
    assert "stackTrace" not in suspect
    assert (resident["type"], resident["owner"]) == ("ResidentSet", "java-heap")


def test_attach_reports_a_leak_to_jfr(jre: Callable[[int], Path], zoo: Zoo, tmp_path: Path) -> None:
    """GIVEN a leak under a JFR recording WHEN offheap attaches with --jfr THEN JFR names its library."""
    dump, output = tmp_path / "dump.jfr", tmp_path / "a.offheap"
    command = zoo.command(programs()["inflaters"], jre(21), 200)
    with Running([command[0], RECORDS, f"-Djava.io.tmpdir={tmp_path}", *command[1:]]) as program:
        program.truths(1)
        pid = program.process.pid
        told = subprocess.run(
            [*OFFHEAP, "attach", str(pid), "--duration", "8s", "--jfr-every", "1s", "-o", str(output)],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert told.returncode == 0, told.stderr
        assert "JDK Flight Recorder" not in told.stderr
        vm = AttachedVM(pid)
        vm.jcmd(f"JFR.dump name=test filename={dump}")
        before = printed(jre(21), dump)
        # Nothing in the JVM goes on.
        dump.unlink()
        vm.jcmd(f"JFR.stop name=test filename={dump}")
        assert len(printed(jre(21), dump)) == len(before)
    owners = {event["owner"] for event in before if event["type"] == "ResidentSet"}
    assert {"java-heap", "malloc", "metaspace"} <= owners
    libraries = {event["library"] for event in before if event["type"] == "NativeMemory"}
    assert "libzip.so" in libraries
    suspects = [event for event in before if event["type"] == "LeakSuspect"]
    assert all("Inflaters" in event["site"] for event in suspects if event["verdict"] == "leak")
    whole = recording.load(output)
    verdicts = Counter(verdict for verdict in ranking(whole).verdicts if verdict in ("leak", "growing"))
    assert Counter(suspect.verdict for suspect in leak_suspects(whole)) == verdicts
    external = of_recording(whole).category
    held = {kind: sum(e.live for e in native_memory(whole) if e.kind == kind) for kind in ("malloc", "mmap")}
    assert held["malloc"] == pytest.approx(external.malloc, rel=0.01)
    assert held["mmap"] == pytest.approx(external.mmap_committed, rel=0.01, abs=100)
    assert not [line for line in whole.info.coverage if "Flight Recorder" in line]


def test_run_streams_events_to_the_program_itself(jre: Callable[[int], Path], tmp_path: Path) -> None:
    """GIVEN a program that streams its own events WHEN it runs under offheap --jfr THEN it receives them."""
    homes = {version: home for version, home in java_homes.jdk_homes().items() if version >= 14}
    if not homes:
        needs.jdk(17)
    compiler = homes[min(homes)] / "bin" / "javac"
    command = [str(compiler), "--release", "17", "-d", str(tmp_path), str(JAVA / "Streaming.java")]
    subprocess.run(command, check=True, timeout=120)
    options = ["--jfr-every", "1s", "-o", str(tmp_path / "r.offheap")]
    java = [str(jre(25)), "-Xmx64m", "-XX:+EnableDynamicAgentLoading", "-cp", str(tmp_path), "Streaming"]
    process = subprocess.Popen(
        [*OFFHEAP, "run", *options, "--", *java],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert read_line(process, 60.0) == b"ready\n"
        resident, total = map(int, read_line(process, 60.0).split())
        assert 1 << 20 < resident < total
        _, told = process.communicate(b"\n", timeout=60)
        assert process.returncode == 0
        assert b"WARNING" not in told
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--limit-modules", "java.base"), "the JVM runs without the module jdk.jfr"),
        ((), "it had no recording that takes them"),
    ],
)
def test_coverage_says_why_jfr_has_no_events(
    options: tuple[str, ...],
    sentence: str,
    jre: Callable[[int], Path],
    waiting_classes: Path,
    tmp_path: Path,
) -> None:
    """The recording itself is made in any case."""
    output = tmp_path / "a.offheap"
    with waiting_jvm(jre(17), waiting_classes, *options) as jvm:
        told = subprocess.run(
            [*OFFHEAP, "attach", str(jvm.pid), "--duration", "3s", "--jfr", "-o", str(output)],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert told.returncode == 0, told.stderr
        assert told.stderr.count(sentence) == 1
        assert jvm.answers()
    found = recording.load(output)
    assert found.info.ended == "detached"
    assert [line for line in found.info.coverage if sentence in line] == [
        f"no event reached JDK Flight Recorder: {sentence}"
    ]


def test_a_time_below_a_second_is_refused(tmp_path: Path) -> None:
    told = subprocess.run(
        [*OFFHEAP, "run", "--jfr-every", "200ms", "-o", str(tmp_path / "a.offheap"), "--", "true"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert told.returncode == 2
    assert "--jfr-every must be 1s or more" in told.stderr
