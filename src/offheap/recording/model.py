"""What a recording holds, as analysis sees it: no file, no PID, only values.

`recording.load(path)` makes one from a live file or from a finished recording;
symbols and method names are already in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offheap.recording.calls import Calls

MALLOC, MMAP, JAVA = 1, 2, 3  # kinds of stacks: enum offheap_stack_kind in recording.h

_SHORTEST_SECONDS = 1e-3  # of a recording, where its duration divides
SHORTEST_AXIS = 0.01  # seconds, of a time since the start that is cut into parts

Kind = Literal["native", "java", "jvm", "kernel", "class", "unknown"]


# No dataclass: a recording has tens of thousands, and a tuple is made and hashed in less than half the time.
class Frame(NamedTuple):
    """One function of a call stack.

    name    demangled native name, or Java's `java.util.zip.Inflater.init`; never empty:
            an address without a symbol reads `libfoo.so+0x1234`, one in no module `0x7f...`
    kind    jvm: a function of libjvm.so; class: no function but a Java object's class, innermost in its
            stack; unknown: a gap, its name says why
    module  base name of the ELF image; of a class, the class of its elements if it is an array, else itself;
            "" if none
    file    source file, "" if not known
    line    0 if not known
    inlined True when the compiler had inlined it into the next outer frame
    """

    name: str
    kind: Kind
    module: str = ""
    file: str = ""
    line: int = 0
    inlined: bool = False


Chain = tuple[Frame, ...]  # what is at one address, innermost first: several where the compiler inlined

UNNAMED = Frame("unknown Java method", "unknown")


@dataclass(frozen=True, slots=True)
class Module:
    """An ELF image of the recorded process; `build_id` in hexadecimal, "" if it has none."""

    path: str
    build_id: str
    start: int
    end: int
    bias: int


@dataclass(frozen=True, slots=True)
class Budget:
    """The CPU that sampling was granted and spent, and the resulting intervals."""

    share: float  # granted, of the process's CPU time
    cpu_seconds: float  # of the process while it was recorded
    spent_seconds: float  # of these, its threads in taking samples
    least_interval_bytes: int  # the mean that any size class ever had
    greatest_interval_bytes: int
    last_interval_bytes: int  # of the class sampled most rarely

    @property
    def spent_share(self) -> float:
        return self.spent_seconds / self.cpu_seconds if self.cpu_seconds > 0 else 0.0


JavaHeapState = Literal["requested", "followed", "taken", "unavailable"]


@dataclass(frozen=True, slots=True)
class JavaHeap:
    """How a recording follows Java objects.

    state           requested: no JVM came; taken: another agent holds the capability, which only one may
                    have; unavailable: the JVM has no such event.  All else is 0 unless it is "followed"
    interval_bytes  mean bytes between samples, of the next objects
    followed, most  objects that are followed at the end, and that can be
    thinned         times that followed objects were thinned at random, because there were `most`
    collections     garbage collections, or their pauses, that the probe saw
    collected       seconds since the start: begin of the last collection, or pause of one, whose dead objects
                    are not in the live set any more
    swept           seconds since the start: objects that were dead to the collector then are not in the live
                    set any more
    spent_seconds   CPU that samples of Java objects took; not a part of Budget.spent_seconds
    """

    state: JavaHeapState
    interval_bytes: int = 0
    followed: int = 0
    most: int = 0
    thinned: int = 0
    collections: int = 0
    collected: float = 0.0
    swept: float = 0.0
    spent_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RecorderCost:
    """The cost of the recorder's own process; sampling's cost in the recorded process is in Budget."""

    cpu_seconds: float  # from its start to the last snapshot
    rss_bytes: int  # at most, before that; then native frames get their names, and the tables are written


@dataclass(frozen=True, slots=True)
class Info:
    """About the recording as a whole.  Times: `start` is seconds since the epoch, UTC."""

    path: str
    pid: int
    mode: Literal["sampled", "exact"]
    interval_bytes: int  # 0 when exact; under a budget the mean over time of the class sampled most rarely
    start: float
    duration_seconds: float
    ended: Literal["recording", "detached", "exited", "killed"]
    entry: Literal["preload", "agentpath", "attach", "import"]
    java_version: str = ""  # "" when no JVM was met
    main_class: str = ""
    command_line: tuple[str, ...] = ()
    jvm_flags: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    lost: dict[str, int] = field(
        default_factory=dict
    )  # keys: recording.h's losses in lower case, non-zero ones
    joined: int = 0  # samples whose Java frames joined the native ones
    coverage: tuple[str, ...] = ()  # sentences: what could not be seen, and why
    probe_version: str = ""
    # When the live set was taken, seconds since the start; 0.0: at the end.  A recorder that was
    # killed leaves one that is older than its last snapshot: a large one is not written each time.
    live_time: float = 0.0
    budget: Budget | None = None  # None: the interval was fixed
    recorder: RecorderCost | None = None  # None: not known, or a live file
    java_heap: JavaHeap | None = None  # None: Java objects were not requested
    memory_limit: int = 0  # bytes, of the process's cgroup as recording began; 0: none, or not known
    process_age: float = math.inf  # seconds, as recording began; infinite: not known
    after_collection: bool = False  # the live set was taken after a garbage collection that offheap requested
    application: tuple[str, ...] = ()  # packages that the reader says are the application's
    arguments_kept: bool = (
        False  # command_line, jvm_flags and properties were not masked (offheap.recording.masking)
    )
    imported: str = ""  # the format of the files that `offheap import` read; "": offheap recorded it
    births: bool = True  # whether the live set's times of birth are known, not only those of other files
    # Relative standard error of the weights 1/probability, the same for all blocks: how far the sampler is
    # from what the probability says.  0.0: the probe samples, and keeps to it.
    weight_error: float = 0.0

    @property
    def program(self) -> str:
        """The main class without its module, or the jar without its folder."""
        return self.main_class.rpartition("/")[2]

    @property
    def recorder_share(self) -> float:
        """The share of one CPU that the recorder used: its time over the recording's; 0 if unknown."""
        spent = self.recorder.cpu_seconds if self.recorder else 0.0
        return spent / self.divisor_seconds

    @property
    def divisor_seconds(self) -> float:
        """The duration, as a divisor: never 0."""
        return max(self.duration_seconds, _SHORTEST_SECONDS)

    @property
    def live_seconds(self) -> float:
        """The time until the live set was taken, as a divisor: never 0."""
        return max(self.live_time or self.duration_seconds, _SHORTEST_SECONDS)

    @property
    def losses(self) -> int:
        """The sum of `lost`."""
        return sum(self.lost.values())


