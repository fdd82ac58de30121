"""What every format takes from a recording: its stacks with whole numbers, and what is known of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.java_heap.java_ranking import java_ranking
from offheap.analysis.java_heap.settled.settled_recording import with_java_objects
from offheap.analysis.leaks.leaks import Ranking, ranking
from offheap.analysis.sites.sites import kind_of
from offheap.analysis.totals.stack_totals import stack_totals
from offheap.recording.model import JAVA, Frame, Module, Recording

Side = Literal["native", "java", "both"]
Value = Literal["inuse_space", "inuse_objects", "alloc_space", "alloc_objects"]
# As pprof names them, with their units.
VALUES: dict[Value, str] = {
    "inuse_space": "bytes",
    "inuse_objects": "count",
    "alloc_space": "bytes",
    "alloc_objects": "count",
}

TITLES: dict[Value, str] = {
    "inuse_space": "live bytes",
    "inuse_objects": "live blocks",
    "alloc_space": "allocated bytes",
    "alloc_objects": "allocated blocks",
}

Integers = NDArray[np.int64]
LEVEL = 6  # of gzip: 9, the default of Python, takes four times as long for 1 % less
# Readers add values up in signed 64-bit integers; no process has so many bytes or blocks.
_MOST = 1 << 61
# Pairs of stack and thread: each is a sample in pprof, and go tool pprof and servers read so many in a
# second. If there are more, the largest pairs and the largest pair of each stack keep their thread.
_MOST_NAMED = 50_000
# Threads of an imported file that says none.
_OF_FILES_WITHOUT = ["other threads"]


class ThreadPart(NamedTuple):
    """What one thread holds of a stack, in the order of VALUES; "": memory without a known thread.

    Live memory has a thread; freed memory has none.
    """

    thread: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class HeldByThreads:
    """What threads hold of the stacks of `Samples`, in the order of these: a row a stack and thread.

    place    of the stack in `Samples.stacks`
    threads  numbers of names, of equal places those that hold most first
    space    bytes; of one stack their sum is its inuse_space
    objects  blocks, likewise
    """

    place: Integers
    threads: Integers
    space: Integers
    objects: Integers


@dataclass(frozen=True)
class Samples:
    """Stacks that hold or ever allocated memory.

    recording  its stacks are those of both sides
    stacks     numbers of stacks in it, ascending
    values     by stack; live Java objects are those that survived the last collection
    verdicts   of the site that a stack belongs to; "" without one
    held       by thread
    """

    recording: Recording
    stacks: list[int]
    values: dict[Value, Integers]
    verdicts: list[str]
    held: HeldByThreads

    def thread(self, place: int) -> str:
        """The thread that holds most of what the stack holds; "" where nothing is live."""
        first = int(np.searchsorted(self.held.place, place))
        known = first < len(self.held.place) and self.held.place[first] == place
        return self._name(int(self.held.threads[first])) if known else ""

    def parts(self) -> Iterator[tuple[int, ThreadPart]]:
        """Every stack's parts, with its place; their sums are the stack's values."""
        held, columns = self.held, [self.values[value].tolist() for value in VALUES]
        bounds = np.searchsorted(held.place, np.arange(len(self.stacks) + 1)).tolist()
        threads, space, objects = held.threads.tolist(), held.space.tolist(), held.objects.tolist()
        for place, values in enumerate(zip(*columns, strict=True)):
            rest = list(values)
            named: dict[str, list[int]] = {}  # two threads may have one name
            for row in range(bounds[place], bounds[place + 1]):
                mine = (space[row], objects[row], space[row], objects[row])
                name = self._name(threads[row])
                if name and any(mine):
                    whole = named.setdefault(name, [0] * len(mine))
                    for at, number in enumerate(mine):
                        whole[at] += number
                        rest[at] -= number
            for name, whole in named.items():
                yield place, ThreadPart(name, tuple(whole))
            if any(rest):
                yield place, ThreadPart("", tuple(rest))

    def modules(self) -> dict[str, Module]:
        """By base name, which is all that frames have; of several the first."""
        found: dict[str, Module] = {}
        for module in self.recording.modules:
            found.setdefault(module.path.rpartition("/")[2], module)
        return found

    def kind(self, place: int) -> str:
        return kind_of(self.recording, self.stacks[place])

    def frames(self, place: int) -> list[Frame]:
        """Innermost first."""
        return self.recording.stack(self.stacks[place])

    def calls(self, place: int) -> Iterator[list[Frame]]:
        """The frames of each return address, innermost first: several where the compiler inlined."""
        call: list[Frame] = []
        for frame in self.frames(place):
            call.append(frame)
            if not frame.inlined:
                yield call
                call = []
        if call:
            yield call

    def _name(self, thread: int) -> str:
        names = self.recording.threads
        if self.recording.info.imported and names == _OF_FILES_WITHOUT:
            return ""
        return names[thread] if thread < len(names) else ""


def samples(recording: Recording, side: Side = "both") -> Samples:
    """`recording`: the whole one."""
    everything = with_java_objects(recording)
    totals = stack_totals(everything)
    of_java = everything.stack_kinds == JAVA
    wanted = of_java if side == "java" else ~of_java if side == "native" else np.ones(len(of_java), np.bool_)
    # A stack never holds more than it allocated.
    chosen = np.flatnonzero(((totals.allocated_bytes > 0) | (totals.allocated_blocks > 0)) & wanted)
    space, objects = _whole(totals.live_bytes[chosen]), _whole(totals.live_blocks[chosen])
    # Rounded separately, a stack could have allocated one byte less than it holds.
    freed_bytes = totals.allocated_bytes[chosen] - totals.live_bytes[chosen]
    freed_blocks = totals.allocated_blocks[chosen] - totals.live_blocks[chosen]
    values: dict[Value, Integers] = {
        "inuse_space": space,
        "inuse_objects": objects,
        "alloc_space": space + _whole(freed_bytes),
        "alloc_objects": objects + _whole(freed_blocks),
    }
    verdicts = dict[int, str]()
    if side != "java":
        verdicts.update(_verdicts(ranking(recording)))
    if side != "native" and recording.java is not None:
        verdicts.update(_verdicts(java_ranking(recording)))
    stacks = chosen.tolist()
    held = _held(everything, chosen, space, objects)
    return Samples(everything, stacks, values, [verdicts.get(stack, "") for stack in stacks], held)


def nanoseconds(seconds: float) -> int:
    """As formats have them, unsigned; a recording may claim any time."""
    return at_most_64_bits(round(seconds * 1e9))


def at_most_64_bits(number: int) -> int:
    """A signed 64-bit integer, not negative: a recording's own figures may be any."""
    return min(max(number, 0), (1 << 63) - 1)


