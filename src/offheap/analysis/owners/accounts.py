"""The results of the accounting of a process's memory, which reports render."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from offheap.analysis.native_heap.results import NativeHeap
from offheap.jvm.structures.direct_memory import DirectMemory
from offheap.proc.cgroup import Cgroup
from offheap.proc.smaps import Memory

Owner = Literal[
    "java-heap",
    "metaspace",
    "class-space",
    "code-cache",
    "cds",
    "gc",
    "thread-stacks",
    "jvm-other",
    "direct-buffers",
    "jvm-malloc",
    "malloc",
    "malloc-free",
    "shared-libraries",
    "jars",
    "mapped-files",
    "anonymous",
    "probe",
    "kernel",
]

TITLES: dict[Owner, str] = {
    "java-heap": "Java heap",
    "metaspace": "metaspace",
    "class-space": "class space",
    "code-cache": "code cache",
    "cds": "CDS archives",
    "gc": "GC structures",
    "thread-stacks": "thread stacks",
    "jvm-other": "other memory of the JVM",
    "direct-buffers": "direct buffers, Unsafe, FFM",
    "jvm-malloc": "the JVM's malloc",
    "malloc": "malloc",
    "malloc-free": "free, kept by malloc",
    "shared-libraries": "shared libraries",
    "jars": "jars and modules",
    "mapped-files": "mapped files",
    "anonymous": "anonymous mmap, not the JVM's",
    "probe": "offheap's probe",
    "kernel": "kernel's pages",
}


@dataclass(frozen=True, slots=True)
class Part:
    """One line below an owner: bytes of RSS under one name, and the number of ranges or malloc blocks."""

    name: str
    bytes: int
    ranges: int


@dataclass(frozen=True, slots=True)
class Holding:
    """The part of RSS that one owner holds.

    counted  False: pages that were found; True: bytes within malloc's pages that only the JVM's counters show
             (Native Memory Tracking, or java.nio.Bits for direct buffers)
    """

    owner: Owner
    bytes: int
    parts: tuple[Part, ...]
    counted: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """Addresses [start, end) with their permissions, owner, and bytes in memory.

    owner  before malloc's pages are split by the owners of their blocks; None: no owner
    name   the line below that owner
    """

    start: int
    end: int
    permissions: str
    owner: Owner | None
    name: str
    bytes: int


def total_bytes(lines: Iterable[Part | Placed]) -> int:
    return sum(line.bytes for line in lines)


@dataclass(frozen=True, slots=True)
class MappedSpace:
    """Bytes of address space, in memory or not, of mapped files, and of shared libraries and jars."""

    files: int = 0
    libraries: int = 0


@dataclass(frozen=True, slots=True)
class Accounts:
    """RSS in bytes, split: holdings and unattributed sum to it exactly.

    memory        of the whole process, from the same reading as the holdings
    native_heap   malloc's memory from inside; None if offheap could not walk it
    ranges        every range with memory, by address; together exactly RSS
    sources       sources of the data besides /proc
    allocator     the library that replaces malloc, such as jemalloc; "" for glibc's own
    missing       sentences: which data are missing, why, and how to get them
    direct        the JDK's counters of direct buffers; None if offheap could not read them
    counters      the JVM's own counters as gauges (docs/recording-format.md); {} if it publishes none
    space         the address space of files
    cost_bytes    pages that the JVM's threads brought into memory to answer offheap
    """

    pid: int
    name: str
    java_version: str
    memory: Memory
    holdings: tuple[Holding, ...]
    unattributed: tuple[Part, ...]
    cgroup: Cgroup | None
    native_heap: NativeHeap | None
    ranges: tuple[Placed, ...]
    sources: tuple[str, ...]
    missing: tuple[str, ...]
    seconds: float
    cost_bytes: int
    allocator: str = ""
    space: MappedSpace = MappedSpace()
    direct: DirectMemory | None = None
    counters: Mapping[str, float] = field(default_factory=dict)

    @property
    def unattributed_bytes(self) -> int:
        return total_bytes(self.unattributed)

    def share(self, size: int) -> float:
        """Of RSS, 0 to 1; 0 if there is none."""
        return size / self.memory.rss if self.memory.rss else 0.0

    def by_group(self, groups: Iterable[tuple[Owner, ...]]) -> tuple[tuple[int, ...], int]:
        """The bytes of each group of owners, and the bytes of RSS that are in none."""
        held = {holding.owner: holding.bytes for holding in self.holdings}
        sizes = tuple(sum(held.get(owner, 0) for owner in owners) for owners in groups)
        return sizes, self.memory.rss - sum(sizes)


@dataclass(frozen=True, slots=True)
class JVMAccounts:
    """A JVM with its accounts, or with the reason for their absence."""

    pid: int
    name: str
    accounts: Accounts | None
    error: str = ""
