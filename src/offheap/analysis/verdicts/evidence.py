"""How likely it is that a site goes on growing, from when its sampled blocks were born and which still live.

Three questions; the first two are answered by the share of the likelihood that the answer "yes" has:

even   Do blocks that stay keep coming at one rate, or ever more slowly?  n births at relative times u in a
       window have, at one rate, the likelihood 1; at a rate that falls as e^(-cu), with mean time m,

           (c / (1 - e^-c))^n  e^(-c n m)

       The alternative is the mean over c of 1.5, 3 and 6: what starts up, warms up or fills a cache.
       One rate has twice the prior: it is asked of sites that have passed plainer tests of slowing down.
       Less, by (age / 30 s)^3, in a process's first half minute, when nearly everything grows and will not
       for long (docs/evaluation.md counts whom that spares); more after the first minute, by the root of
       age / 60 s, since ever less of what fills is still filling.
       What HotSpot's own threads want it wants in bursts, for minutes, since it compiles what has become hot:
       there the half minute is ten minutes, and a rising rate is an alternative as well, the same three with
       c below zero.  They are so, too, where there are no snapshots: births are then known of what is alive
       only, and blocks that all die in time look like births at a rising rate.
stays  Do old blocks stay, or does all of it die in time?  k of the n blocks born in each third of the site's
       time are alive; of those of the first third it is known, too, how many u were in use when it ended and
       freed later.  A leak: one share of the first two thirds', a larger of the last, and what it frees it
       frees young.  The alternatives: lifetimes that are exponential with a mean of up to twice the site's
       time, and shares (and rates) of survivors that fall from the middle to the first third, whatever the
       law.  Parameters that a model may choose cost it half the logarithm of n each (Schwarz's criterion).

fades  How many times likelier is a rate that falls to less than half, e^(-0.75 u), than one rate?  It is
       asked apart from `even`, whose alternatives fall more steeply: a cache that fills at random keys
       misses ever less, over minutes.  A few samples do not tell, hundreds do.

All count samples, so time is `Histories.exposure`: the interval of sampling may have moved.

Load comes in waves: births that scatter more than by chance count for fewer (`Histories.dispersion`).

Many sites are judged at once, and some grow by chance: `adjusted` has what is left of a probability then.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.statistics.estimates import Floats
from offheap.analysis.verdicts.site_history import Boundaries, Histories

_YOUTH, _COMPILING, _GROWN = 30.0, 600.0, 60.0  # seconds of a process's life
_CHANGES = np.array((1.5, 3.0, 6.0, -1.5, -3.0, -6.0))  # of the rate: it falls, or rises
_MILD = (
    0.75  # of the rate: it falls to 47 %; half of the least of _CHANGES, which many samples tell from none
)
_LONGEST = 2.0  # mean lifetime, in times of the site's own: who lives longer stays, for all that can be seen
_HAZARDS = np.geomspace(1 / (3 * _LONGEST), 60.0, 40)  # of a third of the site's time


def even(
    history: Histories,
    start: Boundaries,
    end: Boundaries | int,
    unasked: NDArray[np.bool_],
    *,
    age: float,
) -> Floats:
    """Probability that survivors keep coming at one rate, by site, in a process that is `age` seconds old.

    unasked: the sites of HotSpot's own threads.
    """
    likelihoods = _changing(history, start, end, _CHANGES)
    falling = likelihoods[:, _CHANGES > 0].mean(axis=1)
    likelihood = np.where(unasked | (history.births is None), likelihoods.mean(axis=1), falling)
    youth = np.where(unasked, _COMPILING, _YOUTH)
    prior = 2 * np.minimum(1.0, age / youth) ** 3 * math.sqrt(max(1.0, age / _GROWN))
    probability: Floats = prior / (prior + likelihood)
    return probability


def fades(history: Histories, start: Boundaries, end: Boundaries | int) -> Floats:
    """How many times likelier it is, by site, that survivors' rate falls mildly than that it stays."""
    likelihood: Floats = _changing(history, start, end, np.array((_MILD,)))[:, 0]
    return likelihood


def ends_at(history: Histories, start: Boundaries) -> Floats:
    """What lives when births stop, by what lives now, if their rate falls on as it has since `start`.

    Infinite where it does not fall.
    """
    changes = np.geomspace(0.05, 12.0, 100)
    means = 1 / changes - 1 / np.expm1(changes)  # of birth times, from 1/2 down
    change = np.interp(-_mean_birth(history, start, history.end)[0], -means, changes, left=0.0)
    slowing = change > 0
    return np.where(slowing, 1 / -np.expm1(-np.where(slowing, change, 1.0)), np.inf)


def _mean_birth(history: Histories, start: Boundaries, end: Boundaries | int) -> tuple[Floats, Floats]:
    """Mean relative time (0 to 1) of survivors' births between two boundaries, and how many were sampled."""
    counts = np.diff(history.samples) * history.eras(start, end)
    count = counts.sum(axis=1)
    clock = history.exposure
    middles = (clock[:, 1:] + clock[:, :-1]) / 2 - clock[np.arange(len(clock)), start][:, None]
    mean = (counts * middles).sum(axis=1) / np.maximum(count, 1) / history.exposed(start, end)
    return mean, count


def _changing(history: Histories, start: Boundaries, end: Boundaries | int, changes: Floats) -> Floats:
    """Likelihoods of rates that change as e^(-cu), a row a site, a column a c; of one rate it is 1."""
    mean, count = _mean_birth(history, start, end)
    worth = (count / history.dispersion(start, end))[:, None]
    uneven = worth * (np.log(changes / -np.expm1(-changes)) - changes * mean[:, None])
    likelihoods: Floats = np.exp(np.minimum(uneven, 700))
    return likelihoods


def stays(history: Histories, a: Boundaries, b: Boundaries) -> Floats:
    """Probability that old blocks stay, by site; `a` and `b` cut its time into thirds.  Needs snapshots."""
    if history.births is None:
        raise ValueError("without snapshots it is not known how many blocks were born")
    cuts = (history.first, a, b, np.full(len(a), history.end))
    thirds = list(pairwise(cuts))
    alive = np.array([history.sampled(start, end) for start, end in thirds])
    born = np.maximum([history.born_sampled(start, end) for start, end in thirds], alive)
    # What is freed is freed in company, as it was born.
    worth = 1 / history.dispersion(history.first, b)
    old_alive, old_born = alive[:2].sum(axis=0), born[:2].sum(axis=0)
    youngest = _likelihood(alive[2], born[2], _part(alive[2], born[2]))
    # Who was alive when the first third ended, and is no more.
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
    # A share falls also where there was more churn at first: then the rate of survivors does not.
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
    """Probabilities (of growth) after Benjamini and Hochberg's control over all that are tested.

    1 - q, q the least share of false ones among all that are at least as sure; unchanged elsewhere.
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
    """The share of blocks born between two boundaries, as they were sampled, that live at a third one.

    A row a site, a column a hazard: e^(-hazard age), over each era its mean, over the eras by their exposure.
    """
    weight = np.diff(history.exposure) * history.eras(start, end) / history.exposed(start, end)[:, None]
    lasts = np.broadcast_to(until, len(weight))
    share = np.empty((len(weight), len(_HAZARDS)))
    # Thousands of sites share a few ages: each exponential is computed once.
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
    """Logarithm of the binomial likelihood, but for its constant."""
    likely = np.clip(share, 1e-12, 1 - 1e-12)
    result: Floats = alive * np.log(likely) + (born - alive) * np.log1p(-likely)
    return result
