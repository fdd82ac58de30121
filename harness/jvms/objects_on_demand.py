"""A JVM that holds as many Java objects as a test says, and what a live file knows of them."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness import public_folders
from harness.jvms.waiting_jvm import WaitingJVM, read_line, waiting_jvm
from harness.paths import JAVA
from harness.waiting import wait_until
from offheap.probe import control
from offheap.probe.contract import (
    FRAME_KIND_SHIFT,
    FRAME_METHOD_MASK,
    FRAME_METHOD_SHIFT,
    FrameKind,
    JavaHeapState,
    StackKind,
)
from offheap.probe.live_files.live_file import LiveFile

SMALL_BYTES, LARGE_BYTES = 216, 65_536  # of a byte[], the header included
COLLECTORS = {
    "serial": ("-XX:+UseSerialGC",),
    "parallel": ("-XX:-UseSerialGC", "-XX:+UseParallelGC"),
    "g1": ("-XX:-UseSerialGC", "-XX:+UseG1GC"),
    "z": ("-XX:-UseSerialGC", "-XX:+UnlockExperimentalVMOptions", "-XX:+UseZGC"),
    "shenandoah": ("-XX:-UseSerialGC", "-XX:+UnlockExperimentalVMOptions", "-XX:+UseShenandoahGC"),
}


class ObjectsOnDemand:
    """The program; `do("small 1000")` returns when it has done that."""

    def __init__(self, jvm: WaitingJVM) -> None:
        self.pid = jvm.pid
        self._jvm = jvm

    def do(self, *commands: str) -> None:
        for command in commands:
            assert self._jvm.process.stdin
            self._jvm.process.stdin.write(f"{command}\n".encode())
            self._jvm.process.stdin.flush()
            assert read_line(self._jvm.process, 120.0) == b"done\n", self._jvm.stderr()

    def kill(self) -> None:
        self._jvm.process.kill()
        self._jvm.process.wait(60)


@functools.cache
def compile_objects_on_demand(jdk: Path) -> Path:
    folder = public_folders.make("objects-on-demand")
    command = [str(jdk / "bin" / "javac"), "--release", "11", "-d", str(folder)]
    sources = [str(JAVA / f"{name}.java") for name in ("ObjectsOnDemand", "ManyClasses")]
    subprocess.run([*command, *sources], check=True, capture_output=True, timeout=120)
    return folder


@contextlib.contextmanager
def objects_on_demand(
    java: Path, jdk: Path, collector: str, options: Sequence[str] = ()
) -> Iterator[ObjectsOnDemand]:
    flags = (*COLLECTORS[collector], "-Xmx512m", *options)
    with waiting_jvm(java, compile_objects_on_demand(jdk), *flags, main="ObjectsOnDemand") as jvm:
        yield ObjectsOnDemand(jvm)


def attach(program: ObjectsOnDemand, words: str) -> Path:
    """The live file of a recording with these options, once the JVM has objects of it to sample."""
    started = control.start(program.pid, words)
    assert started.live_file
    undecided = (JavaHeapState.REQUESTED, JavaHeapState.NOT_REQUESTED)
    wait_until(lambda: state(started.live_file) not in undecided)
    # HotSpot samples a thread from its next TLAB on, which may be 2 MB away, and then by its old countdown.
    program.do("churn 16")
    return started.live_file


def detach(program: ObjectsOnDemand, live_file: Path) -> None:
    control.detach(program.pid)
    live_file.unlink(missing_ok=True)


def state(live_file: Path) -> JavaHeapState:
    with LiveFile(live_file) as source:
        return JavaHeapState(int(source._raw_header()["java_heap"]))


@dataclass(frozen=True)
class Followed:
    """The objects of a method in the live file: their estimated bytes, and the standard error of these."""

    rows: int
    bytes: float
    error: float
    classes: frozenset[str]  # signatures
    codes: frozenset[float]  # probabilities


def followed(live_file: Path, method: str, *, itself: bool = False) -> Followed:
    """What a live file knows of objects that a method of the program allocated.

    itself  without those of the methods that it calls: the JDK may make some of its own, once
    """
    with LiveFile(live_file) as source:
        live, stacks = source.live(), source.stacks(0, final=True)
        live = live[stacks.rows["kind"][live["stack"]] == StackKind.JAVA]
        ends = np.cumsum(stacks.depths)
        chosen, classes = np.zeros(len(live), np.bool_), set()
        for stack in np.unique(live["stack"]).tolist():
            frames = stacks.frames[ends[stack] - stacks.depths[stack] : ends[stack]].tolist()
            java = [frame for frame in frames if frame >> FRAME_KIND_SHIFT == FrameKind.JAVA]
            if not java:
                continue
            slots = np.array([frame >> FRAME_METHOD_SHIFT & FRAME_METHOD_MASK for frame in java], np.int64)
            names = [source.string(int(row["name"])) for row in source.methods(slots)]
            if method in names[: 1 if itself else None]:
                assert frames[0] >> FRAME_KIND_SHIFT == FrameKind.CLASS
                classes.add(source.string(frames[0] & 0xFFFFFFFF))
                chosen |= live["stack"] == stack
    live = live[chosen]
    size, p = live["size"].astype(np.float64), live["probability"]
    return Followed(
        rows=len(live),
        bytes=float((size / p).sum()),
        error=float(np.sqrt((size**2 * (1 - p) / p**2).sum())),
        classes=frozenset(classes),
        codes=frozenset(p.tolist()),
    )


def swept(live_file: Path, seconds: float = 30.0) -> None:
    """Waits until the probe has taken out what was dead when this was called."""
    deadline, now = time.monotonic() + seconds, time.monotonic_ns()
    while True:
        with LiveFile(live_file) as source:
            raw = source._raw_header()
        assert raw["java_heap"] == JavaHeapState.FOLLOWED
        if raw["java_swept_ns"] > now:
            return
        assert time.monotonic() < deadline, "the probe swept no more"
        time.sleep(0.05)
