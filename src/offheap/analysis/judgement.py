"""The verdict on every site at once, in arrays: docs/verdicts.md has the mathematics in words.

Over a site's own time (from its first allocation to the end), with thirds and eras cut by `history`:

growth       over the last two thirds: bytes born since and alive, less bytes freed since.  Its 95 %
             interval is the wider of what sampling explains and what the scatter between eras explains.
survivors    blocks alive at the end, by birth.  A leak leaves some from every era; what is only in
             use leaves young ones; what came at the start leaves old ones.
evidence     do births go on at one rate, do old blocks stay: `evidence` has both probabilities.
slowing      the last third grew less than 0.6 of what the middle third grew, beyond chance; or births fall,
             mildly but surely; or old blocks begin to be freed.
collections  what Java objects may own is judged by what has been through a collection: `collected`.

Without snapshots (a bare live file) growth is the rate at which survivors were born, the youngest
fifth left out because it holds what is merely in use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from offheap.analysis import collected, evidence
from offheap.analysis.collected import Collected
from offheap.analysis.estimates import Estimates, Floats, poisson_limits, zeros
from offheap.analysis.history import Boundaries, Histories
from offheap.analysis.results import Verdict
from offheap.analysis.sites import SiteTable

Bools = NDArray[np.bool_]

_FEWEST_SURVIVORS = 5  # sampled, born in the first two thirds: fewer may be chance
SHORTEST = 3.0  # seconds of a site's own time: no verdict is possible on less
FEWEST_OF_LATE = 3  # sampled, born in the last two thirds and none freed: fewer are not called growth
_SLOWING = 0.6
_STRAIGHT = 0.7  # of a third's rate in the next: less is no straight line
_FILLING = 2.0  # seconds; over the age of a process: the doubt that what grows in it is merely being filled
# What grows in a straight line may be a cache far from its bound, however long the process has run: so much
# doubt there is about a site that has been known for a minute or less; later, less in proportion.  A cache
# that takes minutes to fill is as likely to take ten times as long.
_CACHE_DOUBT, _CACHE_SECONDS = 0.1, 60.0
# Prior odds, of sites that pass the other rules: most caches slow down more than mildly.
_LEAKS_TO_CACHES = 4.0
_STARTED = 10.0  # seconds of a process's life: most of what it needs to start up is there
# Times likelier that births fall than that they do not: "strong" in Jeffreys' scale of evidence, and
# "substantial" in the last two thirds, which have fewer samples.
_FADES, _FADES_LATE = 10.0, 3.0
# Shares of births: what was freed in the first two thirds of the time, and since: then evictions begin.
_NONE_YET, _EVICTED = 0.02, 0.1
_LIKELY = 0.5  # that it goes on as it does
_COMPILED = 512 << 10  # bytes: what a site of HotSpot's own threads may keep of compiled code
_SURE = 0.95  # that it grows at all, with all sites that were asked in mind
# 97.5 % quantiles of Student's t by degrees of freedom.
_T = np.array(
    (0.0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)
)


class Reason(IntEnum):
    """Why a site got its verdict."""

    NOTHING_LIVE = 0
    SHORT = 1
    LEAKS = 2
    CAME_EARLY = 3
    JVM_SLOWS = 4
    SLOWS = 5
    OLDEST_FREED = 6
    FEW_OLD = 7
    HARDLY_OF_LATE = 8
    NOTHING_FREED = 9
    FEW_SAMPLES = 10
    STEADY = 11
    OLD_DIE = 12
    MAY_END = 13
    JVM_KEEPS_LITTLE = 14
    UNCOLLECTED = 15
    SURVIVES = 16
    COLLECTED = 17
    WAITS = 18
    EVICTS = 19
    FILLS = 20
    SOME_SURVIVES = 21


VERDICTS: dict[Reason, Verdict] = {
    Reason.NOTHING_LIVE: "freed",
    Reason.SHORT: "cannot tell yet",
    Reason.LEAKS: "leak",
    Reason.CAME_EARLY: "startup",
    Reason.JVM_SLOWS: "startup",
    Reason.SLOWS: "growing",
    Reason.OLDEST_FREED: "growing",
    Reason.FEW_OLD: "growing",
    Reason.HARDLY_OF_LATE: "growing",
    Reason.NOTHING_FREED: "growing",
    Reason.FEW_SAMPLES: "cannot tell yet",
    Reason.STEADY: "steady",
    Reason.OLD_DIE: "growing",
    Reason.MAY_END: "growing",
    Reason.JVM_KEEPS_LITTLE: "growing",
    Reason.UNCOLLECTED: "growing",
    Reason.SURVIVES: "leak",
    Reason.COLLECTED: "steady",
    Reason.WAITS: "growing",
    Reason.EVICTS: "growing",
    Reason.FILLS: "growing",
    Reason.SOME_SURVIVES: "growing",
}


@dataclass(frozen=True, slots=True)
class Judgements:
    """By site number: the verdict's reason, its confidence (0..1), and the figures behind both.

    `seen` is the reason by these figures alone; `reason` differs while a watch keeps an older verdict.
    """

    reason: NDArray[np.int64]  # Reason
    seen: NDArray[np.int64]  # Reason
    confidence: Floats
    growth: Estimates  # bytes per second
    grown: Estimates  # as `growth`; of a site that freed nothing without the chance by which births come
    grows: Bools
    old: Estimates  # live bytes born before the last fifth
    seconds: Floats  # the site's own time
    first_third: Floats  # seconds
    last_fifth: Floats  # seconds
    early_share: Floats  # of live bytes, born in the first third
    survivors: Floats  # sampled, born in the first two thirds
    samples: Floats  # sampled and alive
    passed: Estimates  # live bytes that have met a collection, of a site that frees at collections
    bound: Floats  # bytes that are live when births stop, if they become rarer as they have; else infinite
    may_fill: Bools  # a leak, as far as can be seen; a cache that fills would look the same


def judge(
    sites: SiteTable, history: Histories, by_jvm: Bools, unasked: Bools, seen: Collected, *, age: float
) -> Judgements:
    """Every site.

    by_jvm       whether HotSpot itself wanted the memory
    unasked      whether it did so on a thread of its own, not because of what a Java method did
    seen         what is known of collections
    age          seconds, of the process
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return _judge(sites, history, by_jvm, unasked, seen, age)


