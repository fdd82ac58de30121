"""Programs that allocate native memory by known call paths, and what a recording must say of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.paths import JAVA
from offheap.recording.model import Frame, Recording

TIMES = 40
# Frames of each way to native memory, innermost first, from the last native function outward.
INFLATER_INIT = "Java_java_util_zip_Inflater_init"
UNSAFE = (  # below it Unsafe_AllocateMemory0, which JDK 25 leaves by a tail call
    "jdk.internal.misc.Unsafe.allocateMemory0",
    "jdk.internal.misc.Unsafe.allocateMemory",
)
CHAINS = {
    "Allocations.inflater": (
        INFLATER_INIT,
        "java.util.zip.Inflater.init",
        "java.util.zip.Inflater.<init>",
        "java.util.zip.Inflater.<init>",
        "Allocations.inflater",
        "Allocations.all",
    ),
    "Allocations.unsafe": (
        *UNSAFE,
        "sun.misc.Unsafe.allocateMemory",
        "Allocations.unsafe",
        "Allocations.all",
    ),
    "Allocations.direct": (
        *UNSAFE,
        "java.nio.DirectByteBuffer.<init>",
        "java.nio.ByteBuffer.allocateDirect",
        "Allocations.direct",
        "Allocations.all",
    ),
}
THREAD = "allocating thread with a long name"


@dataclass(frozen=True)
class Live:
    """What is live below some methods."""

    sizes: list[int]  # of every block
    threads: set[str]
    stacks: list[list[Frame]]


def live_below(found: Recording, *methods: str) -> Live:
    """The live blocks whose stacks contain all of these methods."""
    numbers = [
        number
        for number in range(len(found.stack_kinds))
        if set(methods) <= {frame.name for frame in found.stack(number)}
    ]
    rows = found.live[np.isin(found.live["stack"], numbers)]
    return Live(
        [int(size) for size in rows["size"]],
        {found.threads[number] for number in rows["thread"]},
        [found.stack(int(number)) for number in np.unique(rows["stack"])],
    )


def names(stack: list[Frame]) -> list[str]:
    return [frame.name for frame in stack]


def contains(stack: list[Frame], chain: tuple[str, ...]) -> bool:
    return any(tuple(names(stack)[i : i + len(chain)]) == chain for i in range(len(stack)))


def line_of(source: str, text: str) -> int:
    return next(n for n, line in enumerate((JAVA / source).read_text().splitlines(), 1) if text in line)


def check_allocations(found: Recording, thread: str = THREAD) -> None:
    """THEN every block that Allocations keeps is there, and its stack has no unknown frame in it."""
    # The second function: linking a call site, for one, also allocates below the first.
    inflaters = live_below(found, "Allocations.inflater", INFLATER_INIT)
    unsafe = live_below(found, "Allocations.unsafe", "jdk.internal.misc.Unsafe.allocateMemory0")
    direct = live_below(found, "Allocations.direct", "jdk.internal.misc.Unsafe.allocateMemory0")
    mapper = "sun.nio.ch.UnixFileDispatcherImpl.map0"  # since JDK 21
    mapped = live_below(found, "Allocations.mapped", mapper)
    if not mapped.stacks:
        mapped = live_below(found, "Allocations.mapped", "sun.nio.ch.FileChannelImpl.map0")

    assert len(inflaters.sizes) == 2 * TIMES, inflaters  # zlib's z_stream and its state
    assert len(unsafe.sizes) == TIMES, unsafe
    assert set(unsafe.sizes) <= {4001, 4008}  # JDK 11 rounds up to words
    assert len(direct.sizes) == TIMES, direct
    assert set(direct.sizes) <= {3001, 3008}
    assert len(mapped.sizes) == TIMES, mapped
    assert all(70_000 <= size <= 73_728 for size in mapped.sizes)

    for method, live in zip(CHAINS, (inflaters, unsafe, direct), strict=True):
        assert [names(stack) for stack in live.stacks if not contains(stack, CHAINS[method])] == []
    for live in (inflaters, unsafe, direct, mapped):
        assert [names(stack) for stack in live.stacks if any(f.kind == "unknown" for f in stack)] == []
        assert live.threads == {thread}
    lines = {f.line for stack in inflaters.stacks for f in stack if f.name == "Allocations.inflater"}
    assert lines == {line_of("Allocations.java", "new Inflater()")}


def run(
    command: Sequence[object], environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    outcome = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert outcome.returncode == 0, outcome.stderr + outcome.stdout
    return outcome


def preload(library: Path, live_file: Path, options: str = "interval=0") -> dict[str, str]:
    return {"LD_PRELOAD": str(library), "OFFHEAP": f"{options},file={live_file}"}


@contextlib.contextmanager
def started(
    command: Sequence[object], environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [str(word) for word in command],
        env={**os.environ, **(environment or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def waiting(command: Sequence[object]) -> Iterator[subprocess.Popen[str]]:
    """A JVM that has said "ready"."""
    with started(command) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process


def ask(process: subprocess.Popen[str]) -> str:
    """Sends an empty line, returns the line that answers it."""
    assert process.stdin
    assert process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline()