# Fields of Info that the reader of a recording sets, or that follow from the others.
NOT_STORED = frozenset({"path", "application", "weight_error"})

# One row a live block or live mapping.
LIVE = np.dtype(
    [
        ("stack", "<u4"),
        ("thread", "<u2"),
        ("size", "<u8"),  # bytes: requested, or still mapped
        ("birth", "<f8"),  # seconds since the start of the recording
        ("probability", "<f8"),  # of having been sampled, 1.0 when exact
    ]
)

# One row per stack and snapshot in which something of the stack changed: a stack keeps
# the values of its latest row until the next one.  Estimates (Horvitz-Thompson) and variances.
SERIES = np.dtype(
    [
        ("time", "<f8"),  # seconds since the start
        ("stack", "<u4"),
        ("live_blocks", "<f8"),
        ("live_bytes", "<f8"),
        ("live_blocks_variance", "<f8"),
        ("live_bytes_variance", "<f8"),
        ("allocated_blocks", "<f8"),
        ("allocated_bytes", "<f8"),
        ("allocated_blocks_variance", "<f8"),
        ("allocated_bytes_variance", "<f8"),
        ("samples", "<u8"),  # ever taken of this stack
    ]
)

# One row a snapshot.
PROCESS = np.dtype(
    [
        ("time", "<f8"),
        ("rss_bytes", "<u8"),
        ("live_bytes", "<f8"),
        ("live_blocks", "<f8"),
        ("allocated_bytes", "<f8"),
        ("threads", "<u4"),
    ]
)


