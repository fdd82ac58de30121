"""Two more questions about a site of Java objects that looks like a leak.

For native memory the rules ask them of frees, each of which has its time.  Java objects die at collections,
many at once.

level   Do live bytes after collections rise as survivors' births say?  Garbage does not disturb their trend.
        A cache that replaces entries has a level, while its oldest entries look like a slow leak.
shares  If hardly a collection ran before the last one: did the same share of objects of every age
        survive it?  A leak beside garbage keeps one share.  A full cache, and sessions, keep fewer of the
        older objects: by one hazard, or by any law that falls with age.  Then the rate of survivors falls
        as well, unlike that of a program that makes more garbage at first.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.statistics.estimates import Floats
from offheap.analysis.statistics.trend import trend
from offheap.analysis.verdicts.signs import LEAKS_TO_CACHES
from offheap.analysis.verdicts.site_history import Histories

_PARTS = 6  # of the time: enough to show how the share of survivors depends on age
_IN_USE = 0.94  # of the time: younger objects may be merely in use (`survivor_layer`)
_HAZARDS = np.geomspace(0.1, 60.0, 60)  # deaths per object in the site's time; lower rates resemble 0
_MOST_EXPONENT = 700.0  # of e in a double


def level(history: Histories, number: int) -> Estimate | None:
    """The trend of a site's live bytes after collections, bytes a second; None where they are not known."""
    if history.live is None:
        return None
    first = int(history.first[number])
    found = trend(history.times[first:], history.live[number, first:])
    return found.rate if found else None


def one_share(history: Histories, number: int) -> float:
    """The probability that the same share of a site's objects of every age survived."""
    if history.births is None:
        return 1.0
    start = int(history.first[number])
    times = history.times[start:] - history.times[start]
    cuts = np.unique(
        [int(np.abs(times - times[-1] * _IN_USE * part / _PARTS).argmin()) for part in range(_PARTS + 1)]
    )
    alive = np.diff(history.samples[number, start:][cuts])
    born = np.maximum(np.diff(history.births[number, start:][cuts]), alive)
    exposed = np.maximum(np.diff(history.exposure[number, start:][cuts]), 1e-9)
    worth = 1 / float(history.dispersion(history.first, history.end)[number])
    one = _log(alive, born, np.full(len(alive), alive.sum() / max(born.sum(), 1.0)))
    age = (times[-1] - (times[cuts][1:] + times[cuts][:-1]) / 2) / times[-1]
    dying = max(_log(alive, born, np.exp(-hazard * age)) for hazard in _HAZARDS.tolist())
    shares, rates = _rising(alive, born), _rising(alive, exposed)
    levels = len(np.unique(shares))
    falling = -math.inf
    if levels > 1:
        rate = np.full(len(alive), alive.sum() / exposed.sum())
        gain = min(
            _log(alive, born, shares) - one,
            _rate_log(alive, exposed, rates) - _rate_log(alive, exposed, rate),
        )
        falling = worth * gain - (levels - 1) * 0.5 * math.log(max(worth * born.sum(), 1.0))
    against = LEAKS_TO_CACHES * (_exp(worth * (dying - one)) + _exp(falling))
    return 1 / (1 + against)


def _rising(counts: Floats, of: Floats) -> Floats:
    """The likeliest ratios that never fall from part to part (pool adjacent violators, Ayer et al. 1955)."""
    pools: list[tuple[float, float, int]] = []
    for count, whole in zip(counts.tolist(), of.tolist(), strict=True):
        pool = (count, max(whole, 1e-9), 1)
        while pools and pools[-1][0] / pools[-1][1] >= pool[0] / pool[1]:
            before = pools.pop()
            pool = (before[0] + pool[0], before[1] + pool[1], before[2] + pool[2])
        pools.append(pool)
    return np.array([count / whole for count, whole, parts in pools for _ in range(parts)])


def _log(alive: Floats, born: Floats, share: Floats) -> float:
    """Logarithm of the binomial likelihood without its constant."""
    likely = np.clip(share, 1e-12, 1 - 1e-12)
    return float((alive * np.log(likely) + (born - alive) * np.log1p(-likely)).sum())


def _rate_log(counts: Floats, exposed: Floats, rates: NDArray[np.float64]) -> float:
    """Logarithm of the Poisson likelihood without its constant."""
    return float((counts * np.log(np.maximum(rates, 1e-12)) - rates * exposed).sum())


def _exp(value: float) -> float:
    return math.exp(min(value, _MOST_EXPONENT))
