"""Two moments compared, group by group of their stacks.

A change is NEW - OLD with its 95 % interval: the wider of what sampling explains and of what the live
bytes vary by from snapshot to snapshot, apart from their trend (`stack_totals_at.Levels`).  Blocks that are
in both moments of one recording add nothing to it: the change is what was born in between, less what
was freed.

With thousands of sites one in twenty would differ by chance.  Significant are those that Benjamini and
Hochberg's procedure (Journal of the Royal Statistical Society B 57, 1995) leaves at a false discovery
rate of 5 %, the probability of each taken from its interval.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.diff.growth_changes import GrowthChanges
from offheap.analysis.diff.results import Change, Diff, Difference, FunctionChange, Growth, Side, SiteChange
from offheap.analysis.sites.sites import holdings, kind_of, latest_rows, unmet_paths
from offheap.analysis.stacks import frames
from offheap.analysis.stacks.blame import blamed
from offheap.analysis.stacks.packages import Application
from offheap.analysis.statistics import estimates
from offheap.analysis.statistics.estimates import Estimates, Floats
from offheap.analysis.statistics.student import DEVIATIONS_95
from offheap.analysis.totals import stack_totals_at
from offheap.analysis.totals.stack_totals_at import Members, Sums
from offheap.recording.model import MMAP, Frame, Info, Recording

_FALSE_DISCOVERIES = 0.05
# Times as long as the other recording: what grew at one rate is then alike at both ends.
_SHORTER, _LONGER = 0.9, 1.1
_SHORTEST = 1e-3  # seconds of a recording, as a divisor

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class ComparedSide:
    """One side; sums are by stack.

    sites, functions  their numbers in both recordings, by stack and by frame (`matching.Matching`)
    wrappers          by frame, whether it allocates for its caller
    divisor           of its figures
    at_end            whether it is the recording's end, where the sampled blocks themselves are known
    nearby            the times whose snapshots tell how much live bytes vary
    """

    recording: Recording
    side: Side
    sites: Integers
    functions: Integers
    wrappers: NDArray[np.bool_]
    divisor: float
    live: Sums
    allocated: Sums
    nearby: tuple[float, float]
    at_end: bool

    def held(self, members: Members, count: int) -> tuple[Estimates, Estimates]:
        """Live bytes and blocks by group at the recording's end, as all reports have them of these stacks."""
        stacks, numbers = members
        # numpy sorts 16-bit numbers in linear time.
        groups = np.zeros(len(self.recording.stack_offsets) - 1, np.uint16 if count <= 1 << 16 else np.int64)
        groups[stacks] = numbers
        live = self.recording.live
        latest = latest_rows(self.recording, self.recording.info.live_time or np.inf)
        rows = self.recording.series[latest[latest >= 0]]
        own, sizes, probabilities = (
            np.ascontiguousarray(live[name]) for name in ("stack", "size", "probability")
        )
        if count > 1:
            order = np.argsort(groups[own], kind="stable")
            own, sizes, probabilities = own[order], sizes[order], probabilities[order]
        unmet = unmet_paths(rows, groups[rows["stack"]], own, count)
        error = self.recording.info.weight_error
        return holdings(groups[own], own, sizes.astype(np.float64), probabilities, count, unmet, error)

    @cached_property
    def _levels(self) -> stack_totals_at.Levels:
        return stack_totals_at.levels(self.recording, *self.nearby)

    def fluctuation(self, members: Members, count: int) -> Floats:
        return self._levels.fluctuation(members, count) / self.divisor


@dataclass(frozen=True)
class _Differences:
    """By group: OLD, NEW and the change of one quantity."""

    old: Estimates
    new: Estimates
    change: Estimates

    def at(self, number: int) -> Difference:
        return Difference(self.old.at(number), self.new.at(number), self.change.at(number))


