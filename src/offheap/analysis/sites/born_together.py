"""Joins sites below one library call of one application method whose blocks are born and freed alike.

A library's object allocates at several places: a struct, its buffer, its string.  Such sites are one leak.
Two sites of `grouping` are joined if they name the same method of the application and the same library that
it called, agree in the application's frames outside, and their blocks do not differ in the share that
survives or in the times of birth.  Two methods of the library need more samples to show that.
A healthy site beside a leaking one keeps its own verdict.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.sites.grouping import Framed, Grouping, Traits
from offheap.analysis.stacks import packages
from offheap.analysis.stacks.blame import blamed, called
from offheap.analysis.stacks.packages import Application
from offheap.analysis.statistics.student import DEVIATIONS_95
from offheap.recording.model import Recording

Floats = NDArray[np.float64]

# Parts of the recording's time for the comparison of births: enough to tell a start-up from a leak, few
# enough that a dozen survivors fill them.
_PARTS = 6
# Sampled survivors of each site: with fewer the test cannot show that two sites are alike.
_FEWEST = 5


@dataclass(frozen=True)
class _Test:
    """The limits above which two sites differ.

    deviations  standard deviations between the shares that survive
    factor      factor between these shares: blocks in use at the end make small differences
    chi_square  between the times of birth, with _PARTS - 1 degrees of freedom
    moved       share of births that the difference moves to other parts of the time
    churn       bytes that one site freed over bytes that the other keeps: less hides no leak
    """

    deviations: float
    factor: float
    chi_square: float
    moved: float
    churn: float = 0.0


# Below one method of a library: the tests separate two of a thousand pairs of sites that are alike.
_OF_A_METHOD = _Test(deviations=3.3, factor=1.5, chi_square=20.5, moved=1 / 3)
# Below two methods of a library there may be two objects: five of a hundred, and any difference that matters.
_OF_A_LIBRARY = _Test(deviations=DEVIATIONS_95, factor=1.1, chi_square=11.07, moved=0.05, churn=0.25)


@dataclass(frozen=True)
class _Blocks:
    """The blocks of one site or several.

    born      estimated bytes alive at the end, by the part of the time that they were born in
    variance  of `born`, for random births
    alive     sampled blocks that are alive
    taken     all sampled blocks
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


def joined(recording: Recording, framed: Framed, traits: Traits, latest: NDArray[np.int64]) -> Grouping:
    """The grouping with such sites joined.  `latest`: by stack its latest row in the series, or -1."""
    grouping = framed.grouping
    candidates = _candidates(recording, framed, traits, latest)
    if not candidates:
        return grouping
    blocks = _blocks(recording, grouping, latest)
    into = list(range(len(grouping.members)))
    for by_method in candidates:
        found: list[_Cluster] = []
        for numbers in by_method:
            found += _clusters([_Cluster([number], blocks[number]) for number in numbers], _OF_A_METHOD)
        sure = [cluster for cluster in found if cluster.blocks.alive >= _FEWEST]
        unsure = [cluster for cluster in found if cluster.blocks.alive < _FEWEST]
        for cluster in [*_clusters(sure, _OF_A_LIBRARY), *unsure]:
            for number in cluster.numbers:
                into[number] = cluster.numbers[0]
    return _renumbered(grouping, into)


@dataclass(frozen=True)
class _Cluster:
    """Sites that are joined into one."""

    numbers: list[int]
    blocks: _Blocks


def _clusters(some: Sequence[_Cluster], test: _Test) -> list[_Cluster]:
    """Joins sites that are alike, each to the first one that it is like; most samples first."""
    found: list[_Cluster] = []
    for one in sorted(some, key=lambda each: -each.blocks.taken):
        like = next((n for n, each in enumerate(found) if _alike(each.blocks, one.blocks, test)), None)
        if like is None:
            found.append(one)
        else:
            first = found[like]
            found[like] = _Cluster([*first.numbers, *one.numbers], first.blocks.with_(one.blocks))
    return found


def _alike(one: _Blocks, other: _Blocks, test: _Test) -> bool:
    """Whether no test shows that their blocks live and die differently."""
    return not _fates_differ(one, other, test) and not _births_differ(one, other, test)


