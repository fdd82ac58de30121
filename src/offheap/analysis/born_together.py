"""Sites that are one: below one call of a library by one method of the application, born and freed alike.

An object of a library's allocates at several places: a struct, its buffer, its string.  That is one leak.
Two sites of `grouping` are joined if they name the same method of the application and the same method of a
library that it called, agree in all frames outside, and nothing tells their blocks apart: the share that
survives, and when the survivors were born.  A healthy site beside a leaking one keeps its own verdict.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offheap.analysis import frames
from offheap.analysis.blame import blamed, entry, position
from offheap.analysis.callbacks import callback
from offheap.analysis.grouping import Grouping, Traits
from offheap.analysis.packages import Application
from offheap.recording.model import Recording

Floats = NDArray[np.float64]

# Parts of the recording's time that births are compared over: enough to tell a start-up from a leak, few
# enough that a dozen survivors fill them.
_PARTS = 6
# Standard deviations by which two sites have to differ: one of a thousand that are alike does.
_APART = 3.3
# And by which factor: what is in use when the recording ends makes a small difference that is none.
_FACTOR = 1.5
# 99.9 % quantile of chi square with _PARTS - 1 degrees of freedom.
_CHI_SQUARE = 20.5


@dataclass(frozen=True)
class _Blocks:
    """Of one site or several.

    born      estimated blocks alive at the end, by the part of the time that they were born in
    variance  of these, were births a matter of chance
    alive     sampled blocks that are alive
    taken     sampled blocks ever
    """

    born: Floats
    variance: Floats
    alive: float
    taken: float

    def with_(self, other: _Blocks) -> _Blocks:
        return _Blocks(
            self.born + other.born,
            self.variance + other.variance,
            self.alive + other.alive,
            self.taken + other.taken,
        )


def joined(recording: Recording, grouping: Grouping, traits: Traits, latest: NDArray[np.int64]) -> Grouping:
    """The grouping with such sites joined.  `latest`: by stack its latest row in the series, or -1."""
    candidates = _candidates(recording, grouping, traits, latest)
    if not candidates:
        return grouping
    blocks = _blocks(recording, grouping, latest)
    into = list(range(len(grouping.members)))
    for numbers in candidates:
        clusters: list[tuple[int, _Blocks]] = []
        for number in sorted(numbers, key=lambda each: -blocks[each].taken):
            its = blocks[number]
            for index, (leader, together) in enumerate(clusters):
                if alike(together, its):
                    into[number] = leader
                    clusters[index] = leader, together.with_(its)
                    break
            else:
                clusters.append((number, its))
    return _renumbered(grouping, into)


def alike(one: _Blocks, other: _Blocks) -> bool:
    """Whether nothing tells that their blocks live and die differently."""
    return not _fates_differ(one, other) and not _births_differ(one, other)


def _fates_differ(one: _Blocks, other: _Blocks) -> bool:
    """Whether another share of the one's blocks survives, by a test of two proportions (Yates)."""
    if not one.taken or not other.taken:
        return False
    shares = one.alive / one.taken, other.alive / other.taken
    least, most = min(shares), max(shares)
    if most <= _FACTOR * least:
        return False
    pooled = (one.alive + other.alive) / (one.taken + other.taken)
    inverse = 1 / one.taken + 1 / other.taken
    error = math.sqrt(pooled * (1 - pooled) * inverse)
    return most - least - inverse / 2 > _APART * error


def _births_differ(one: _Blocks, other: _Blocks) -> bool:
    """Whether their survivors came at other times, by a chi-square test of homogeneity."""
    totals = one.born.sum(), other.born.sum()
    if not all(totals):
        return False
    # By chance the two shares of a part differ by the errors of both.
    difference = one.born / totals[0] - other.born / totals[1]
    error = one.variance / totals[0] ** 2 + other.variance / totals[1] ** 2
    known = error > 0
    if float((difference[known] ** 2 / error[known]).sum()) <= _CHI_SQUARE:
        return False
    # Half of the sum of the differences is the share that would have to move.
    return float(np.abs(difference).sum()) / 2 > 1 - 1 / _FACTOR


def _candidates(
    recording: Recording, grouping: Grouping, traits: Traits, latest: NDArray[np.int64]
) -> list[list[int]]:
    """Sites that have one name, the same frames outside the method to look at, and ever allocated."""
    application = Application.of(recording.info)
    indices, offsets = recording.stack_frames, recording.stack_offsets
    held = np.zeros(len(offsets) - 1, np.bool_)
    held[recording.live["stack"]] = True
    held |= latest >= 0
    known = [any(held[stack] for stack in members) for members in grouping.members]
    # Whoever is alone with its outermost frames is alone with its name: few of many sites are looked at.
    by_name: dict[Hashable, list[int]] = {}
    for number, members in enumerate(grouping.members):
        own = indices[offsets[members[0]] : offsets[members[0] + 1]].tolist()
        if not known[number] or not any(traits.java[index] for index in own):
            continue
        stack = recording.stack(members[0])
        if callback(stack) or frames.by_jvm(stack):
            continue
        look = blamed(stack, application)
        at = position(stack, look)
        if at is None:
            continue
        called = entry(stack, look)
        outside = tuple(traits.identity[index] for index in own[at + 1 :] if not traits.glue[index])
        name = 0 if called is None else traits.function[own[called]]
        kind = int(recording.stack_kinds[members[0]])
        by_name.setdefault((kind, traits.function[own[at]], name, outside), []).append(number)
    return [numbers for numbers in by_name.values() if len(numbers) > 1]


def _blocks(recording: Recording, grouping: Grouping, latest: NDArray[np.int64]) -> list[_Blocks]:
    live, count = recording.live, len(grouping.members)
    site = grouping.of_stack[live["stack"]]
    end = max(recording.info.live_time or recording.info.duration_seconds, 1e-3)
    part = np.clip((live["birth"] / end * _PARTS).astype(np.int64), 0, _PARTS - 1)
    weight = 1 / live["probability"]
    cell = site * _PARTS + part

    def by_part(weights: Floats) -> Floats:
        table: Floats = np.bincount(cell, weights=weights, minlength=count * _PARTS).astype(np.float64)
        return table.reshape(count, _PARTS)

    born, variance = by_part(weight), by_part(weight * weight)
    alive = np.bincount(site, minlength=count).astype(np.float64)
    known = np.flatnonzero(latest >= 0)
    taken = np.bincount(grouping.of_stack[known], recording.series["samples"][latest[known]], count)
    # The live set is read a moment after the counters.
    taken = np.maximum(taken, alive)
    return [
        _Blocks(born[number], variance[number], float(alive[number]), float(taken[number]))
        for number in range(count)
    ]


def _renumbered(grouping: Grouping, into: list[int]) -> Grouping:
    numbers: dict[int, int] = {}
    members: list[list[int]] = []
    of_site = np.zeros(len(into), np.int64)
    for number, its in enumerate(grouping.members):
        place_ = numbers.setdefault(into[number], len(numbers))
        if place_ == len(members):
            members.append([])
        members[place_] += its
        of_site[number] = place_
    for stacks in members:
        stacks.sort()
    return Grouping(of_site[grouping.of_stack], members)