def _judge(
    sites: SiteTable, history: Histories, by_jvm: Bools, unasked: Bools, seen: Collected, age: float
) -> Judgements:
    end = history.end
    a, b, late = history.at(1 / 3), history.at(2 / 3), history.at(0.8)
    seconds = history.seconds(history.first, end)
    old = history.survivors(0, late)
    live, allocated = sites.live_bytes, sites.allocated_bytes
    snapshots = history.live is not None
    growth = _growth(history, a)
    grown = _grown(history, growth, a)
    kept = collected.kept(history, seen, unasked, age=age)
    survivors, samples = history.sampled(history.first, b), history.sampled(0, end)
    first, middle, last = _thirds(history, a, b)
    populated = _populated(history, a, late)
    # HotSpot's own tables and arenas grow as the logarithm of time: only a straight line is a leak.
    bends = (_ratio(first.estimate, middle.estimate) < 0.7) | (_ratio(middle.estimate, last.estimate) < 0.7)
    if snapshots:
        # Heavy churn drowns the net growth of its site, not the even layer of survivors beneath it.
        used = _in_use(history, allocated)
        layer, thirds, ordered = _layer(history, a, b, used)
        sharper = layer.high - layer.low < growth.high - growth.low
        drowned = sharper | ~((growth.low > 0) & (last.low > 0))
        drowned &= allocated.estimate > 5 * live.estimate
        fits = (growth.low <= layer.estimate) & (layer.estimate <= growth.high)
        stays = evidence.stays(history, a, b)
        until = np.where(drowned, used, end)
        even = np.maximum(
            evidence.even(history, a, until, unasked, age=age),
            # What starts up has more at first than it leaks; for all others that is a third more samples.
            evidence.even(history, history.first, until, unasked, age=age),
        )
        goes_on, dies = np.minimum(stays, even), stays <= _LIKELY
        # The last third has half of what growth is measured over: its error by chance is sqrt(2) of that.
        chance = np.hypot(math.sqrt(2) * (growth.high - growth.estimate), layer.estimate - layer.low)
        lately = last.estimate + chance >= layer.estimate
        layered = drowned & ordered & (goes_on > _LIKELY) & fits & lately
        growth, middle, last = (layer.where(layered, value) for value in (growth, middle, last))
        stayed = _seen(history, history.survivors(a, used), a, used)
        clear = ordered & fits & (goes_on > _LIKELY) & (allocated.estimate > 5 * live.estimate)
        grown = stayed.where(layered | (clear & (stayed.high - stayed.low < grown.high - grown.low)), grown)
        sign_of_layer = -np.expm1(-history.sampled(a, used) / history.dispersion(a, used))
        uneven = (_ratio(thirds[0], thirds[1]) < 0.7) | (_ratio(thirds[1], thirds[2]) < 0.7)
        bends = np.where(layered, uneven, bends)
    else:
        goes_on = evidence.even(history, history.first, late, unasked, age=age)
        dies = layered = np.zeros(len(seconds), np.bool_)

    # With snapshots the last third has to show it too (one-sided 90 %); without, the youngest say little.
    grows = growth.low > 0
    if snapshots:
        grows &= _normal(last.estimate, last.low) > 0.9
    freed_nothing = (sites.samples <= samples) & ~by_jvm
    sign = _normal(growth.estimate, growth.low)
    if snapshots and history.interval_bytes:
        # A few samples do not tell how fast it grows, but that it does, if none of them was freed: had as
        # many been freed as were born since, n, the chance to see none of it would be e^-n.
        since = history.sampled(a, end)
        certain = freed_nothing & (since >= _FEWEST_SURVIVORS) & (history.sampled(b, end) >= 2)
        grows |= certain
        none_freed = -np.expm1(-since / history.dispersion(a, end))
        sign = np.where(certain, np.maximum(sign, none_freed), sign)
        sign = np.where(layered, np.maximum(sign, sign_of_layer), sign)
    sign = np.where(seen.batches, kept.sign, sign)
    survivors = np.where(seen.batches, kept.survivors, survivors)
    stalled = last.high < 0.5 * growth.estimate
    slows = _fades(middle, last, _SLOWING) | (
        (_ratio(first.estimate, middle.estimate) < 0.4) & (_ratio(middle.estimate, last.estimate) < _SLOWING)
    )
    fills = _fills(history, a, age) & ~by_jvm & ~layered
    evicts = _begins_to_free(history, b) & ~seen.batches
    early_share = _share(history.survivors(0, a).estimate, live.estimate)
    fewest = np.where(by_jvm, 4 * _FEWEST_SURVIVORS, _FEWEST_SURVIVORS)
    sure = evidence.adjusted(sign, survivors >= fewest)

    # Old blocks that had gone before the middle third speak against a leak: this site does free.
    keeps = ~_fades(middle, first, 0.25)
    slows |= by_jvm & grows & bends
    # What a Java method asked HotSpot for is called a start-up only if it slows down beyond chance.
    starts = unasked | _fades(first, middle, _STRAIGHT) | _fades(middle, last, _STRAIGHT)
    if snapshots:
        # Unless they were few from the start: who was alive after the first third still is.
        keeps |= _few_from_the_start(history, a, b)
    else:
        # Only births are known: blocks that live for a while and are freed leave ever fewer of the old.
        keeps &= ~_fades(last, middle, 0.8) & (_ratio(last.estimate, middle.estimate) > 0.5)
    # Who freed none of its sampled blocks did not free the oldest.
    keeps |= sites.samples <= samples
    enough = (survivors >= fewest) & (populated >= 0.4)
    rises = (middle.estimate > 0) & ~stalled
    # Who frees nothing and goes on allocating grows, however unevenly: to say that it was only the
    # start takes more than the chance that put many of a few samples there.
    comes = (
        (history.sampled(a, b) > 0)
        & (history.sampled(b, end) > 0)
        & (history.sampled(a, end) >= FEWEST_OF_LATE)
    )
    doubtful = freed_nothing & comes
    flat = _flat(growth, live, seconds)
    third = history.exposed(history.first, a) / history.exposed(history.first, end)
    crowded = _crowded(history.sampled(history.first, a), samples, third, np.where(doubtful, 4.0, 2.0))
    early = (early_share >= 0.6) & crowded & ~(doubtful & ~grows & (flat < 0.8))
    little = _share(growth.estimate * seconds, live.estimate) < 0.2
    # No growth that chance would not explain: is that because there is none, or too little data?
    wide = (growth.high * seconds > 0.5 * np.maximum(live.estimate, 1.0)) & (samples < 20)
    visible = (growth.low > 0) & (survivors >= 2) & rises
    # What is compiled in bursts looks like a straight line now and then, whatever is asked of its births.
    beyond_code = ~unasked | (live.estimate >= _COMPILED)
    short = (seconds < SHORTEST) | ~((history.first < a) & (a < b) & (b < end))
    leaks = grows & enough & rises & keeps & ~slows & beyond_code & (goes_on > _LIKELY) & (sure > _SURE)
    leaks &= ~fills & ~evicts & ~seen.batches
    survives = kept.leaks & (sure > _SURE)
    waits = seen.batches & (growth.low > 0) & rises
    # The first that holds.
    tests: tuple[tuple[Reason, Bools], ...] = (
        (Reason.NOTHING_LIVE, live.estimate == 0),
        (Reason.SHORT, short),
        (Reason.LEAKS, leaks & ~seen.uncollected),
        (Reason.UNCOLLECTED, leaks),
        (Reason.SURVIVES, survives),
        (Reason.COLLECTED, kept.few & ~(waits & seen.overdue)),
        (Reason.SOME_SURVIVES, kept.some | (kept.leaks & ~survives)),
        (Reason.WAITS, waits),
        (Reason.CAME_EARLY, early & (~grows | slows | little)),
        (Reason.JVM_SLOWS, grows & by_jvm & slows & starts),
        (Reason.EVICTS, visible & evicts),
        (Reason.SLOWS, visible & slows),
        (Reason.OLDEST_FREED, visible & ~keeps),
        (Reason.FEW_OLD, visible & ~enough),
        (Reason.OLD_DIE, visible & dies),
        (Reason.FILLS, visible & fills),
        (Reason.MAY_END, visible & grows & ((goes_on <= _LIKELY) | (sure <= _SURE))),
        (Reason.JVM_KEEPS_LITTLE, visible & grows & ~beyond_code),
        (Reason.HARDLY_OF_LATE, visible),
        (Reason.NOTHING_FREED, doubtful & ~early),
        (Reason.FEW_SAMPLES, wide & ~early & (allocated.estimate < 4 * live.estimate)),
    )
    reason = np.select([holds for _, holds in tests], [name for name, _ in tests], Reason.STEADY)

    # What has grown for as long as there is the process, and no longer, may be about to be full.
    most_sure = np.clip(1 - _FILLING / max(age, _FILLING), _LIKELY, 0.99)
    # Nor is it known of what grows in a straight line how far its bound is.
    cache = 1 - _CACHE_DOUBT * np.minimum(1.0, _CACHE_SECONDS / np.maximum(seconds, 1e-9))
    most_sure = np.minimum.reduce((np.full(len(seconds), most_sure), cache, seen.most_sure))
    of_kept = np.isin(reason, (Reason.SURVIVES, Reason.SOME_SURVIVES))
    growth, grown = (kept.growth.where(of_kept, value) for value in (growth, grown))
    goes_on = np.where(reason == Reason.SURVIVES, kept.goes_on, goes_on)
    # A few samples do not exclude a rate that falls mildly.
    falls = np.minimum(evidence.fades(history, history.first, end), evidence.fades(history, a, end))
    steady = np.where(layered | of_kept, 1.0, _LEAKS_TO_CACHES / (_LEAKS_TO_CACHES + falls))
    confidence = np.select(
        [
            reason == Reason.NOTHING_LIVE,
            np.isin(reason, (Reason.LEAKS, Reason.SURVIVES)),
            (reason == Reason.JVM_SLOWS) | ((reason == Reason.CAME_EARLY) & grows),
            np.isin(reason, (Reason.CAME_EARLY, Reason.STEADY)),
            reason == Reason.COLLECTED,
            np.isin(reason, (Reason.SHORT, Reason.FEW_SAMPLES)),
        ],
        [
            np.minimum(1 - _share(live.high, allocated.estimate), 0.99),
            np.minimum.reduce((sure, goes_on, steady, 1 - 1 / (survivors + 2), most_sure)),
            0.8 * sure,
            flat,
            # Of n blocks that met a collection hardly any stayed: Laplace's rule of succession.
            np.minimum(1 - 1 / (history.sampled(0, end) + 2), 0.95),
            0.0,
        ],
        0.9 * sure,
    )
    return Judgements(
        reason=reason,
        seen=reason,
        confidence=confidence,
        growth=zeros(len(reason)).where(reason == Reason.NOTHING_LIVE, growth),
        grown=zeros(len(reason)).where(reason == Reason.NOTHING_LIVE, grown),
        grows=grows,
        old=old,
        seconds=seconds,
        first_third=history.seconds(history.first, a),
        last_fifth=history.seconds(late, end),
        early_share=early_share,
        survivors=survivors,
        samples=samples,
        passed=history.survivors(0, seen.passed),
        bound=live.estimate * evidence.ends_at(history, history.first),
        may_fill=(reason == Reason.LEAKS) & (most_sure >= cache),
    )


