"""What every format takes from a recording: its stacks with whole numbers, and what is known of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.java_heap.java_ranking import java_ranking
from offheap.analysis.java_heap.settled_recording import with_java_objects
from offheap.analysis.leaks.leaks import Ranking, ranking
from offheap.analysis.sites.sites import kind_of
from offheap.analysis.totals.stack_totals import stack_totals, thread_shares
from offheap.recording.model import JAVA, Frame, Recording

Side = Literal["native", "java", "both"]
Value = Literal["inuse_space", "inuse_objects", "alloc_space", "alloc_objects"]
# As pprof names them, with their units.
VALUES: dict[Value, str] = {
    "inuse_space": "bytes",
    "inuse_objects": "count",
    "alloc_space": "bytes",
    "alloc_objects": "count",
}

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Samples:
    """Stacks that hold or ever allocated memory.

    recording  its stacks are those of both sides
    stacks     numbers of stacks in it, ascending
    values     by stack; live Java objects are those that survived the last collection
    verdicts   of the site that a stack belongs to; "" without one
    threads    that hold most of what a stack holds; "" where nothing is live
    """

    recording: Recording
    stacks: list[int]
    values: dict[Value, Integers]
    verdicts: list[str]
    threads: list[str]

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


def samples(recording: Recording, side: Side = "both") -> Samples:
    """`recording`: the whole one."""
    everything = with_java_objects(recording)
    totals = stack_totals(everything)
    of_java = everything.stack_kinds == JAVA
    wanted = of_java if side == "java" else ~of_java if side == "native" else np.ones(len(of_java), np.bool_)
    stacks = np.flatnonzero((totals.allocated_bytes > 0) & wanted)
    values: dict[Value, Integers] = {
        "inuse_space": _whole(totals.live_bytes[stacks]),
        "inuse_objects": _whole(totals.live_blocks[stacks]),
        "alloc_space": _whole(totals.allocated_bytes[stacks]),
        "alloc_objects": _whole(totals.allocated_blocks[stacks]),
    }
    verdicts = dict[int, str]()
    if side != "java":
        verdicts.update(_verdicts(ranking(recording)))
    if side != "native" and recording.java is not None:
        verdicts.update(_verdicts(java_ranking(recording)))
    shares = thread_shares(everything, 1)
    first = dict(zip(shares.stack.tolist(), shares.thread.tolist(), strict=True))
    names = everything.threads
    numbers = stacks.tolist()
    return Samples(
        everything,
        numbers,
        values,
        [verdicts.get(stack, "") for stack in numbers],
        [names[first[stack]] if stack in first and names else "" for stack in numbers],
    )


def text(name: str) -> str:
    """The name in Unicode: what the recorded program calls itself may be no UTF-8, which readers refuse."""
    return name.encode("utf-8", "replace").decode()


def _whole(totals: NDArray[np.float64]) -> Integers:
    """Whole numbers, each less than one off, whose sum is the rounded sum of the totals."""
    upto = np.rint(np.cumsum(totals)).astype(np.int64)
    return np.diff(upto, prepend=0)


def _verdicts(ranked: Ranking) -> Iterator[tuple[int, str]]:
    members: Sequence[Sequence[int]] = ranked.sites.grouping.members
    for place, verdict in enumerate(ranked.verdicts):
        for stack in members[ranked.number(place)]:
            yield stack, verdict
