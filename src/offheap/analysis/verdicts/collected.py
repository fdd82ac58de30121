"""What garbage collections show about memory that Java objects may own: by evidence, not by class.

Three questions about each site below Java:

uncollected   Did a collection run that could have freed the live blocks?  Without one, growth is no leak yet.
batches       Does the site free at collections, and hardly ever between them?  Then the death of a Java
              object frees the memory, by a finalizer, a Cleaner or a PhantomReference of any class.
              Snapshots date the frees.  If frees fall at random times, all k sampled blocks are freed in
              the share q of the time that has collections with probability q^k.
kept          Do blocks survive collections at one rate?  At such a site only the cohorts that were born
              before a collection can be a leak.  Younger blocks are in use or garbage that waits for a
              collection.  The survivors of these cohorts are judged like survivors under churn: one rate
              of births, one share that stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.sites.sites import SiteTable
from offheap.analysis.statistics.estimates import Estimates, Floats, poisson_limits, zeros
from offheap.analysis.statistics.trend import trend
from offheap.analysis.verdicts import evidence
from offheap.analysis.verdicts.site_history import Boundaries, Histories
from offheap.analysis.verdicts.survival import (
    CLOCK_SECONDS,
    SETTLE_SECONDS,
    Survival,
    collections,
    end_of,
    passed,
    whole,
)
from offheap.recording.model import Collections, Recording

Bools = NDArray[np.bool_]

FEWEST = 5  # sampled survivors, born in the first two thirds before the last collection: fewer may be chance
# Frees between collections are at most this share of those expected at an even rate: a few are explicit.
_ELSEWHERE = 0.1
_BY_CHANCE = 0.05  # that all frees fall on collections
# A share of the time: a block born so shortly before the last collection may have been in use at it.  Blocks
# that met two collections are exempt: they were in use at both.
_IN_USE = 0.2
_FEW = 0.1  # of the blocks that met a collection: this share may have been in use
_OVERDUE = 2.0  # times the longest pause between two collections: then more garbage waits than ever before
_MORE = 2.0  # times the highest level before a collection: the program's garbage never reached it
_LIKELY = 0.5  # probability: growth goes on more likely than not
# Share of the middle third's rate, and of the site's growth: the level rises by less in the last third.
_SLOWED = 0.5
# Collections of the whole heap.  Metaspace gives little back of what a class held, but uses it again: only
# what it needs after one of them, beyond what it needed after another, stays.
_UNLOADING = 2
_LEVELS = 6  # collections: two for each third of the time
# Confidence of a leak if a collection of the old generation may still free what survived young ones, or if it
# is unknown whether any ran: objects that became old before the program dropped them are rarer than leaks.
DOUBTED = 0.9


@dataclass(frozen=True, slots=True)
class Collected:
    """By site.

    uncollected  a Java object may own the memory, and no collection ran that could have freed it
    loaded       of classes, and no two collections ran that unload classes
    batches      the site frees at collections
    passed       the boundary before which all blocks have met a collection; only for `batches`
    overdue      the last collection is longer ago than usual for the program
    most_sure    the highest confidence of a leak, given the knowledge about collections
    after        the boundaries that follow a collection, each once: what is live there is no garbage
    """

    uncollected: Bools
    loaded: Bools
    batches: Bools
    passed: Boundaries
    overdue: bool
    most_sure: Floats
    after: Boundaries = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def nothing(cls, sites: int) -> Collected:
        """For sites whose memory no Java object owns."""
        no = np.zeros(sites, np.bool_)
        return cls(no, no, no, np.zeros(sites, np.int64), False, np.ones(sites))


@dataclass(frozen=True, slots=True)
class Kept:
    """By site, the evidence of the cohorts that met a collection; all zero without `batches`.

    leaks      the memory that survives collections grows
    some       some memory survives, keeps coming and raises the level; whether that goes on is not shown
    few        hardly any memory survives collections
    more_waits far more is live than before any collection
    met        sampled blocks that met a collection
    growth     bytes per second
    survivors  sampled, born in the first two thirds of the cohorts' time
    sign       probability that some memory survives
    goes_on    probability that the growth goes on
    """

    leaks: Bools
    some: Bools
    few: Bools
    more_waits: Bools
    met: Floats
    growth: Estimates
    survivors: Floats
    sign: Floats
    goes_on: Floats


def collected(
    recording: Recording,
    sites: SiteTable,
    history: Histories,
    survived: Survival | None,
    *,
    below: Bools,
    owned: Bools,
    classes: Bools,
) -> Collected:
    """The evidence of collections about every site.

    survived  None: collections were not counted, or a command asked for one
    below     a Java object may own the memory
    owned     a Java object of the JDK owns the memory
    classes   it is HotSpot's, for classes that Java loaded
    """
    ran, asked = collections(recording), recording.info.after_collection
    count = len(sites)
    none = np.zeros(count, np.bool_)
    uncollected = below & ~survived.any if survived else none
    if ran is None:
        doubtful = below if not asked else none
        return Collected(
            uncollected, none, none, np.zeros(count, np.int64), False, np.where(doubtful, DOUBTED, 1.0)
        )
    batches = below & _in_batches(recording, sites, ran) if history.live is not None else none
    end = end_of(recording)
    # The command that asked for a collection also waited for its frees.
    met = passed(ran, np.inf if asked else end)
    until = _until(np.sort(met[np.isfinite(met)]), end)
    boundary = max(int(np.searchsorted(history.times, until, "right")) - 1, 0) if np.isfinite(until) else 0
    old = survived.old if survived else ~none
    most_sure = np.where((batches | owned) & ~old, DOUBTED, 1.0)
    return Collected(
        uncollected & ~batches,
        classes if _unloading(ran, met) < _UNLOADING else none,
        batches,
        np.full(count, boundary),
        _is_overdue(ran, end),
        most_sure,
        _after(ran, history.times),
    )


def kept(history: Histories, seen: Collected, live: Estimates, on_jvm_threads: Bools, *, age: float) -> Kept:
    """The survivors of collections, for the sites that free at collections; `live`: bytes at the end."""
    count = len(seen.batches)
    none, nothing = np.zeros(count, np.bool_), np.zeros(count)
    if not seen.batches.any():
        return Kept(none, none, none, none, nothing, zeros(count), nothing, nothing, nothing)
    until = np.maximum(seen.passed, history.first)
    a, b, half = (_between(history, until, share) for share in (1 / 3, 2 / 3, 1 / 2))
    ordered = (history.first < a) & (a < b) & (b < until)
    stayed = history.survivors(a, until)
    seconds = np.maximum(history.seconds(a, until), 1e-9)
    samples = history.sampled(a, until) / history.dispersion(a, until)
    low, high = poisson_limits(np.maximum(samples, 1.0))
    rate = stayed.over(seconds)
    each = rate.estimate / np.maximum(samples, 1.0)
    growth = rate.within(each * (np.maximum(samples, 1.0) - low), each * (high - np.maximum(samples, 1.0)))
    populated = np.ones(count, np.bool_)
    for start, stop in ((history.first, a), (a, b), (b, until)):
        populated &= history.sampled(start, stop) > 0
    stays = evidence.stays(history, half, until)
    even = np.maximum(
        evidence.even(history, a, until, on_jvm_threads, age=age),
        evidence.even(history, history.first, until, on_jvm_threads, age=age),
    )
    goes_on = np.minimum(stays, even)
    survivors = history.sampled(history.first, b)
    born, alive = history.born_sampled(history.first, until), history.sampled(history.first, until)
    few = (alive < FEWEST) | (alive <= _FEW * born)
    some = seen.batches & ordered & populated & (growth.low > 0) & (survivors >= FEWEST)
    for number in np.flatnonzero(some).tolist():
        some[number] = not _full(history, number, seen.after, float(growth.low[number]))
    leaks = some & (goes_on > _LIKELY)
    return Kept(
        leaks=leaks,
        some=some & ~leaks,
        # If hardly any block has met a collection, the share that survives one is unknown.
        few=seen.batches & few & ~leaks & (born >= FEWEST),
        more_waits=seen.batches & _more_waits(history, live, seen.after),
        met=born,
        growth=growth,
        survivors=survivors,
        sign=-np.expm1(-samples),
        goes_on=goes_on,
    )


def _unloading(ran: Collections, met: Floats) -> int:
    """How many collections could have unloaded classes; `met`: by row of `ran`, as `passed` has it."""
    return len(np.unique(met[whole(ran) & np.isfinite(met)]))


def _after(ran: Collections, times: Floats) -> Boundaries:
    found = np.unique(np.searchsorted(times, ran.ended + SETTLE_SECONDS, "left"))
    boundaries: Boundaries = found[found < len(times)]
    return boundaries


def _more_waits(history: Histories, live: Estimates, after: Boundaries) -> Bools:
    """By site, whether far more is live than before any collection: the load rose, or a leak began."""
    assert history.live is not None
    if not len(after):
        return np.zeros(len(history.live), np.bool_)
    highest = history.live[:, : int(after[-1])].max(axis=1, initial=0.0)
    more: Bools = live.low > _MORE * highest
    return more


def _full(history: Histories, number: int, after: Boundaries, growth: float) -> bool:
    """Whether the level has stopped to rise by `growth` bytes a second, as of a cache that is full.

    Its entries are freed at collections once they are given up, and those of every age that are left look
    like survivors of a leak.  The level after collections has no garbage; between them garbage makes it a
    saw-tooth, whose trend has a wide interval.  Fewer than _LEVELS collections tell no course.
    """
    assert history.live is not None
    first = int(history.first[number])
    places = after[after >= first]
    settled = trend(history.times[places], history.live[number, places]) if len(places) >= _LEVELS else None
    if settled and settled.slows(_SLOWED) and settled.last < _SLOWED * growth:
        return True
    always = trend(history.times[first:], history.live[number, first:])
    return any(found is not None and found.rate.high < growth for found in (settled, always))


def _between(history: Histories, until: Boundaries, share: float) -> Boundaries:
    """The boundary nearest to this share of the time from each site's first allocation to `until`."""
    start = history.times[history.first]
    target = start + share * (history.times[until] - start)
    after = np.clip(np.searchsorted(history.times, target, "left"), 1, history.end)
    nearer = target - history.times[after - 1] < history.times[after] - target
    boundary: Boundaries = np.where(nearer, after - 1, after)
    return np.clip(boundary, history.first, until)


