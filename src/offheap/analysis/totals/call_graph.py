"""Live bytes as a graph of calls: each function once, with what it holds itself and with all that it called.

A stack ends in the function that wanted the memory: the allocator's own functions and those that allocate for
any caller are no part of it.  A function that holds too little to be drawn is left out, and its callers then
call what it called.  Functions that only pass memory on stand together in one box, the outermost first: JVM
stacks have dozens of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.sites.results import Live
from offheap.analysis.stacks import frames
from offheap.analysis.totals import totals
from offheap.recording.model import MMAP, Frame, Info, Recording

LEAST_SHARE = 0.01  # of live bytes: 100 functions at most hold so much each by themselves
# Beyond so many boxes and calls no screen shows the picture at a size at which it is read: LEAST_SHARE then
# doubles until they fit.
MOST_BOXES, MOST_CALLS = 60, 150
# Calls are drawn from half a function's share on: a box with two callers has both.
_CALL = 0.5
_NO_STACK = Frame("no stack", "unknown")

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Amount:
    """Bytes: `malloc` in blocks of the allocator, `mapped` in mappings.

    `share` (0..1) is of malloc's live bytes, or of all mapped ones where that is more.
    """

    malloc: float
    mapped: float
    share: float


@dataclass(frozen=True, slots=True)
class Box:
    """functions  outermost first; several where each is called by the one before alone, which keeps nothing
    own        what the innermost of them allocated
    total      the same with all that they called; of a recursive function each block once
    """

    functions: tuple[Frame, ...]
    own: Amount
    total: Amount


@dataclass(frozen=True, slots=True)
class Call:
    """caller, callee  places in `CallGraph.boxes`
    amount          what was allocated through the call
    direct          False where functions between the two are left out
    """

    caller: int
    callee: int
    amount: Amount
    direct: bool


@dataclass(frozen=True, slots=True)
class CallGraph:
    """boxes        that hold most first
    calls        by amount, the largest first
    least_share  of live bytes: functions below it are left out
    left_out     how many functions that are
    """

    info: Info
    live: Live
    boxes: tuple[Box, ...]
    calls: tuple[Call, ...]
    least_share: float
    left_out: int

    @property
    def least_call_share(self) -> float:
        return self.least_share * _CALL


def call_graph(recording: Recording, least_share: float = LEAST_SHARE) -> CallGraph:
    """The graph of what is live; of a recording that holds nothing it is empty."""
    held = _Held(recording)
    while True:
        kept = held.functions_above(least_share)
        found = held.calls(kept, least_share * _CALL)
        groups = _groups(held, kept, found, least_share)
        few = len(groups) <= MOST_BOXES and len(found.caller) <= MOST_CALLS + sum(map(len, groups))
        if few or least_share >= 1.0:
            return _graph(recording, held, groups, found, least_share)
        least_share = min(2 * least_share, 1.0)


@dataclass(frozen=True)
class _Calls:
    """Between functions that are drawn; bytes in rows (malloc, mapped), all and those of direct calls."""

    caller: Integers
    callee: Integers
    amounts: Floats
    direct: Floats


class _Held:
    """What stacks hold, by function.

    Two columns throughout: bytes in malloc's blocks, and in mappings.
    """

    def __init__(self, recording: Recording) -> None:
        live = recording.live
        count = len(recording.stack_offsets) - 1
        held = np.bincount(live["stack"], live["size"] / live["probability"], minlength=count)
        mapped = recording.stack_kinds == MMAP
        self.by_stack = np.stack((np.where(mapped, 0.0, held), np.where(mapped, held, 0.0)), axis=1)
        self.live = totals.live_by_kind(recording)
        self._whole = self.by_stack.sum(axis=0)
        names: dict[tuple[str, str], int] = {}
        self.frames: list[Frame] = []
        number = np.zeros(len(recording.frames), np.int64)
        for place, frame in enumerate(recording.frames):
            key = frames.stable_name(frame), frame.module
            number[place] = names.setdefault(key, len(names))
            if number[place] == len(self.frames):
                self.frames.append(frame)
        depths = np.diff(recording.stack_offsets).astype(np.int64)
        # A block without a stack has a function of its own.
        bare = np.flatnonzero((depths == 0) & (held > 0))
        self.frames.append(_NO_STACK)
        used = np.flatnonzero((depths > 0) & (held > 0))
        flat, stack, innermost = _callers(recording, used, depths[used])
        self.function = np.concatenate((number[flat], np.full(len(bare), len(self.frames) - 1)))
        self.stack = np.concatenate((stack, bare))
        self.innermost = np.concatenate((innermost, np.ones(len(bare), np.bool_)))
        self.own = self._sums(self.function[self.innermost], self.stack[self.innermost])
        once = np.unique(self.stack * len(self.frames) + self.function)
        self.total = self._sums(once % len(self.frames), once // len(self.frames))

    def _sums(self, function: Integers, stack: Integers) -> Floats:
        held = self.by_stack[stack]
        columns = [np.bincount(function, column, minlength=len(self.frames)) for column in held.T]
        return np.stack(columns, axis=1)

    def share(self, amounts: Floats) -> Floats:
        """The larger share of each row, 0..1."""
        shares: Floats = np.max(amounts / np.maximum(self._whole, 1.0), axis=-1)
        return shares

    def amount(self, row: Floats) -> Amount:
        return Amount(float(row[0]), float(row[1]), min(float(self.share(row)), 1.0))

    def functions_above(self, least: float) -> NDArray[np.bool_]:
        shares = self.share(self.total)
        above: NDArray[np.bool_] = (shares >= least) & (shares > 0)
        return above

    def calls(self, kept: NDArray[np.bool_], least: float) -> _Calls:
        """The calls between functions that are kept; a call that a stack makes twice counts once."""
        places = np.flatnonzero(kept[self.function])
        function, stack = self.function[places], self.stack[places]
        inside = (stack[1:] == stack[:-1]) & (function[1:] != function[:-1])
        callee, caller = function[:-1][inside], function[1:][inside]
        direct = (np.diff(places) == 1)[inside]
        count = len(self.frames)
        pair = caller * count + callee
        pairs, which = np.unique(pair, return_inverse=True)
        once, first = np.unique(stack[1:][inside] * len(pairs) + which, return_index=True)
        held, its = self.by_stack[once // max(len(pairs), 1)], which[first]
        close = direct[first]
        amounts = _by_column(its, held, len(pairs))
        near = _by_column(its[close], held[close], len(pairs))
        large = self.share(amounts) >= least if len(pairs) else np.zeros(0, np.bool_)
        return _Calls(pairs[large] // count, pairs[large] % count, amounts[large], near[large])


def _callers(
    recording: Recording, used: Integers, spans: Integers
) -> tuple[Integers, Integers, NDArray[np.bool_]]:
    """Frames, innermost first, stack by stack; the stack of each, and which are the innermost.

    `used` are stacks of `spans` frames, 1 at least; of each the part from the first frame on that does not
    allocate for its caller, or the outermost.
    """
    ends = np.cumsum(spans)
    within = np.arange(int(spans.sum())) - np.repeat(ends - spans, spans)
    flat = recording.stack_frames[np.repeat(recording.stack_offsets[used].astype(np.int64), spans) + within]
    wrapper = np.array([frames.is_wrapper(frame) for frame in recording.frames], np.bool_)
    inner = np.where(wrapper[flat], np.repeat(spans - 1, spans), within)
    first = np.minimum.reduceat(inner, ends - spans) if len(spans) else spans
    above = within - np.repeat(first, spans)
    inside = above >= 0
    return flat[inside].astype(np.int64), np.repeat(used, spans)[inside], (above == 0)[inside]


def _by_column(which: Integers, held: Floats, count: int) -> Floats:
    return np.stack([np.bincount(which, column, minlength=count) for column in held.T], axis=1)


def _groups(held: _Held, kept: NDArray[np.bool_], calls: _Calls, least: float) -> list[list[int]]:
    """Functions by box, the outermost first: a function joins its caller where neither has anyone else."""
    callees = np.bincount(calls.caller, minlength=len(held.frames))
    callers = np.bincount(calls.callee, minlength=len(held.frames))
    own, total = held.share(held.own), held.share(held.total)
    inner: dict[int, int] = {}
    joined = set[int]()
    for caller, callee in zip(calls.caller.tolist(), calls.callee.tolist(), strict=True):
        passes = own[caller] < least / 2 and abs(total[caller] - total[callee]) < least / 2
        if callees[caller] == 1 and callers[callee] == 1 and passes:
            inner[caller] = callee
            joined.add(callee)
    groups = []
    for function in np.flatnonzero(kept).tolist():
        if function in joined:
            continue  # or it is in a circle of calls whose functions all join: none is the outermost
        group = [function]
        while group[-1] in inner:
            group.append(inner[group[-1]])
        groups.append(group)
    known = {function for group in groups for function in group}
    return groups + [[one] for one in np.flatnonzero(kept).tolist() if one not in known]


def _graph(
    recording: Recording, held: _Held, groups: list[list[int]], calls: _Calls, least: float
) -> CallGraph:
    groups = sorted(groups, key=lambda group: -held.share(held.total[group[0]]))
    place = {function: at for at, group in enumerate(groups) for function in group}
    boxes = tuple(
        Box(
            tuple(held.frames[function] for function in group),
            held.amount(held.own[group[-1]]),
            held.amount(held.total[group[0]]),
        )
        for group in groups
    )
    columns = zip(calls.caller.tolist(), calls.callee.tolist(), calls.amounts, calls.direct, strict=True)
    drawn = [
        Call(place[caller], place[callee], held.amount(row), bool(near.sum() * 2 >= row.sum()))
        for caller, callee, row, near in columns
        if place[caller] != place[callee]
    ]
    drawn.sort(key=lambda call: (-call.amount.share, call.caller, call.callee))
    known = int((held.share(held.total) > 0).sum())
    return CallGraph(recording.info, held.live, boxes, tuple(drawn), least, known - len(place))
