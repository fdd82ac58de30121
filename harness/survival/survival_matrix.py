"""The matrix of survival: one stress program on JVMs of every kind, alone and under the probe.

A cell passes when the JVM under the probe ends with the exit status and the output it has without, leaves no
hs_err file, and what the probe wrote is read like any recording.  `make soak` runs the whole matrix,
test_soak.py runs one cell of each JDK.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.jvms import collectors, java_homes
from harness.jvms.collectors import COLLECTORS
from harness.paths import JAVA
from offheap import recording
from offheap.analysis.totals import totals
from offheap.errors import UserError
from offheap.probe import control

JDKS = (11, 17, 21, 25)
FLAGS: dict[str, tuple[str, ...]] = {
    "default": (),
    "-Xint": ("-Xint",),
    "-Xcomp": ("-Xcomp",),
    "-Xcheck:jni": ("-Xcheck:jni",),
    "no compressed oops": ("-XX:-UseCompressedOops",),
    "NMT summary": ("-XX:NativeMemoryTracking=summary",),
    "NMT detail": ("-XX:NativeMemoryTracking=detail",),
    "frame pointers": ("-XX:+PreserveFramePointer",),
}
Entry = Literal["preload", "attach"]
ENTRIES: tuple[Entry, ...] = ("preload", "attach")
ENDS = ("return", "exit", "memory")
# Counts of the stress program, undivided.
WORK = {
    "threads": 10_000,
    "loaders": 5_000,
    "virtual": 20_000,
    "nulls": 200_000,
    "overflows": 1_000,
    "children": 400,
    "redefinitions": 400,
}
SECONDS = 600.0
_BETWEEN_ATTACHES = 0.1
# An object in some hundred: the stress is short.
_JAVA_HEAP = ",java,java-interval=16384"


@dataclass(frozen=True)
class Machine:
    """A JVM with its options, and how the program in it ends."""

    jdk: int
    collector: str
    flags: str
    end: str

    def __str__(self) -> str:
        return f"{self.jdk} {self.collector} {self.flags} {self.end}"


@dataclass(frozen=True)
class Ended:
    """The end of a JVM: its exit status (-n: by signal n) and its output."""

    status: int
    output: str
    complaints: str


@dataclass(frozen=True)
class Cell:
    """A machine, and how the probe comes in."""

    machine: Machine
    entry: Entry
    exact: bool

    def __str__(self) -> str:
        return f"{self.machine} {self.entry} {'exact' if self.exact else 'sampled'}"


@dataclass(frozen=True)
class Result:
    """failures   sentences; none: the cell passed
    attaches   how often the probe came in
    samples    blocks and mappings in all recordings, freed or not
    lost       losses that the recordings state, summed by their name
    objects    Java objects in all recordings, collected or not
    """

    failures: tuple[str, ...]
    attaches: int
    samples: int
    lost: Mapping[str, int]
    objects: int = 0


@dataclass
class _Recorded:
    """The contents of a cell's live files, added up."""

    java_heap: bool
    samples: int = 0
    objects: int = 0
    lost: dict[str, int] = field(default_factory=dict)

    def add(self, live_file: Path) -> list[str]:
        """Reads a live file as every command does, and returns what is wrong with it."""
        try:
            found = recording.load(live_file)
        except UserError as error:
            return [] if not live_file.exists() else [f"the live file cannot be read: {error}"]
        self.samples += totals.samples(found)
        self.objects += totals.samples(found.java) if found.java else 0
        for name, count in found.info.lost.items():
            self.lost[name] = self.lost.get(name, 0) + count
        return []

    def result(self, attaches: int, failures: Sequence[str]) -> Result:
        # A probe that records nothing survives everything.
        empty = [] if self.samples else ["nothing was recorded"]
        if self.java_heap and not self.objects:
            empty.append("no Java object was recorded")
        return Result(
            (*failures, *(empty if not failures else [])), attaches, self.samples, self.lost, self.objects
        )


