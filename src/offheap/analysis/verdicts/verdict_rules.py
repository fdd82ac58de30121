"""The rules that give each site its verdict, in their order, and the facts that they use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.sites.sites import SiteTable
from offheap.analysis.statistics.estimates import Estimates, Floats
from offheap.analysis.statistics.trend import STRAIGHT
from offheap.analysis.verdicts import evidence, signs
from offheap.analysis.verdicts.collected import Collected, Kept
from offheap.analysis.verdicts.signs import FEWEST_SURVIVORS, LITTLE, above_zero, fades, ratio
from offheap.analysis.verdicts.site_history import Boundaries, Histories
from offheap.analysis.verdicts.site_rates import IN_USE
from offheap.analysis.verdicts.survivor_layer import LIKELY, Course
from offheap.analysis.verdicts.verdict_reasons import Reason

Bools = NDArray[np.bool_]

# Seconds of a site's own time.  Snapshots are a second apart at first: less has none in each third.
SHORTEST = 3.0
FEWEST_OF_LATE = 3  # sampled, born in the last two thirds and none freed: fewer are no growth
_FEWEST_OF_LAST = 2  # of these in the last third: a single one may be the last one
_FEWEST_VISIBLE = 2  # survivors: one is no growth
_HOTSPOTS = 4  # times as many survivors for HotSpot's own sites: its tables and arenas grow in steps
# Probability that the last third also grows (one-sided): a third has fewer samples than the whole, which has
# to be surer.
_LATELY = 0.9
_SURE = 0.95  # probability that the site grows, corrected for the number of sites tested
# Bytes of compiled code that a site of HotSpot's own threads may keep: ten times the most that such a site of
# healthy programs kept (docs/verdicts.md).
_COMPILED = 512 << 10
# Share of the eras in which survivors are expected.  With fewer, births are uneven: five samples, expected in
# about four eras, lie in two at least.
_POPULATED = 0.4

# Shares: the rate of one third of the time over the rate of another.
# Last over middle: less, beyond chance, means that growth slows down.  The logarithm of time has 0.58.
_SLOWING = 0.6
# Middle over first, if the last slows as well: less is a start-up, whose rate halves within a quarter of the
# time.
_SLOWED = 0.4
# Upper end of the last third's rate over growth: less means that the middle third grew three times as much
# or more, so growth has stopped.
_STALLED = 0.5
# First over middle: less, beyond chance, means that the oldest were freed, as where blocks live for a quarter
# of the time on average.
_OLDEST_GONE = 0.25
# Without snapshots, middle over last: below the first beyond chance, or below the second by the estimates.
# Blocks that live for 1.5 times the time on average have the first, for half of the time the second.
_DIE, _DIE_MORE = 0.8, 0.5

# Share of live bytes that were born in the first third: more is a start-up, at three times the rate of the
# later thirds.
_EARLY = 0.6
# Standard deviations by which the first third exceeds chance.  2.3 % of sites with even births reach the
# first, 3 of 100,000 the second.  The second is for a site that freed none of its samples and goes on
# allocating, which as a start-up would be a missed leak.
_CROWD, _SURER_CROWD = 2.0, 4.0
_FLAT = 0.8  # probability that growth stays under LITTLE of live bytes: four to one is enough for a start-up
# Growth may reach the first share of live bytes with fewer samples than the second: too little is known.  The
# 95 % interval of twenty samples is 44 % wide to each side.
_WIDE, _FEW = 0.5, 20
_FREED = 4  # allocated over live bytes: above it the site frees three of four bytes


@dataclass(frozen=True, slots=True)
class Question:
    """The facts about all sites before a verdict; arrays are by site number.

    a, b       the ends of the first and the middle third of each site's time
    by_jvm, on_jvm_threads, seen, age  as in `site_verdicts.judge`
    kept       for sites that free at collections
    """

    sites: SiteTable
    history: Histories
    by_jvm: Bools
    on_jvm_threads: Bools
    seen: Collected
    kept: Kept
    course: Course
    a: Boundaries
    b: Boundaries
    age: float

    @property
    def live(self) -> Estimates:
        return self.sites.live_bytes

    @property
    def seconds(self) -> Floats:
        """Each site's own time."""
        return self.history.seconds(self.history.first, self.history.end)

    @property
    def samples(self) -> Floats:
        """Number of sampled live blocks."""
        return self.history.sampled(0, self.history.end)

    @property
    def freed_nothing(self) -> Bools:
        """Whether the application's site freed none of its sampled blocks."""
        none: Bools = (self.sites.samples <= self.samples) & ~self.by_jvm
        return none


