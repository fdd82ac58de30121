"""What the accounting of a process's memory returns and reports render."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from offheap.analysis.native_heap.results import NativeHeap
from offheap.jvm.direct_memory import DirectMemory
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
    """One line below an owner: bytes of RSS under one name, in how many ranges, or blocks of malloc."""

    name: str
    bytes: int
    ranges: int


@dataclass(frozen=True, slots=True)
class Holding:
    """What one owner holds of RSS.

    counted  False: pages that were found; True: bytes that the JVM counts within malloc's pages, which
             are not found one by one: Native Memory Tracking, or java.nio.Bits of direct buffers
    """

    owner: Owner
    bytes: int
    parts: tuple[Part, ...]
    counted: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """Addresses [start, end) with their permissions, who has them, and how many bytes are in memory.

    owner  before malloc's pages are split by who has the blocks on them; None: nobody's
    name   the line below that owner
    """

    start: int
    end: int
    permissions: str
    owner: Owner | None
    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Accounts:
    """RSS in bytes split so that holdings and unattributed are exactly its sum.

    memory        of the whole process, from the same reading as the holdings
    native_heap   malloc's memory from inside; None where it could not be walked
    ranges        every range that has memory, by address; together exactly RSS
    sources       what told it, besides /proc
    allocator     the library that has malloc's place, such as jemalloc; "" for glibc's own
    missing       sentences: what could not be told, why, and what would tell it
    direct        what the JDK counts of direct buffers; None where it could not be read
    cost_bytes    the pages that the JVM's threads which answered us brought into memory meanwhile
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
    direct: DirectMemory | None = None

    @property
    def unattributed_bytes(self) -> int:
        return sum(part.bytes for part in self.unattributed)


@dataclass(frozen=True, slots=True)
class JVMAccounts:
    """A JVM with its accounts, or with the reason why there are none."""

    pid: int
    name: str
    accounts: Accounts | None
    error: str = ""