def _until(met: Floats, end: float) -> float:
    """The time before which live blocks are too old for mere use at the last collection; -inf: none ran.

    met: in order, the times before which blocks met the collections
    """
    if not len(met):
        return -np.inf
    twice = float(met[-2]) if len(met) > 1 else -np.inf
    return max(twice, float(met[-1]) - _IN_USE * end)


def _is_overdue(ran: Collections, end: float) -> bool:
    """Whether the last collection is much longer ago than the longest pause between two."""
    if not len(ran.begun):
        return True
    ended = np.sort(ran.ended)
    longest = float(np.diff(ended, prepend=ran.since).max())
    return bool(end - ended[-1] > _OVERDUE * longest)


def _in_batches(recording: Recording, sites: SiteTable, ran: Collections) -> Bools:
    """Whether each site frees at collections, and hardly ever between them."""
    count = len(sites)
    series, readings = recording.series, np.unique(recording.process["time"])
    readings = readings[readings > 0]
    if len(readings) < 2 or not len(ran.begun) or not len(series):
        return np.zeros(count, np.bool_)
    starts = np.concatenate(([0.0], readings[:-1]))
    # An interval between snapshots has a collection if one began before its end and ended, frees included,
    # after its start.  Rows may overlap: the latest end among the earlier begins counts.
    order = np.argsort(ran.begun)
    latest = np.maximum.accumulate(ran.ended[order] + SETTLE_SECONDS)
    before = np.searchsorted(ran.begun[order] - CLOCK_SECONDS, readings, "right")
    at_collection = (before > 0) & (latest[np.maximum(before, 1) - 1] >= starts)
    # A collection may also have run before the count began.
    known = starts >= ran.since + SETTLE_SECONDS
    if not known.any():
        return np.zeros(count, np.bool_)
    of_stack = sites.grouping.of_stack
    freed_in = _freed(recording, of_stack, count, readings, at_collection & known)
    freed_out = _freed(recording, of_stack, count, readings, ~at_collection & known)
    share = float(((readings - starts) * (at_collection & known)).sum() / ((readings - starts) * known).sum())
    alive = np.bincount(of_stack[recording.live["stack"]], minlength=count)
    freed = np.maximum(sites.samples - alive, 0.0)
    whole = freed_in + freed_out
    few_elsewhere = freed_out <= _ELSEWHERE * (1 - share) * whole
    told: Bools = (whole > 0) & few_elsewhere & (share**freed <= _BY_CHANCE)
    return told


def _freed(
    recording: Recording, of_stack: NDArray[np.int64], count: int, readings: Floats, chosen: Bools
) -> Floats:
    """By site, bytes freed in the intervals that end at the chosen snapshots."""
    series = recording.series
    order = np.argsort(series["stack"], kind="stable")  # by time within a stack
    stacks = series["stack"][order]
    gone = series["allocated_bytes"][order] - series["live_bytes"][order]
    first = np.diff(stacks, prepend=np.uint32(0xFFFFFFFF)) != 0
    freed = np.maximum(np.where(first, gone, np.diff(gone, prepend=0.0)), 0.0)
    freed[freed <= 1e-9 * series["allocated_bytes"][order]] = 0.0
    interval = np.clip(np.searchsorted(readings, series["time"][order], "left"), 0, len(readings) - 1)
    bytes_of = np.bincount(of_stack[stacks], weights=freed * chosen[interval], minlength=count)
    return bytes_of.astype(np.float64, copy=False)