@dataclass(frozen=True, slots=True)
class Growing:
    """Whether each site grows.

    grows      growth is above zero and the last third shows it, or none of enough samples was freed
    sure       the probability of growth, corrected for the number of tested sites
    survivors  sampled, born in the first two thirds; survivors of a collection if collections free the site
    fewest     survivors that a verdict needs
    """

    grows: Bools
    sure: Floats
    survivors: Floats
    fewest: NDArray[np.int64]


def growing(of: Question) -> Growing:
    """Which sites grow, and how sure that is."""
    history, course, a, b = of.history, of.course, of.a, of.b
    end, growth, last = history.end, course.rates.growth, course.rates.last
    snapshots = history.live is not None
    # With snapshots the last third must grow too; without them the youngest blocks show little.
    grows = growth.low > 0
    if snapshots:
        grows &= above_zero(last.estimate, last.low) > _LATELY
    sign = above_zero(growth.estimate, growth.low)
    if snapshots and history.interval_bytes:
        # A few samples, none of them freed, show that a site grows, not how fast: if the site freed as many
        # blocks as were born, n, no free would be seen with probability e^-n.
        since = history.sampled(a, end)
        certain = (
            of.freed_nothing & (since >= FEWEST_SURVIVORS) & (history.sampled(b, end) >= _FEWEST_OF_LAST)
        )
        grows |= certain
        none_freed = -np.expm1(-since / history.dispersion(a, end))
        sign = np.where(certain, np.maximum(sign, none_freed), sign)
        sign = np.where(course.layered, np.maximum(sign, course.sign), sign)
    sign = np.where(of.seen.batches, of.kept.sign, sign)
    survivors = np.where(of.seen.batches, of.kept.survivors, history.sampled(history.first, b))
    fewest = np.where(of.by_jvm, _HOTSPOTS * FEWEST_SURVIVORS, FEWEST_SURVIVORS)
    return Growing(grows, evidence.adjusted(sign, survivors >= fewest), survivors, fewest)


def reasons(of: Question, found: Growing, flat: Floats) -> NDArray[np.int64]:
    """The first rule that holds, by site; `flat`: the probability that growth changes little."""
    history, seen, kept, live = of.history, of.seen, of.kept, of.live
    growth, grows, goes_on = of.course.rates.growth, found.grows, of.course.goes_on
    slows, keeps = _slows(of, grows), _keeps(of)
    fills = signs.fills(history, of.a, of.age) & ~of.by_jvm & ~of.course.layered
    evicts = signs.begins_to_free(history, of.b) & ~seen.batches
    populated = signs.populated(history, of.a, history.at(IN_USE))
    enough = (found.survivors >= found.fewest) & (populated >= _POPULATED)
    stalled = of.course.rates.last.high < _STALLED * growth.estimate
    rises = (of.course.rates.middle.estimate > 0) & ~stalled
    visible = (growth.low > 0) & (found.survivors >= _FEWEST_VISIBLE) & rises
    doubtful = of.freed_nothing & _comes(of)
    early = _early(of, doubtful, grows, flat)
    little = signs.share(growth.estimate * of.seconds, live.estimate) < LITTLE
    # Chance explains the growth: there is none, or there are too few data.
    wide = (growth.high * of.seconds > _WIDE * np.maximum(live.estimate, 1.0)) & (of.samples < _FEW)
    # Compilation in bursts sometimes looks like a straight line in every test of births.
    beyond_code = ~of.on_jvm_threads | (live.estimate >= _COMPILED)
    # HotSpot's blocks for a Java method are start-up only if growth slows down beyond chance.
    thirds = of.course.rates
    starts = (
        of.on_jvm_threads
        | fades(thirds.first, thirds.middle, STRAIGHT)
        | fades(thirds.middle, thirds.last, STRAIGHT)
    )
    ordered = (history.first < of.a) & (of.a < of.b) & (of.b < history.end)
    sure = found.sure > _SURE
    leaks = grows & enough & rises & keeps & ~slows & beyond_code & (goes_on > LIKELY) & sure
    leaks &= ~fills & ~evicts & ~seen.batches
    survives = kept.leaks & sure
    # The level falls at each collection: growth by its trend alone is hardly ever beyond chance.
    waits = seen.batches & (((growth.low > 0) & rises) | kept.more_waits)
    # The first rule that holds wins.
    rules: tuple[tuple[Reason, Bools], ...] = (
        (Reason.NOTHING_LIVE, live.estimate == 0),
        (Reason.SHORT, (of.seconds < SHORTEST) | ~ordered),
        (Reason.LEAKS, leaks & ~seen.uncollected & ~seen.loaded),
        (Reason.LOADED, leaks & seen.loaded),
        (Reason.UNCOLLECTED, leaks),
        (Reason.SURVIVES, survives),
        (Reason.COLLECTED, kept.few & ~(waits & (seen.overdue | kept.more_waits))),
        (Reason.SOME_SURVIVES, kept.some | (kept.leaks & ~survives)),
        (Reason.WAITS, waits),
        (Reason.CAME_EARLY, early & (~grows | slows | little)),
        (Reason.JVM_SLOWS, grows & of.by_jvm & slows & starts),
        (Reason.EVICTS, visible & evicts),
        (Reason.SLOWS, visible & slows),
        (Reason.OLDEST_FREED, visible & ~keeps),
        (Reason.FEW_OLD, visible & ~enough),
        (Reason.OLD_DIE, visible & of.course.dies),
        (Reason.FILLS, visible & fills),
        (Reason.MAY_END, visible & grows & ((goes_on <= LIKELY) | (found.sure <= _SURE))),
        (Reason.JVM_KEEPS_LITTLE, visible & grows & ~beyond_code),
        (Reason.HARDLY_OF_LATE, visible),
        (Reason.NOTHING_FREED, doubtful & ~early),
        (
            Reason.FEW_SAMPLES,
            wide & ~early & (of.sites.allocated_bytes.estimate < _FREED * live.estimate),
        ),
    )
    return np.select([holds for _, holds in rules], [name for name, _ in rules], Reason.STEADY)