def _fills(history: Histories, a: Boundaries, age: float) -> Bools:
    """Whether births fall, mildly but surely.

    Of a process that started up meanwhile in the last two thirds, too: a leak after a start-up falls before.
    """
    fades = evidence.fades(history, history.first, history.end)
    late = evidence.fades(history, a, history.end)
    fills: Bools = fades > _FADES
    if age - history.times[-1] < _STARTED:
        fills &= late > _FADES_LATE
    return fills | (np.minimum(fades, late) > _LEAKS_TO_CACHES)


def _begins_to_free(history: Histories, b: Boundaries) -> Bools:
    """Whether it freed nothing in its first two thirds, and frees what is old since: a cache that is full."""
    if history.live is None:
        return np.zeros(len(b), np.bool_)
    born, freed = history.born_sampled(history.first, b), history.freed_samples(b)
    before = born - history.sampled(history.first, b) - freed
    begins: Bools = (
        (freed >= _FEWEST_SURVIVORS)
        & (freed >= _EVICTED * history.born_sampled(b, history.end))
        & (before <= _NONE_YET * born)
    )
    return begins


def _growth(history: Histories, a: Boundaries) -> Estimates:
    """Bytes per second over the last two thirds, with its 95 % interval."""
    if history.live is None:
        until = history.at(0.8)
        return _rate(
            history, history.survivors(a, until), a, np.minimum(np.maximum(until, a + 1), history.end)
        )
    return _rate(history, history.net(a), a, history.end)