@dataclass(frozen=True)
class Comparison:
    """kept    by stack, what is in both moments of one recording; None: two recordings
    growth  by site; None at two moments of one recording
    """

    old: ComparedSide
    new: ComparedSide
    site_count: int
    function_count: int
    kept: Sums | None
    divisor: float  # of changes
    growth: GrowthChanges | None = None

    def result(self, unit: Literal["", "second", "request"], most: int | None) -> Diff:
        """The diff, with at most so many sites and functions; None: all."""
        count = self.site_count
        members = [_every(moment.sites) for moment in (self.old, self.new)]
        live, blocks = self._live_of_sites(members, count)
        allocated = self._allocated(members, count)
        kinds = self._changes(live, allocated)
        order, significant = _ranked(live)
        order, significant = self._by_growth(order, significant)
        stacks = [
            _largest(moment.live.bytes, which, count)
            for moment, which in zip((self.old, self.new), members, strict=True)
        ]
        sites = []
        for rank, number in enumerate(order[:most].tolist(), 1):
            more = int(live.new.estimate[number] >= live.old.estimate[number])
            recording, stack = (self.old, self.new)[more].recording, int(stacks[more][number])
            shown = tuple(recording.stack(stack))
            sites.append(
                SiteChange(
                    rank=rank,
                    change=kinds[number],
                    significant=bool(significant[number]),
                    kind=kind_of(recording, stack),
                    stack=shown,
                    blamed=blamed(shown, Application.of(recording.info)),
                    live_bytes=live.at(number),
                    live_blocks=blocks.at(number),
                    allocated_bytes=allocated.at(number),
                    growth=self._growth(number),
                )
            )
        beyond = order[significant[order]].tolist()
        by_kind = [
            (all_stacks, (moment.recording.stack_kinds == MMAP).astype(np.int64))
            for moment, (all_stacks, _) in zip((self.old, self.new), members, strict=True)
        ]
        whole = [(all_stacks, np.zeros(len(all_stacks), np.int64)) for all_stacks, _ in members]
        of_kinds = self._live_of_sites(by_kind, 2)[0]
        return Diff(
            old=self.old.side,
            new=self.new.side,
            unit=unit,
            live_bytes=self._live_of_sites(whole, 1)[0].at(0),
            malloc=of_kinds.at(0),
            mapped=of_kinds.at(1),
            grows=dict(Counter(kind for kind in self.growth.change if kind)) if self.growth else {},
            changed=dict(Counter(kinds[number] for number in beyond)),
            by_chance=len(order) - len(beyond),
            sites=tuple(sites),
            functions=self._functions(most),
        )

    def _by_growth(
        self, order: Integers, significant: NDArray[np.bool_]
    ) -> tuple[Integers, NDArray[np.bool_]]:
        """The order with what grows otherwise among what changed; what leaks in NEW alone comes first."""
        if self.growth is None:
            return order, significant
        grows = np.array([bool(kind) for kind in self.growth.change], np.bool_)
        leaks = np.array([kind == "leaks" for kind in self.growth.change], np.bool_)
        if _as_long(self.old.side, self.new.side):
            significant = significant & (~self.growth.alike | grows)
        place = np.empty(len(significant), np.int64)
        place[order] = np.arange(len(order))
        order = order[
            np.lexsort(
                (
                    place[order],
                    np.where(grows[order] & ~significant[order], -self.growth.certain[order], 0.0),
                    ~(significant | grows)[order],
                    np.where(leaks[order], -1.0 - self.growth.certain[order], 0.0),
                )
            )
        ]
        return order, significant | grows

    def _growth(self, number: int) -> Growth | None:
        its = self.growth
        if its is None:
            return None
        rate = Difference(its.old.rate.at(number), its.new.rate.at(number), its.rate.at(number))
        return Growth(its.change[number], rate, its.old.verdicts[number], its.new.verdicts[number])

    def _functions(self, most: int | None) -> tuple[FunctionChange, ...]:
        """Functions that are in the same stacks count as one: the one to look at stands for them."""
        held = [self.old.live.bytes, self.new.live.bytes]
        if self.kept is not None:
            held = [held[0] + held[1]] * 2
        pairs = [
            _functions_of(moment, bytes_) for moment, bytes_ in zip((self.old, self.new), held, strict=True)
        ]
        # Functions whose random marks of their stacks add up to the same are in the same stacks.
        random = np.random.default_rng(0)
        marks = np.zeros(self.function_count, np.uint64)
        for bytes_, (stacks, functions) in zip(held, pairs, strict=True):
            np.add.at(marks, functions, random.integers(1, 2**63, len(bytes_), np.uint64)[stacks])
        present = np.flatnonzero(marks)
        _, leaders, classes = np.unique(marks[present], return_index=True, return_inverse=True)
        count = len(leaders)
        of_function = np.full(self.function_count, -1, np.int64)
        of_function[present] = classes
        leads = np.zeros(self.function_count, np.bool_)
        leads[present[leaders]] = True  # one of a class is in all its stacks
        members: list[Members] = []
        for stacks, functions in pairs:
            counted = leads[functions]
            members.append((stacks[counted], of_function[functions[counted]]))
        live = self._live(members, count)[0]
        allocated = self._allocated(members, count)
        kinds = self._changes(live, allocated)
        order, significant = _ranked(live)
        representatives = self._representatives(of_function, count, order[:most])
        sizes = np.bincount(classes, minlength=count)
        allocating = self._allocating_functions()
        return tuple(
            FunctionChange(
                rank=rank,
                change=_of_function(kinds[group], representatives[group][1], *allocating),
                significant=bool(significant[group]),
                function=representatives[group][0],
                others=int(sizes[group]) - 1,
                live_bytes=live.at(group),
            )
            for rank, group in enumerate(order[:most].tolist(), 1)
        )

    def _allocating_functions(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """By number: whether OLD allocated through it, and whether NEW does (since OLD, of one recording).

        The sums of functions are over stacks that hold memory: what all was freed again is not in them.
        """
        lately = self.new.allocated.bytes - (0.0 if self.kept is None else self.old.allocated.bytes)
        found = []
        for side, allocated in ((self.old, self.old.allocated.bytes), (self.new, lately)):
            depths = np.diff(side.recording.stack_offsets)
            numbers = side.functions[side.recording.stack_frames[np.repeat(allocated > 0, depths)]]
            among = np.zeros(self.function_count, np.bool_)
            among[numbers[numbers >= 0]] = True
            found.append(among)
        return found[0], found[1]

    def _representatives(
        self, of_function: Integers, count: int, wanted: Integers
    ) -> list[tuple[Frame, int]]:
        """By class of functions, of those wanted: the application's innermost, else a Java method, else a
        native function; and its number, -1 without one."""
        best: list[tuple[int, Frame, int] | None] = [None] * count
        # Both have one more at the end, which the number -1 finds: no function, no class.
        of_function = np.append(of_function, -1)
        asked = np.zeros(count + 1, np.bool_)
        asked[wanted] = True
        for moment in (self.new, self.old):
            application = Application.of(moment.recording.info)
            groups = of_function[moment.functions]
            for place in np.flatnonzero(asked[groups]).tolist():
                frame, group = moment.recording.frames[place], int(groups[place])
                score = 0
                if frame.kind == "java":
                    score = 3 if application.has(frame) else 1 if frames.is_jdk(frame) else 2
                held = best[group]
                if held is None or score > held[0]:
                    best[group] = (score, frame, int(moment.functions[place]))
        return [held[1:] if held else (Frame("?", "unknown"), -1) for held in best]

    def _live_of_sites(self, members: Sequence[Members], count: int) -> tuple[_Differences, _Differences]:
        """Bytes and blocks by group, where each stack is in one."""
        found = list(self._live(members, count, blocks=True))
        for name, moment, which in zip(("old", "new"), (self.old, self.new), members, strict=True):
            # Sums are exact where every block was recorded, and there may be millions.
            if moment.at_end and moment.recording.info.mode != "exact":
                for place, exact in enumerate(moment.held(which, count)):
                    sums: Estimates = getattr(found[place], name)
                    known = exact.over(np.array(moment.divisor)).where(sums.estimate > 0, sums)
                    found[place] = replace(found[place], **{name: known})
        return found[0], found[1]

    def _live(
        self, members: Sequence[Members], count: int, blocks: bool = False
    ) -> tuple[_Differences, _Differences]:
        """Bytes, and blocks if asked for, by group."""
        old, new = self.old.live.grouped(members[0], count), self.new.live.grouped(members[1], count)
        number = old.blocks + new.blocks
        block = np.where(number > 0, (old.bytes + new.bytes) / np.where(number > 0, number, 1.0), 0.0)
        lost, gained = old, new
        if self.kept is not None:
            kept = self.kept.grouped(members[0], count)
            lost, gained = old.less(kept), new.less(kept)
        scatter = np.hypot(self.old.fluctuation(members[0], count), self.new.fluctuation(members[1], count))
        # Where one side sampled nothing, the other shows how rarely such blocks are sampled.
        rare = estimates.interval_of(number, old.samples + new.samples, block)
        intervals = [_interval(side.recording.info, rare) for side in (self.old, self.new)]
        divisors = [np.array(side.divisor) for side in (self.old, self.new)]

        def differences(measure: Callable[[Sums, Floats], Estimates], scatter: Floats) -> _Differences:
            sides, parts = (
                [
                    measure(sums, interval).over(divisor)
                    for sums, interval, divisor in zip(pair, intervals, divisors, strict=True)
                ]
                for pair in ((old, new), (lost, gained))
            )
            change = parts[1].less(parts[0]).within(scatter, scatter).over(np.array(self.divisor))
            return _Differences(sides[0], sides[1], change)

        in_bytes = differences(lambda sums, interval: sums.byte_estimates(interval, block), scatter)
        if not blocks:
            return in_bytes, in_bytes
        # Blocks vary as bytes do: by so many of the typical size.
        per_block = scatter / np.where(block > 0, block, 1.0)
        return in_bytes, differences(lambda sums, interval: sums.block_estimates(interval, block), per_block)

    def _allocated(self, members: Sequence[Members], count: int) -> _Differences:
        old, new = (
            self.old.allocated.grouped(members[0], count),
            self.new.allocated.grouped(members[1], count),
        )
        first, second = (
            estimates.of_many_totals(sums.bytes, sums.bytes_variance, sums.samples).over(
                np.array(side.divisor)
            )
            for sums, side in ((old, self.old), (new, self.new))
        )
        if self.kept is None:
            return _Differences(first, second, second.less(first))
        between = new.less(old)
        change = estimates.of_many_totals(between.bytes, between.bytes_variance, between.samples)
        return _Differences(first, second, change.over(np.array(self.divisor)))

    def _changes(self, live: _Differences, allocated: _Differences) -> list[Change]:
        """By group: what became of it."""
        known = (live.old.estimate > 0) | (allocated.old.estimate > 0)
        lately = allocated.new if self.kept is None else allocated.change
        goes_on = (live.new.estimate > 0) | (lately.estimate > 0)
        up, down = live.change.estimate > 0, live.change.estimate < 0
        kinds = np.select([up & ~known, up, down & ~goes_on, down], [0, 1, 2, 3], 4)
        names: tuple[Change, ...] = ("new", "grown", "gone", "shrunk", "same")
        return [names[kind] for kind in kinds.tolist()]


def _of_function(change: Change, number: int, before: NDArray[np.bool_], lately: NDArray[np.bool_]) -> Change:
    """A function that OLD allocated through is not new, and one that NEW allocates through is not gone."""
    if change == "new" and number >= 0 and before[number]:
        return "grown"
    return "shrunk" if change == "gone" and number >= 0 and lately[number] else change


def _interval(info: Info, rare: Floats) -> Floats:
    """By group: a fixed interval, or under a budget the one at which the blocks were sampled, if larger."""
    return np.maximum(rare if info.budget else np.zeros(len(rare)), info.interval_bytes)


def _as_long(old: Side, new: Side) -> bool:
    """Whether two recordings took as long, within a tenth."""
    return _SHORTER < old.seconds / max(new.seconds, _SHORTEST) < _LONGER


def _every(groups: Integers) -> Members:
    return np.arange(len(groups)), groups


def _distinct(values: Integers) -> Integers:
    """In order.  For a million integers sorting takes a quarter of the time of numpy.unique."""
    values = np.sort(values)
    return values[np.concatenate(([True], values[1:] != values[:-1]))[: len(values)]]


def _largest(held: Floats, members: Members, count: int) -> Integers:
    """By group: the stack of it that holds most."""
    result = np.zeros(count, np.int64)
    stacks, groups = members
    order = np.argsort(held[stacks], kind="stable")
    result[groups[order]] = stacks[order]
    return result


def _functions_of(moment: ComparedSide, held: Floats) -> Members:
    """Each stack that holds memory with each function that is in it, once; without the allocator's own."""
    recording = moment.recording
    depths = np.diff(recording.stack_offsets)
    function = np.where(moment.wrappers, -1, moment.functions)[recording.stack_frames]
    wanted = (function >= 0) & np.repeat(held > 0, depths)
    width = int(moment.functions.max(initial=0)) + 1
    of_stack = np.repeat(width * np.arange(len(held)), depths)[wanted]
    pairs = _distinct(of_stack + function[wanted])  # a recursive one is there many times
    stacks, functions = np.divmod(pairs, width)
    return stacks, functions


def _ranked(live: _Differences) -> tuple[Integers, NDArray[np.bool_]]:
    """The groups that hold memory, in order, and by group whether it changed beyond chance."""
    change = live.change
    rows = np.flatnonzero((live.old.estimate > 0) | (live.new.estimate > 0))
    size = np.abs(change.estimate[rows])
    up = change.estimate[rows] > 0
    half = np.where(up, change.estimate[rows] - change.low[rows], change.high[rows] - change.estimate[rows])
    probability = np.array(
        [
            (0.0 if big else 1.0) if width <= 0 else math.erfc(DEVIATIONS_95 * big / width / math.sqrt(2))
            for big, width in zip(size.tolist(), half.tolist(), strict=True)
        ]
    )
    order = np.argsort(probability, kind="stable")
    passed = np.flatnonzero(
        probability[order] <= _FALSE_DISCOVERIES * np.arange(1, len(rows) + 1) / max(len(rows), 1)
    )
    significant = np.zeros(len(change.estimate), bool)
    significant[rows[order[: passed[-1] + 1 if len(passed) else 0]]] = True
    certain = np.maximum(size - half, 0.0)
    ranks = np.lexsort((rows, -size, np.where(significant[rows], -certain, 0.0), ~significant[rows]))
    return rows[ranks], significant
