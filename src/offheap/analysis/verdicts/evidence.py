"""The probability that a site goes on growing, from the births and deaths of its sampled blocks.

Three questions; the answer to the first two is the share of "yes" in the likelihood:

even   Do surviving blocks come at one rate, or ever more slowly?  n births at relative times u in a
       window have, at one rate, the likelihood 1; at a rate that falls as e^(-cu), with mean time m,

           (c / (1 - e^-c))^n  e^(-c n m)

       The alternative is the mean over c of 1.5, 3 and 6: a start-up, a warm-up or a cache that fills.
       One rate has twice the prior, because these sites have passed simpler tests of slowing down.  The
       prior is lower, by (age / 30 s)^3, in a process's first half minute, when nearly all memory grows,
       but not for long (docs/evaluation.md counts the false alarms that this avoids).  It is higher after
       the first minute, by the root of age / 60 s, since ever fewer caches are still filling.  An unknown
       age, as of most imported recordings, is past the first half minute and earns no such bonus.
       HotSpot's own threads allocate in bursts, for minutes, because they compile methods that become
       hot: for them the half minute is ten minutes, and a rising rate is an alternative as well, the same
       three with c below zero.  Rising rates are also alternatives without snapshots: then only births of
       live blocks are known, and blocks that all die in time look like births at a rising rate.
stays  Do old blocks stay, or do all blocks die in time?  k of the n blocks born in each third of the site's
       time are alive; for the first third it is also known how many, u, were in use at its end and were
       freed later.  A leak has one share of survivors in the first two thirds and a larger share in the
       last, and frees blocks young.  The alternatives: exponential lifetimes with a mean of up to twice
       the site's time, and shares (and rates) of survivors that fall from the middle to the first third
       by any law.  Each free parameter costs a model half the logarithm of n (Schwarz's criterion).

fades  How many times likelier is a rate that falls to less than half, e^(-0.75 u), than one rate?  The
       question is separate from `even`, whose alternatives fall more steeply: a cache that fills at
       random keys misses ever less, over minutes.  A few samples do not show this, hundreds do.

All questions count samples, so time is `Histories.exposure`: the sampling interval may change.

Load comes in waves: births that scatter more than by chance count as fewer (`Histories.dispersion`).

Many sites are judged at once, and some grow by chance: `adjusted` corrects the probabilities for that.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.statistics.estimates import Floats
from offheap.analysis.verdicts.site_history import Boundaries, Histories

_YOUTH, _COMPILING, _GROWN = 30.0, 600.0, 60.0  # seconds of a process's life
# Prior odds of one rate for sites that pass the other rules.  In youth they fall with this power of the age,
# because nearly all memory of a young process grows (docs/verdicts.md has the false alarms without it).
_ONE_RATE, _YOUTH_POWER = 2, 3
_CHANGES = np.array((1.5, 3.0, 6.0, -1.5, -3.0, -6.0))  # of the rate: it falls, or rises
_MILD = 0.75  # of the rate: it falls to 47 %; half of the least of _CHANGES, yet many samples show it
# Exponents of falls in the time that is judged, for a table: from a rate that falls by 5 % to one that is
# over early; the steps of 6 % are finer than what samples tell.
_FALLS = np.geomspace(0.05, 12.0, 100)
_LONGEST = 2.0  # mean lifetime over the site's own time: a longer one cannot be told from staying
_HAZARDS = np.geomspace(1 / (3 * _LONGEST), 60.0, 40)  # of a third of the site's time


def even(
    history: Histories,
    start: Boundaries,
    end: Boundaries | int,
    on_jvm_threads: NDArray[np.bool_],
    *,
    age: float,
) -> Floats:
    """Probability that survivors keep coming at one rate, by site, in a process that is `age` seconds old.

    on_jvm_threads: the sites of HotSpot's own threads; age: infinite where it is unknown.
    """
    likelihoods = _changing(history, start, end, _CHANGES)
    falling = likelihoods[:, _CHANGES > 0].mean(axis=1)
    likelihood = np.where(on_jvm_threads | (history.live is None), likelihoods.mean(axis=1), falling)
    youth = np.where(on_jvm_threads, _COMPILING, _YOUTH)
    grown = math.sqrt(max(1.0, age / _GROWN)) if math.isfinite(age) else 1.0
    prior = _ONE_RATE * np.minimum(1.0, age / youth) ** _YOUTH_POWER * grown
    probability: Floats = prior / (prior + likelihood)
    return probability


def fades(history: Histories, start: Boundaries, end: Boundaries | int) -> Floats:
    """By site, how many times likelier a mild fall of the survivors' rate is than a constant rate."""
    likelihood: Floats = _changing(history, start, end, np.array((_MILD,)))[:, 0]
    return likelihood