def _grown(history: Histories, growth: Estimates, a: Boundaries) -> Estimates:
    """What live bytes were seen to grow by: growth, without the chance of births where nothing was freed."""
    if history.live is None:
        return growth
    nothing_freed = history.freed_since(a).estimate == 0
    return _seen(history, history.net(a), a, history.end).where(nothing_freed, growth)


def _seen(history: Histories, amount: Estimates, start: Boundaries, end: Boundaries | int) -> Estimates:
    """A rate of blocks that stay, as sampled: one block more or less is chance, where time is cut."""
    seconds = np.maximum(history.seconds(start, end), 1e-9)
    edge = history.mean_size(start, end) / seconds
    return amount.over(seconds).within(edge, edge)


def _rate(history: Histories, amount: Estimates, start: Boundaries, end: Boundaries | int) -> Estimates:
    seconds = np.maximum(history.seconds(start, end), 1e-9)
    rate = amount.over(seconds)
    error, steps = history.scatter(start, end)
    scatter = error * _student(steps)
    if history.live is not None:
        # A site that freed nothing grows by its births alone: what they vary by is known, and needs
        # neither many snapshots nor Student's wide margin for few.
        nothing_freed = history.freed_since(start).estimate == 0
        scatter = np.where(nothing_freed, _births_error(history, rate, start, end), scatter)
    return rate.within(scatter, scatter)


