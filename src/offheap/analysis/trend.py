"""How fast a series grows, with an interval that noise, outliers and its own memory cannot fool.

The slope is Theil's and Sen's: the median of the slopes between all pairs of points, which a quarter of
outliers does not move (Sen 1968).  Its standard error is that of a line's slope, from what the line
leaves; n values that follow each other with the correlation r count as n (1-r)/(1+r) (Bartlett 1935),
r being what neighbours show, plus (1+4r)/n, by which so few of them show too little (Kendall 1954).
The 95 % interval takes Student's t with that many values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.results import Estimate

Floats = NDArray[np.float64]

_DEVIATIONS = 1.96
_MOST_POINTS = 600  # of n points there are n^2 / 2 pairs
_MOST_CORRELATION = 0.9
# 97.5 % quantiles of Student's t by degrees of freedom.
_T = (math.inf, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)


@dataclass(frozen=True, slots=True)
class Trend:
    """All rates are per second.

    rate    over the last two thirds of the time: the first holds the start-up
    middle  over the middle third
    last    over the last third
    level   the median of the last third's values
    """

    rate: Estimate
    middle: float
    last: float
    level: float
    seconds: float  # that `rate` is taken over
    points: int

    @property
    def gained(self) -> Estimate:
        """What the rate amounts to over its seconds."""
        one = self.rate
        return Estimate(one.estimate * self.seconds, one.low * self.seconds, one.high * self.seconds)

    @property
    def grows(self) -> bool:
        """Above zero with the whole interval, and in both of its thirds."""
        return self.rate.low > 0 and self.middle > 0 and self.last > 0

    def slows(self, share: float) -> bool:
        """Whether the last third grew less than `share` of what the middle third grew."""
        return self.last < share * self.middle


def trend(times: Floats, values: Floats, fewest: int = 6) -> Trend | None:
    """None with fewer than `fewest` points in the last two thirds.  NaN in `values` is no point."""
    known = np.isfinite(values)
    if not known.any():
        return None
    begin, end = float(times[0]), float(times[-1])
    times, values = _thinned(times[known], values[known])
    a, b = begin + (end - begin) / 3, begin + (end - begin) * 2 / 3
    judged = times >= a
    if np.count_nonzero(judged) < max(fewest, 2):
        return None
    # Rare points: the last two may lie on both sides of the border.
    between, late = judged & (times <= b), times >= min(b, float(times[-2]))
    return Trend(
        rate=slope(times[judged], values[judged]),
        middle=_middle_slope(times[between], values[between]),
        last=_middle_slope(times[late], values[late]),
        level=float(np.median(values[late])),
        seconds=end - a,
        points=int(np.count_nonzero(judged)),
    )


def slope(times: Floats, values: Floats) -> Estimate:
    """The rate of growth with its 95 % interval; without bounds where there are too few points."""
    slopes = _slopes(times, values)
    count = len(times)
    if count < 3 or not len(slopes):
        estimate = float(np.median(slopes)) if len(slopes) else 0.0
        return Estimate(estimate, -math.inf, math.inf)
    estimate = float(np.median(slopes))
    rests = values - estimate * times
    rests = rests - rests.mean()
    memory = _memory(rests)
    spread = float(((times - times.mean()) ** 2).sum())
    error = math.sqrt(float((rests**2).sum()) / (count - 2) * memory / spread)
    freedom = int(max(count / memory - 2, 1))
    reach = error * (_T[freedom] if freedom < len(_T) else _DEVIATIONS)
    return Estimate(estimate, estimate - reach, estimate + reach)


def seconds_needed(one: Trend) -> float:
    """How long a look would have to go on until the interval no longer holds zero, if it goes on like this.

    The error of a slope falls with the time to the power of 3/2.  Between once and ten times as long again.
    """
    error = (one.rate.high - one.rate.low) / 2
    ratio = error / abs(one.rate.estimate) if one.rate.estimate and math.isfinite(error) else math.inf
    return one.seconds * 1.5 * min(max(math.pow(ratio, 2 / 3), 2.0), 10.0)


def _middle_slope(times: Floats, values: Floats) -> float:
    slopes = _slopes(times, values)
    return float(np.median(slopes)) if len(slopes) else 0.0


def _slopes(times: Floats, values: Floats) -> Floats:
    """Between all pairs, ascending."""
    first, second = np.triu_indices(len(times), 1)
    apart = times[second] - times[first]
    later = apart > 0
    slopes: Floats = np.sort((values[second] - values[first])[later] / apart[later])
    return slopes


def _memory(rests: Floats) -> float:
    """How many of these values tell as much as one that does not follow the one before."""
    count, power = len(rests), float((rests**2).sum())
    if not power:
        return 1.0
    found = float((rests[1:] * rests[:-1]).sum()) / power
    correlation = min(max(found + (1 + 4 * found) / count, 0.0), _MOST_CORRELATION)
    return (1 + correlation) / (1 - correlation)


def _thinned(times: Floats, values: Floats) -> tuple[Floats, Floats]:
    if len(times) <= _MOST_POINTS:
        return times, values
    chosen = np.linspace(0, len(times) - 1, _MOST_POINTS).astype(np.int64)
    return times[chosen], values[chosen]