def rises(history: Histories, start: Boundaries, end: Boundaries | int) -> Floats:
    """By site, the probability that survivors come ever faster, as where all blocks die in time.

    Ever more of them in a second, and ever more of those born: of a load that rises or falls, a leak keeps
    one share.  Needs snapshots.
    """
    if history.births is None:
        raise ValueError("without snapshots it is not known how many blocks were born")
    likelihood = np.minimum(
        *(
            _changing(replace(history, exposure=clock), start, end, _CHANGES[_CHANGES < 0]).mean(axis=1)
            for clock in (history.exposure, history.births + 1e-9 * history.exposure)
        )
    )
    probability: Floats = likelihood / (_ONE_RATE + likelihood)
    return probability


def ends_at(history: Histories, start: Boundaries) -> Floats:
    """Live memory at the end of births over live memory now, if their rate goes on falling as since `start`.

    Infinite if the rate does not fall.
    """
    means = 1 / _FALLS - 1 / np.expm1(_FALLS)  # of birth times, from 1/2 down
    change = np.interp(-_mean_birth(history, start, history.end)[0], -means, _FALLS, left=0.0)
    slowing = change > 0
    return np.where(slowing, 1 / -np.expm1(-np.where(slowing, change, 1.0)), np.inf)


def _mean_birth(history: Histories, start: Boundaries, end: Boundaries | int) -> tuple[Floats, Floats]:
    """Mean relative time (0 to 1) of survivors' births between two boundaries, and the number sampled."""
    counts = np.diff(history.samples) * history.eras(start, end)
    count = counts.sum(axis=1)
    clock = history.exposure
    middles = (clock[:, 1:] + clock[:, :-1]) / 2 - clock[np.arange(len(clock)), start][:, None]
    mean = (counts * middles).sum(axis=1) / np.maximum(count, 1) / history.exposed(start, end)
    return mean, count


def _changing(history: Histories, start: Boundaries, end: Boundaries | int, changes: Floats) -> Floats:
    """Likelihoods of rates that change as e^(-cu), a row per site, a column per c; one rate has 1."""
    mean, count = _mean_birth(history, start, end)
    worth = (count / history.dispersion(start, end))[:, None]
    uneven = worth * (np.log(changes / -np.expm1(-changes)) - changes * mean[:, None])
    likelihoods: Floats = np.exp(np.minimum(uneven, 700))
    return likelihoods