def _in_use(history: Histories, allocated: Estimates) -> Boundaries:
    """The boundary from which on blocks may be merely in use: the youngest fifth, or less if lives are short.

    What is live over what is allocated in a second is the mean lifetime (Little's law); twenty are enough.
    """
    assert history.live is not None
    part = history.live.mean(axis=1) / np.maximum(allocated.estimate, 1.0)  # of the site's time
    return history.at(np.clip(1 - 20 * part, 0.8, 0.94))


def _layer(
    history: Histories, a: Boundaries, b: Boundaries, late: Boundaries
) -> tuple[Estimates, tuple[Floats, Floats, Floats], Bools]:
    """The rate at which survivors were born until `late`, each third's, and whether all ages have it."""
    one, two, three = (
        history.survivors(start, end).estimate / np.maximum(history.seconds(start, end), 1e-9)
        for start, end in ((history.first, a), (a, b), (b, late))
    )
    layer = history.survivors(a, late).over(np.maximum(history.seconds(a, late), 1e-9))
    # Of a few samples, unlike by the normal limits of `_births_error`, some are sure.
    count = np.maximum(history.sampled(a, late) / history.dispersion(a, late), 1.0)
    low, high = poisson_limits(count)
    each = layer.estimate / count
    layer = layer.within(each * (count - low), each * (high - count))
    ordered = (history.first < a) & (a < b) & (b < late)
    populated = (one > 0) & (two > 0) & (three > 0)
    return layer, (one, two, three), ordered & (layer.low > 0) & populated