def _fates_differ(one: _Blocks, other: _Blocks, test: _Test) -> bool:
    """Whether the shares of blocks that survive differ, by a test of two proportions (Yates)."""
    if not one.taken or not other.taken:
        return False
    # The use of an object frees a few blocks: a small amount of freed bytes does not separate two sites.
    most_freed = max(one.taken - one.alive, other.taken - other.alive)
    if most_freed <= test.churn * max(one.alive, other.alive):
        return False
    shares = one.alive / one.taken, other.alive / other.taken
    least, most = min(shares), max(shares)
    if most <= test.factor * least:
        return False
    pooled = (one.alive + other.alive) / (one.taken + other.taken)
    inverse = 1 / one.taken + 1 / other.taken
    error = math.sqrt(pooled * (1 - pooled) * inverse)
    return most - least - inverse / 2 > test.deviations * error


def _births_differ(one: _Blocks, other: _Blocks, test: _Test) -> bool:
    """Whether the survivors' times of birth differ, by a chi-square test of homogeneity."""
    totals = one.born.sum(), other.born.sum()
    if not all(totals):
        return False
    # The variance of the difference of two shares is the sum of both variances.
    difference = one.born / totals[0] - other.born / totals[1]
    error = one.variance / totals[0] ** 2 + other.variance / totals[1] ** 2
    known = error > 0
    if float((difference[known] ** 2 / error[known]).sum()) <= test.chi_square:
        return False
    # Half of the sum of the differences is the share of births that the difference moves.
    return float(np.abs(difference).sum()) / 2 > test.moved


def _candidates(
    recording: Recording, framed: Framed, traits: Traits, latest: NDArray[np.int64]
) -> list[list[list[int]]]:
    """Sites of one method of the application that called one library, by that library's method.

    The sites agree in the application's frames outside, and have allocated.
    """
    members = framed.grouping.members
    held = latest >= 0
    held[recording.live["stack"]] = True
    by_caller: dict[Hashable, list[int]] = {}
    for number, caller in enumerate(framed.callers):
        if caller is not None and any(held[stack] for stack in members[number]):
            by_caller.setdefault(caller, []).append(number)
    application = Application.of(recording.info)
    found: dict[Hashable, dict[str, list[int]]] = {}
    # Most sites are alone with their callers.
    for callers, numbers in by_caller.items():
        for number in numbers if len(numbers) > 1 else ():
            stack = recording.stack(members[number][0])
            method = called(stack, blamed(stack, application))
            name = method.name if method else ""
            by_method = found.setdefault((callers, _library(name)), {})
            by_method.setdefault(name, []).append(number)
    return [list(by_method.values()) for by_method in found.values() if sum(map(len, by_method.values())) > 1]


def _library(name: str) -> str:
    """The project that a method belongs to; for the JDK, which has every kind of library, the class."""
    return name.rpartition(".")[0] if packages.is_jdk(name) else packages.project(name)


def _blocks(recording: Recording, grouping: Grouping, latest: NDArray[np.int64]) -> list[_Blocks]:
    live, count = recording.live, len(grouping.members)
    site = grouping.of_stack[live["stack"]]
    end = recording.info.live_seconds
    part = np.clip((live["birth"] / end * _PARTS).astype(np.int64), 0, _PARTS - 1)
    # Bytes, not blocks: a sampled small block stands for so many blocks that its chance dominates the births.
    weight = live["size"] / live["probability"]
    cell = site * _PARTS + part

    def by_part(weights: Floats) -> Floats:
        table: Floats = np.bincount(cell, weights=weights, minlength=count * _PARTS).astype(np.float64)
        return table.reshape(count, _PARTS)

    born, variance = by_part(weight), by_part(weight * weight)
    alive = np.bincount(site, minlength=count).astype(np.float64)
    known = np.flatnonzero(latest >= 0)
    taken = np.bincount(grouping.of_stack[known], recording.series["samples"][latest[known]], count)
    # offheap reads the live set a moment after the counters.
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