def text(name: str) -> str:
    """The name in Unicode: what the recorded program calls itself may be no UTF-8, which readers refuse."""
    return name.encode("utf-8", "replace").decode()


def _whole(totals: NDArray[np.float64]) -> Integers:
    """Whole numbers, each less than one off, whose sum is the rounded sum of the totals."""
    upto = np.rint(np.minimum(np.cumsum(np.nan_to_num(np.maximum(totals, 0.0))), _MOST)).astype(np.int64)
    numbers: Integers = np.diff(upto, prepend=0)
    return numbers


def _held(recording: Recording, stacks: Integers, space: Integers, objects: Integers) -> HeldByThreads:
    threads = max(len(recording.threads), 1)
    live = recording.live[np.isin(recording.live["stack"], stacks)]
    place = np.searchsorted(stacks, live["stack"])
    key = place.astype(np.int64) * threads + np.minimum(live["thread"], threads - 1)
    pairs, pair = np.unique(key, return_inverse=True)
    weight = 1.0 / live["probability"]
    held_bytes = np.bincount(pair, live["size"] * weight, minlength=len(pairs)).astype(np.float64)
    held_blocks = np.bincount(pair, weight, minlength=len(pairs)).astype(np.float64)
    order = np.lexsort((-held_bytes, pairs // threads))
    place, held_bytes, held_blocks = pairs[order] // threads, held_bytes[order], held_blocks[order]
    named = np.diff(place, prepend=-1) > 0
    if len(place) > _MOST_NAMED:
        named[np.argpartition(held_bytes, -_MOST_NAMED)[-_MOST_NAMED:]] = True
    else:
        named[:] = True
    parts = _shared(held_bytes, place, space), _shared(held_blocks, place, objects)
    return HeldByThreads(place[named], (pairs[order] % threads)[named], parts[0][named], parts[1][named])


def _shared(held: NDArray[np.float64], place: Integers, whole: Integers) -> Integers:
    """Whole numbers, each less than one off, whose sum over the rows of a place is its number in `whole`."""
    if not len(held):
        return np.zeros(0, np.int64)
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    rows = np.diff(starts, append=len(place))
    sums = np.add.reduceat(held, starts)
    upto = np.cumsum(held) - np.repeat(np.cumsum(sums) - sums, rows)
    share = np.divide(upto, np.repeat(sums, rows), out=np.ones(len(held)), where=np.repeat(sums, rows) > 0)
    last = np.append(starts[1:], len(place)) - 1
    share[last] = 1.0
    numbers = np.rint(np.clip(share, 0.0, 1.0) * whole[place]).astype(np.int64)
    first = np.zeros(len(held), np.bool_)
    first[starts] = True
    parts: Integers = np.where(first, numbers, np.diff(numbers, prepend=0))
    return parts


def _verdicts(ranked: Ranking) -> Iterator[tuple[int, str]]:
    members: Sequence[Sequence[int]] = ranked.sites.grouping.members
    for place, verdict in enumerate(ranked.verdicts):
        for stack in members[ranked.number(place)]:
            yield stack, verdict