def _births_error(history: Histories, rate: Estimates, start: Boundaries, end: Boundaries | int) -> Floats:
    """Half a 95 % interval of a rate of survivors, by how many there are and how unevenly they came."""
    samples = history.sampled(start, end) / history.dispersion(start, end)
    error: Floats = 1.96 * np.abs(rate.estimate) / np.sqrt(np.maximum(samples, 1))
    return error


def _thirds(history: Histories, a: Boundaries, b: Boundaries) -> tuple[Estimates, Estimates, Estimates]:
    """Bytes per second that each third left: net growth with snapshots, survivors without."""

    def rate(amount: Estimates, start: Boundaries, stop: Boundaries | int) -> Estimates:
        # Births come by chance too: n of them vary by sqrt(n) even where every block is recorded.
        chance = 1.96 * np.abs(amount.estimate) / np.sqrt(np.maximum(history.sampled(start, stop), 1))
        return amount.within(chance, chance).over(np.maximum(history.seconds(start, stop), 1e-9))

    first = rate(history.survivors(history.first, a), history.first, a)
    if history.live is None:
        late = np.minimum(np.maximum(history.at(0.8), b + 1), history.end)
        return first, rate(history.survivors(a, b), a, b), rate(history.survivors(b, late), b, late)
    net = history.net(a)
    middle = history.live_at(b) - history.live_at(a)
    # What freed in both halves is in both: half of the variance each, nearly.
    below, above = (net.estimate - net.low) * math.sqrt(0.5), (net.high - net.estimate) * math.sqrt(0.5)
    return (
        first,
        rate(Estimates(middle, middle - below, middle + above), a, b),
        rate(history.net(b), b, history.end),
    )