def machines() -> list[Machine]:
    """Every JDK with every collector and flags; ends take turns, so that each meets every other option."""
    product = enumerate(itertools.product(JDKS, COLLECTORS, FLAGS))
    return [
        Machine(jdk, collector, flags, ENDS[(turn + turn // len(ENDS)) % len(ENDS)])
        for turn, (jdk, collector, flags) in product
    ]


def cells(machines: Sequence[Machine]) -> list[Cell]:
    """Both ways in for every machine, one sampled and one exact by turns; then all the other way round."""
    turns = [(machine, (turn + turn // len(FLAGS)) % 2 == 0) for turn, machine in enumerate(machines)]
    return [
        Cell(machine, entry, (entry == "preload") is (even is first))
        for first in (True, False)
        for machine, even in turns
        for entry in ENTRIES
    ]


def _options(exact: bool) -> str:
    """Options of the probe: every block, or the default."""
    return "exact" if exact else "budget=1%"


class Stress:
    """Runs harness/programs/java/Stress.java; `divisor` divides its counts (1: 10,000 threads and so on).

    With `java_heap` the probe follows Java objects as well.
    """

    def __init__(
        self, jdk_home: Path, scratch: Path, *, divisor: int, library: Path, java_heap: bool = False
    ) -> None:
        self.jdk_home = jdk_home
        self._scratch = scratch
        self._divisor = divisor
        self.library = library
        self._java_heap = java_heap
        self._jar = compile_stress(jdk_home, scratch)
        self._alone: dict[Machine, Ended] = {}

    def present(self, machine: Machine) -> bool:
        """Whether this JDK was built with this collector."""
        return collectors.present(java_homes.java(machine.jdk), COLLECTORS[machine.collector])

    def run(self, cell: Cell) -> Result:
        alone = self._alone.get(cell.machine)
        if alone is None:
            with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
                process = self._start(cell.machine, Path(folder), {})
                _go(process)
                alone = self._alone[cell.machine] = self._finish(process, Path(folder))
        with tempfile.TemporaryDirectory(dir=self._scratch) as name:
            return (self._preload if cell.entry == "preload" else self._attach)(cell, alone, Path(name))

    def _words(self, cell: Cell) -> str:
        return _options(cell.exact) + (_JAVA_HEAP if self._java_heap else "")

    def _preload(self, cell: Cell, alone: Ended, folder: Path) -> Result:
        options = self._words(cell)
        variables = {"LD_PRELOAD": str(self.library), "OFFHEAP": f"{options},dir={folder}"}
        process = self._start(cell.machine, folder, variables)
        _go(process)
        ended = self._finish(process, folder)
        failures = [*_differences(alone, ended), *_crashes(folder)]
        recorded = _Recorded(self._java_heap)
        files = sorted(folder.glob("offheap-*.live"))
        if len(files) != 1:
            failures.append(f"{len(files)} live files, not 1")
        for file in files:
            failures += recorded.add(file)
        return recorded.result(0, failures)

    def _attach(self, cell: Cell, alone: Ended, folder: Path) -> Result:
        process = self._start(cell.machine, folder, {})
        attacher = _Attacher(process, self._words(cell), _Recorded(self._java_heap), exact=cell.exact)
        thread = threading.Thread(target=attacher.work)
        thread.start()
        try:
            # A short stress may be over before the probe has come in.
            attacher.came_in.wait(SECONDS)
            _go(process)
            ended = self._finish(process, folder)
        finally:
            thread.join()
        failures = [*_differences(alone, ended), *_crashes(folder), *attacher.failures]
        if not attacher.attaches and not attacher.failures:
            failures.append("the probe never came in")
        return attacher.recorded.result(attacher.attaches, failures)

    def _start(self, machine: Machine, folder: Path, variables: Mapping[str, str]) -> subprocess.Popen[str]:
        """A JVM that is ready to begin its stress."""
        command = [
            *(str(java_homes.java(machine.jdk)), "-Xmx192m", "-XX:+ExitOnOutOfMemoryError"),
            *COLLECTORS[machine.collector],
            *FLAGS[machine.flags],
            *(f"-javaagent:{self._jar}", "-cp", str(self._jar), "Stress", str(self._divisor), machine.end),
        ]
        environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "OFFHEAP")}
        with open(folder / "stderr", "w") as complaints:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env={**environment, **variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
            )
        _await_ready(process)
        return process

    def _finish(self, process: subprocess.Popen[str], folder: Path) -> Ended:
        assert process.stdout
        assert process.stdin
        timer = threading.Timer(SECONDS, process.kill)
        timer.start()
        try:
            output = process.stdout.read()
            status = process.wait()
        finally:
            timer.cancel()
            process.kill()
            process.stdin.close()
            process.stdout.close()
        return Ended(status, output, (folder / "stderr").read_text())


class _Attacher:
    """Attaches and detaches until the process has ended."""

    def __init__(
        self, process: subprocess.Popen[str], options: str, recorded: _Recorded, *, exact: bool
    ) -> None:
        self._process = process
        self._options = options
        self._exact = exact
        self.came_in = threading.Event()
        self.attaches = 0
        self.failures: list[str] = []
        self.recorded = recorded

    def work(self) -> None:
        pid = self._process.pid
        while self._process.returncode is None:
            try:
                live_file = control.start(pid, self._options).live_file
            except UserError as error:
                if self._alive():
                    self.failures.append(str(error))
                break
            finally:
                self.came_in.set()
            self.attaches += 1
            try:
                time.sleep(_BETWEEN_ATTACHES)
                if self._exact and self.attaches % 4 == 3:
                    time.sleep(1.0)
                control.detach(pid)
            except UserError as error:
                if self._alive():
                    self.failures.append(str(error))
                    break
            finally:
                self.failures += self.recorded.add(live_file)
                live_file.unlink(missing_ok=True)

    def _alive(self) -> bool:
        """Whether the process lives; its end may be visible here before the parent has waited for it."""
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            return True
        return False


def _await_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout
    line = process.stdout.readline()
    while line and line != "ready\n":
        line = process.stdout.readline()


def _go(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    try:
        process.stdin.write("\n")
        process.stdin.flush()
    except BrokenPipeError:
        pass  # it has ended, and its status says how


def _differences(alone: Ended, ended: Ended) -> Iterator[str]:
    if ended.status != alone.status:
        yield f"exit status {ended.status}, without the probe {alone.status}"
    if _SIGNALS.sub("", ended.output) != _SIGNALS.sub("", alone.output):
        yield f"printed {ended.output[-300:]!r}, without the probe {alone.output[-300:]!r}"
    if (new := _sentences(ended)) - _sentences(alone):
        yield f"said {sorted(new - _sentences(alone))[0][:300]!r}"


# -Xcheck:jni lists the signal handlers, once, if one is not the JVM's: under nohup that of SIGHUP is not, in
# the background of a script that of SIGINT; and on 17, now and then, when an OutOfMemoryError ends the JVM,
# that of SIGSEGV: by then it may end in the middle of a line.
_SIGNALS = re.compile(
    r"^(?:Warning: SIG\w+ handler |Running in non-interactive shell|Signal Handlers:"
    r"| *SIG\w+: | *found: | *expected: | *\*\*\* ).*(?:\n|\Z)",
    re.MULTILINE,
)


def _sentences(ended: Ended) -> set[str]:
    """The lines of stderr without numbers, and without the warnings of newer JVMs about late agents."""
    lines = (line for line in ended.complaints.splitlines() if not line.startswith("WARNING: "))
    return {re.sub(r"[0-9.,]+", "#", line) for line in lines}


def _crashes(folder: Path) -> Iterator[str]:
    for file in sorted([*folder.glob("hs_err*"), *folder.glob("core*")]):
        text = file.read_text(errors="replace") if file.name.startswith("hs_err") else ""
        yield f"{file.name}: {' '.join(text.split())[:600]}"


def printed(divisor: int) -> str:
    """The output of Stress.java after one `divisor`-th of its work."""
    return "".join(f"{name} {count // divisor}\n" for name, count in WORK.items())


def compile_stress(jdk_home: Path, scratch: Path) -> Path:
    """stress.jar: the program, and itself as its Java agent."""
    return compile_agent(jdk_home, JAVA / "Stress.java", scratch)


def compile_agent(jdk_home: Path, source: Path, scratch: Path) -> Path:
    """A jar of the program that may also be its own Java agent."""
    name = source.stem
    classes = scratch / name.lower()
    command: Sequence[str | Path] = [
        *(jdk_home / "bin" / "javac", "--release", "11", "-nowarn", "-d", classes, source)
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    jar = classes.with_suffix(".jar")
    with zipfile.ZipFile(jar, "w") as archive:
        manifest = (
            f"Manifest-Version: 1.0\nPremain-Class: {name}\n"
            "Can-Redefine-Classes: true\nCan-Retransform-Classes: true\n"
        )
        archive.writestr("META-INF/MANIFEST.MF", manifest)
        for file in sorted(classes.glob("*.class")):
            archive.write(file, file.name)
    return jar