def _slows(of: Question, grows: Bools) -> Bools:
    """Whether growth slows down.

    HotSpot's own tables and arenas grow as the logarithm of time: their growth slows down if it is no
    straight line.
    """
    first, middle, last = of.course.rates.first, of.course.rates.middle, of.course.rates.last
    slows = fades(middle, last, _SLOWING) | (
        (ratio(first.estimate, middle.estimate) < _SLOWED)
        & (ratio(middle.estimate, last.estimate) < _SLOWING)
    )
    return slows | (of.by_jvm & grows & of.course.bends)


def _keeps(of: Question) -> Bools:
    """Whether the oldest blocks are still alive: a site frees if they died before the middle third."""
    first, middle, last = of.course.rates.first, of.course.rates.middle, of.course.rates.last
    keeps = ~fades(middle, first, _OLDEST_GONE)
    if of.history.live is not None:
        # Unless there were few from the start: the blocks alive after the first third still are.
        keeps |= signs.few_from_the_start(of.history, of.a, of.b)
    else:
        # Only births are known: blocks that live for a while and are freed leave ever fewer old ones.
        keeps &= ~fades(last, middle, _DIE) & (ratio(last.estimate, middle.estimate) > _DIE_MORE)
    # A site that freed none of its sampled blocks did not free the oldest.
    return keeps | (of.sites.samples <= of.samples)


def _comes(of: Question) -> Bools:
    """Whether blocks still come: a site that frees nothing and goes on allocating grows, even if unevenly."""
    history, end = of.history, of.history.end
    comes: Bools = (
        (history.sampled(of.a, of.b) > 0)
        & (history.sampled(of.b, end) > 0)
        & (history.sampled(of.a, end) >= FEWEST_OF_LATE)
    )
    return comes


def _early(of: Question, doubtful: Bools, grows: Bools, flat: Floats) -> Bools:
    """Whether most live bytes came in the first third.

    If blocks still come and none is freed, a start-up needs stronger evidence: chance may put many of a few
    samples there.
    """
    history, a = of.history, of.a
    early_share = signs.share(history.survivors(0, a).estimate, of.live.estimate)
    third = history.exposed(history.first, a) / history.exposed(history.first, history.end)
    deviations = np.where(doubtful, _SURER_CROWD, _CROWD)
    crowded = signs.crowded(history.sampled(history.first, a), of.samples, third, deviations)
    early: Bools = (early_share >= _EARLY) & crowded & ~(doubtful & ~grows & (flat < _FLAT))
    return early
