"""Signs that growth goes on, slows down or has ended, each beyond chance: by site, from rates and counts."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.statistics.estimates import Estimates, Floats
from offheap.analysis.statistics.student import DEVIATIONS_95
from offheap.analysis.verdicts import evidence
from offheap.analysis.verdicts.site_history import Boundaries, Histories

Bools = NDArray[np.bool_]

# Prior odds for sites that pass the other rules: most caches slow down more than mildly.
LEAKS_TO_CACHES = 4.0
FEWEST_SURVIVORS = 5  # sampled, born in the first two thirds: fewer may be chance
_ONE_SIDED_95 = 1.64  # standard deviations
_STARTED = 10.0  # seconds of a process's life: most memory of the start-up is allocated by then
# Likelihood of falling births over that of constant births: "strong" in Jeffreys' scale of evidence, and
# "substantial" for the last two thirds, which have fewer samples.
_FADES, _FADES_LATE = 10.0, 3.0
# Shares of births that were freed in the first two thirds of the time, and since: evictions begin there.
_NONE_YET, _EVICTED = 0.02, 0.1
_ALIKE = 0.5  # of the share of later births that stayed: above it the early share counts as equal
_FEWEST_CROWDED = 4  # samples: with fewer no part of the time is crowded
# Share of live bytes: growth in the site's time below it changes little.  With even births from the start,
# that growth is all live bytes.
LITTLE = 0.2
# Probability: no recording shows what a program does later.
MOST_SURE = 0.99


def fades(before: Estimates, after: Estimates, share: float) -> Bools:
    """Whether `after` is below `share` of `before`, beyond chance (one-sided 95 %)."""
    gap = share * before.estimate - after.estimate
    error = np.hypot(share * (before.estimate - before.low), after.high - after.estimate) / DEVIATIONS_95
    result: Bools = (gap > _ONE_SIDED_95 * error) & (gap > 0)
    return result


def ratio(before: Floats, after: Floats) -> Floats:
    """`after` over `before`; infinite if `before` is 0."""
    return np.where(before > 0, after / np.where(before > 0, before, 1.0), np.inf)


def share(part: Floats, whole: Floats) -> Floats:
    """`part` over `whole`, from 0 to 1; 0 if `whole` is 0."""
    return np.where(whole > 0, np.clip(part / np.where(whole > 0, whole, 1.0), 0.0, 1.0), 0.0)


def above_zero(estimate: Floats, low: Floats) -> Floats:
    """The probability that a quantity is above zero, from its estimate and lower 95 % limit."""
    error = (estimate - low) / DEVIATIONS_95
    known = error > 0
    deviations = np.where(known, estimate / np.where(known, error, 1.0), 0.0) / math.sqrt(2)
    # numpy has no error function.
    below = 0.5 * (1 + np.array([math.erf(value) for value in deviations.tolist()]))
    return np.where(known, below, np.where(estimate > 0, 1.0, 0.5))


def flat(growth: Estimates, live: Estimates, seconds: Floats) -> Floats:
    """The probability that growth over the site's own time is under a fifth of its live bytes."""
    limit = LITTLE * live.estimate / np.maximum(seconds, 1e-9)
    return np.minimum(above_zero(limit - growth.estimate, limit - growth.high), MOST_SURE)


def fills(history: Histories, a: Boundaries, age: float) -> Bools:
    """Whether births fall, mildly but surely.

    If the recording includes the process's start-up, births must fall in the last two thirds as well: a leak
    after a start-up falls only before these.
    """
    whole = evidence.fades(history, history.first, history.end)
    late = evidence.fades(history, a, history.end)
    result: Bools = whole > _FADES
    if age - history.times[-1] < _STARTED:
        result &= late > _FADES_LATE
    return result | (np.minimum(whole, late) > LEAKS_TO_CACHES)


def begins_to_free(history: Histories, b: Boundaries) -> Bools:
    """Whether a site freed nothing in its first two thirds and then frees old blocks: a full cache."""
    if history.live is None:
        return np.zeros(len(b), np.bool_)
    born, freed = history.born_sampled(history.first, b), history.freed_samples(b)
    before = born - history.sampled(history.first, b) - freed
    begins: Bools = (
        (freed >= FEWEST_SURVIVORS)
        & (freed >= _EVICTED * history.born_sampled(b, history.end))
        & (before <= _NONE_YET * born)
    )
    return begins


def few_from_the_start(history: Histories, a: Boundaries, b: Boundaries) -> Bools:
    """Whether few survivors of the first third mean few births: the same share of births stayed as later."""
    early, middle = history.sampled(history.first, a), history.sampled(a, b)
    born_early, born_middle = history.born_sampled(history.first, a), history.born_sampled(a, b)
    alike = early * born_middle >= _ALIKE * middle * born_early
    few: Bools = alike & (early >= history.freed_samples(a))
    return few


def crowded(early: Floats, samples: Floats, third: Floats, deviations: Floats) -> Bools:
    """Whether the first third (`third`: its share of the time) has more samples than by chance, by so many
    standard deviations."""
    chance = np.sqrt(samples * third * (1 - third))
    result: Bools = (samples >= _FEWEST_CROWDED) & (early - samples * third > deviations * chance)
    return result


def populated(history: Histories, start: Boundaries, end: Boundaries) -> Floats:
    """Eras with survivors over the number expected for this number of samples."""
    samples = history.sampled(start, end)
    # n random samples fill an era with the share q of the time with probability 1 - (1 - q)^n.
    parts = np.diff(history.exposure) * history.eras(start, end) / history.exposed(start, end)[:, None]
    expected = (1 - (1 - np.minimum(parts, 1.0)) ** samples[:, None]).sum(axis=1)
    known = (end > start) & (samples > 0)
    return np.where(known, history.filled(start, end) / np.where(known, expected, 1.0), 0.0)