def _populated(history: Histories, start: Boundaries, end: Boundaries) -> Floats:
    """The share of eras that left survivors, of those that were expected to with the samples there are."""
    samples = history.sampled(start, end)
    # n samples thrown at random fill an era that has the share q of the time with 1 - (1 - q)^n.
    share = np.diff(history.exposure) * history.eras(start, end) / history.exposed(start, end)[:, None]
    expected = (1 - (1 - np.minimum(share, 1.0)) ** samples[:, None]).sum(axis=1)
    known = (end > start) & (samples > 0)
    return np.where(known, history.filled(start, end) / np.where(known, expected, 1.0), 0.0)


def _fades(before: Estimates, after: Estimates, share: float) -> Bools:
    """Whether `after` is below `share` of `before`, beyond chance (one-sided 95 %)."""
    gap = share * before.estimate - after.estimate
    error = np.hypot(share * (before.estimate - before.low), after.high - after.estimate) / 1.96
    fades: Bools = (gap > 1.64 * error) & (gap > 0)
    return fades


def _few_from_the_start(history: Histories, a: Boundaries, b: Boundaries) -> Bools:
    """Whether few survivors of the first third mean few births: as large a share of them as later stayed."""
    early, middle = history.sampled(history.first, a), history.sampled(a, b)
    born_early, born_middle = history.born_sampled(history.first, a), history.born_sampled(a, b)
    alike = early * born_middle >= 0.5 * middle * born_early
    few: Bools = alike & (early >= history.freed_samples(a))
    return few


def _crowded(early: Floats, samples: Floats, third: Floats, deviations: Floats) -> Bools:
    """Whether the first third, a share of the time, has more samples than chance puts there, by so many
    standard deviations."""
    chance = np.sqrt(samples * third * (1 - third))
    crowded: Bools = (samples >= 4) & (early - samples * third > deviations * chance)
    return crowded


def _ratio(before: Floats, after: Floats) -> Floats:
    return np.where(before > 0, after / before, np.inf)


def _student(steps: NDArray[np.int64]) -> Floats:
    quantiles: Floats = _T[np.clip(steps - 1, 0, len(_T) - 1)]
    return quantiles


def _normal(estimate: Floats, low: Floats) -> Floats:
    """Probability that the quantity is above zero, from its estimate and lower 95 % limit."""
    error = (estimate - low) / 1.96
    known = error > 0
    deviations = np.where(known, estimate / np.where(known, error, 1.0), 0.0) / math.sqrt(2)
    # numpy has no error function.
    below = 0.5 * (1 + np.array([math.erf(value) for value in deviations.tolist()]))
    return np.where(known, below, np.where(estimate > 0, 1.0, 0.5))


def _flat(growth: Estimates, live: Estimates, seconds: Floats) -> Floats:
    """How sure it is that growth stays under a fifth of what is live, over the site's own time."""
    limit = 0.2 * live.estimate / np.maximum(seconds, 1e-9)
    return np.minimum(_normal(limit - growth.estimate, limit - growth.high), 0.99)


def _share(part: Floats, whole: Floats) -> Floats:
    return np.where(whole > 0, np.clip(part / np.where(whole > 0, whole, 1.0), 0.0, 1.0), 0.0)