def stays(history: Histories, a: Boundaries, b: Boundaries) -> Floats:
    """Probability that old blocks stay, by site; `a`, `b` cut its time into thirds.  Needs snapshots."""
    if history.births is None:
        raise ValueError("without snapshots it is not known how many blocks were born")
    cuts = (history.first, a, b, np.full(len(a), history.end))
    thirds = list(pairwise(cuts))
    alive = np.array([history.sampled(start, end) for start, end in thirds])
    born = np.maximum([history.born_sampled(start, end) for start, end in thirds], alive)
    # Blocks that are born together are also freed together.
    worth = 1 / history.dispersion(history.first, b)
    old_alive, old_born = alive[:2].sum(axis=0), born[:2].sum(axis=0)
    youngest = _likelihood(alive[2], born[2], _part(alive[2], born[2]))
    # Blocks that were alive at the end of the first third and are freed now.
    gone = born[0] - alive[0]
    used = np.minimum(history.freed_samples(a), gone)
    leak = _likelihood(old_alive, old_born, _part(old_alive, old_born)) + youngest
    left = _likelihood(used, gone, _part(used, gone))

    third = (history.seconds(history.first, history.end) / 3)[:, None]
    steps = (
        (alive[0] + used, born[0], _survival(history, history.first, a, a)),
        (alive[0], alive[0] + used, np.exp(-_HAZARDS * history.seconds(a, history.end)[:, None] / third)),
        (alive[1], born[1], _survival(history, a, b, history.end)),
        (alive[2], born[2], _survival(history, b, history.end, history.end)),
    )
    dying = np.zeros((len(a), len(_HAZARDS)))
    for stay, of, share in steps:
        dying += _likelihood(stay[:, None], of[:, None], share)

    separate = sum(_likelihood(alive[i], born[i], _part(alive[i], born[i])) for i in range(2)) + youngest
    falls = _part(alive[0], born[0]) < _part(alive[1], born[1])
    seconds = [history.exposed(start, end) for start, end in thirds[:2]]
    # The share also falls if churn was higher at first, but then the rate of survivors does not fall.
    rate = alive[:2].sum(axis=0) / (seconds[0] + seconds[1])
    rates = sum(
        alive[i] * np.log(np.maximum(alive[i], 1e-9) / np.maximum(seconds[i] * rate, 1e-9)) for i in range(2)
    )
    gain = np.where(falls & (alive[0] / seconds[0] < alive[1] / seconds[1]), separate - leak, -np.inf)
    gain = np.minimum(gain, rates)

    cost, extra = (0.5 * np.log(np.maximum(worth * number, 1.0)) for number in (old_born, gone))
    against = np.logaddexp(worth * (dying.max(axis=1) - leak - left) + cost + extra, worth * gain - cost)
    odds: Floats = np.exp(np.clip(against, -700, 700))
    return 1 / (1 + odds)


def adjusted(sure: Floats, tested: NDArray[np.bool_]) -> Floats:
    """Probabilities (of growth) after Benjamini and Hochberg's control over all tested sites.

    1 - q, with q the least share of false positives among all sites at least as sure; unchanged elsewhere.
    """
    numbers = np.flatnonzero(tested)
    order = numbers[np.argsort(-sure[numbers], kind="stable")]
    q = (1 - sure[order]) * len(order) / np.arange(1, len(order) + 1)
    result: Floats = sure.copy()
    result[order] = 1 - np.minimum(np.minimum.accumulate(q[::-1])[::-1], 1.0)
    return result


def _survival(
    history: Histories, start: Boundaries, end: Boundaries | int, until: Boundaries | int
) -> Floats:
    """The share of sampled blocks born between two boundaries that live at a third one.

    A row per site, a column per hazard: e^(-hazard age), its mean over each era, weighted by exposure.
    """
    weight = np.diff(history.exposure) * history.eras(start, end) / history.exposed(start, end)[:, None]
    lasts = np.broadcast_to(until, len(weight))
    share = np.empty((len(weight), len(_HAZARDS)))
    # Thousands of sites share a few ages: this computes each exponential once.
    ages, of_site = np.unique(history.first * len(history.times) + lasts, return_inverse=True)
    for number, age in enumerate(ages.tolist()):
        first, last = divmod(age, len(history.times))
        third = (history.times[history.end] - history.times[first]) / 3
        left = np.maximum(history.times[last] - history.times, 0.0) / third
        alive = np.exp(-_HAZARDS * left[:, None])
        mean = np.diff(alive, axis=0) / (_HAZARDS * (np.diff(history.times) / third)[:, None])
        sites = of_site == number
        # Not @: BLAS wakes one thread per processor, and each spins for longer than this sum takes.
        share[sites] = np.einsum("se,eh->sh", weight[sites], mean)
    return share


def _part(alive: Floats, born: Floats) -> Floats:
    part: Floats = alive / np.maximum(born, 1.0)
    return part


def _likelihood(alive: Floats, born: Floats, share: Floats) -> Floats:
    """Logarithm of the binomial likelihood without its constant."""
    likely = np.clip(share, 1e-12, 1 - 1e-12)
    result: Floats = alive * np.log(likely) + (born - alive) * np.log1p(-likely)
    return result