@dataclass(frozen=True)
class OwnersOverTime:
    """Who held the process's RSS over time: a row a reading, a column an owner.

    bytes   0 where an owner held nothing; a row sums to `rss`
    gauges  what was counted beside it, by name; NaN where it was not told.  docs/recording-format.md
            lists the names
    """

    times: NDArray[np.float64]  # seconds since the start, ascending
    names: list[str]  # owners as `offheap where --json` names them, and "unattributed"
    bytes: NDArray[np.float64]  # [readings, owners]
    rss: NDArray[np.float64]  # bytes
    gauges: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    @classmethod
    def none(cls) -> OwnersOverTime:
        """No reading was taken: a bare live file, or a recording of an older offheap."""
        return cls(np.zeros(0), [], np.zeros((0, 0)), np.zeros(0))


CollectionKind = Literal["young", "concurrent", "full"]


# Collectors whose collections take knowledge of the collector to judge, as recordings name them.
G1, GENERATIONAL_Z = "G1", "generational ZGC"


@dataclass(frozen=True)
class Collections:
    """The JVM's garbage collections while the recording ran: a row is one, or several of a kind in a row.

    since   seconds since the start, from which on they were counted
    kinds   young: of the young generation alone; concurrent: a cycle over the whole heap beside the program,
            of G1 a pause of one; full: over the whole heap while the program stood still, or by a
            generational collector over all generations
    begun   seconds since the start: of the row's last collection
    ended   likewise
    counts  how many
    collector  G1, GENERATIONAL_Z, or "" for another one and where it is not known
    """

    since: float
    kinds: tuple[CollectionKind, ...]
    begun: NDArray[np.float64]
    ended: NDArray[np.float64]
    counts: NDArray[np.int64]
    collector: str = ""


@dataclass(frozen=True)
class HeapInUse:
    """The Java heap in use after collections, as the JVM counts it; without eden, which a collection empties,
    but with it after a full collection that filled the old generation (Serial, Parallel).

    times  seconds since the start, ascending: soon after a collection ended, 0.2 s later at most
    """

    times: NDArray[np.float64]
    bytes: NDArray[np.float64]

    @classmethod
    def none(cls) -> HeapInUse:
        """Nobody counted, or no collection ran."""
        return cls(np.zeros(0), np.zeros(0))


@dataclass(frozen=True)
class Recording:
    """A recording in memory.  Stack numbers index `stack_offsets`, `stack_kinds`; 0 is "no stack"."""

    info: Info
    frames: list[Frame]  # distinct
    stack_frames: NDArray[np.int32]  # indices into frames, stack after stack, innermost first
    stack_offsets: NDArray[np.int64]  # stack s owns stack_frames[offsets[s]:offsets[s+1]]
    stack_kinds: NDArray[np.uint8]  # MALLOC, MMAP or JAVA
    threads: list[str]  # by LIVE["thread"]
    modules: list[Module]
    live: NDArray[np.void]  # LIVE, at the end (or now, while it records)
    series: NDArray[np.void]  # SERIES, by time; a bare live file has one snapshot
    process: NDArray[np.void]  # PROCESS, by time
    owners: OwnersOverTime = field(default_factory=OwnersOverTime.none)
    collections: Collections | None = (
        None  # None: nobody counted them, or an older offheap by its readings only
    )
    heap: HeapInUse = field(default_factory=HeapInUse.none)
    # The Java objects, as a recording of their own: its stacks, threads and collections are this one's, its
    # `live`, `series` and `process` are of kind JAVA alone, and this one's are without them.
    # None: nothing was followed.
    java: Recording | None = None
    calls: Calls | None = None  # None: addresses are not kept, as in a live file or an import

    def stack(self, number: int) -> list[Frame]:
        """The frames of a stack, innermost first, outermost last."""
        low, high = self.stack_offsets[number], self.stack_offsets[number + 1]
        return list(map(self.frames.__getitem__, self.stack_frames[low:high].tolist()))
