"""How fast a series grows, with an interval that noise, outliers and its own memory cannot fool.

The slope is Theil's and Sen's: the median of the slopes between all pairs of points, which a quarter of
outliers does not move (Sen 1968).  Its standard error is that of a line's slope, from what the line
leaves; n values that follow each other with the correlation r count as n (1-r)/(1+r) (Bartlett 1935),
r being what neighbours show, plus (1+4r)/n, by which so few of them show too little (Kendall 1954).
The 95 % interval takes Student's t with that many values.

Where r is above 0.6 that fails both ways.  Growth in steps, or along a curve, leaves rests that follow each
other for long, and the interval becomes wide although nothing ever falls; and noise that remembers more than
half of the time is taken for growth.  There the levels of eight parts of the time (medians) are taken for a
random walk with a drift, the worst that noise with a memory can be: the mean of its seven steps, with
Student's t.  Simulated, with 40 looks: the interval holds zero in 91 to 96 % of series without growth,
whatever r is, 0.98 and a random walk included; of leaks in 20 steps at random times 94 % are seen, where
the line sees 39 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.statistics import student
from offheap.analysis.statistics.estimate import Estimate

Floats = NDArray[np.float64]

_DEVIATIONS = 1.96
_MOST_POINTS = 600  # n points make n^2 / 2 pairs
_MOST_CORRELATION = 0.9
_SLOW = 0.5  # share of the middle third's rate: slower than that is no noise
_SHORTEST = 1e-9  # seconds: looks that are taken at one time have no rate
_WALKS = 0.6  # correlation of neighbours from which on the levels of parts of the time tell more than a line
_PARTS, _FEWEST_PARTS = 8, 5  # of the time, of which the levels are compared; each has two looks


@dataclass(frozen=True, slots=True)
class Trend:
    """All rates are per second.

    rate    over the last two thirds of the time: the first holds the start-up
    middle  over the middle third
    last    over the last third
    levels  medians of the three thirds of what `rate` is taken over
    """

    rate: Estimate
    middle: float
    last: float
    levels: tuple[float, float, float]
    seconds: float  # that `rate` is taken over
    points: int

    @property
    def gained(self) -> Estimate:
        """What the rate amounts to over its seconds."""
        one = self.rate
        return Estimate(one.estimate * self.seconds, one.low * self.seconds, one.high * self.seconds)

    @property
    def level(self) -> float:
        """At the end."""
        return self.levels[-1]

    @property
    def grows(self) -> bool:
        """Above zero with the whole interval, and from level to level: a single step is no growth."""
        first, second, third = self.levels
        return self.rate.low > 0 and first < second < third

    def slows(self, share: float) -> bool:
        """Whether the last third grew less than half of what the middle third grew, or less than `share`, of
        at least a half, and the rates differ by more than the error of the whole."""
        apart = self.middle - self.last > self.rate.high - self.rate.estimate
        apart = apart and self.points >= 2 * _FEWEST_PARTS  # fewer tell no more than the half
        return self.last < (share if apart else _SLOW) * self.middle


def trend(times: Floats, values: Floats, fewest: int = 5) -> Trend | None:
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
    rare = np.count_nonzero(judged) < 2 * _FEWEST_PARTS
    # Rare points: the last two may lie on both sides of the border.
    between, late = judged & (times <= b), times >= min(b, float(times[-2]))
    middle, last = (
        (_middle_slope(times[part], values[part]) for part in (between, late))
        if rare
        else _halves(times[judged], values[judged])
    )
    return Trend(
        rate=slope(times[judged], values[judged]),
        middle=middle,
        last=last,
        levels=_thirds(values[judged]),
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
    correlation = _correlation(rests)
    walk = _walk(times, values) if correlation > _WALKS else None
    if walk:
        return walk
    correlation = min(max(correlation, 0.0), _MOST_CORRELATION)
    memory = (1 + correlation) / (1 - correlation)
    spread = float(((times - times.mean()) ** 2).sum())
    error = math.sqrt(float((rests**2).sum()) / (count - 2) * memory / spread)
    freedom = int(max(count / memory - 2, 1))
    reach = error * _student(freedom)
    return Estimate(estimate, estimate - reach, estimate + reach)


def _levels(times: Floats, values: Floats) -> tuple[Floats, Floats]:
    """(times, medians) of parts of the time: of as many as have two looks each, but no more than eight."""
    parts = np.array_split(np.arange(len(times)), min(_PARTS, len(times) // 2))
    return np.array([times[part].mean() for part in parts]), np.array(
        [np.median(values[part]) for part in parts]
    )


def _walk(times: Floats, values: Floats) -> Estimate | None:
    """The drift of the levels of parts of the time, taken for a random walk; None where they are too few."""
    if len(times) < 2 * _FEWEST_PARTS:
        return None
    at, levels = _levels(times, values)
    seconds = float(at[-1] - at[0])
    if seconds <= 0:
        return None
    rate = float(levels[-1] - levels[0]) / seconds
    steps = np.diff(levels) - rate * np.diff(at)
    freedom = len(levels) - 2
    error = math.sqrt(float((steps**2).sum()) / freedom * (len(levels) - 1)) / seconds
    reach = error * _student(freedom)
    return Estimate(rate, rate - reach, rate + reach)


def _halves(times: Floats, values: Floats) -> tuple[float, float]:
    """The rates over both halves, from the levels of their parts, which steps do not hide.

    The middle one of an odd number is of both: two of five alone would tell the noise between neighbours.
    """
    at, levels = _levels(times, values)
    half = (len(at) + 1) // 2
    middle, last = (
        float(levels[end] - levels[start]) / max(float(at[end] - at[start]), _SHORTEST)
        for start, end in ((0, half - 1), (-half, -1))
    )
    return middle, last


def _student(freedom: int) -> float:
    """The 97.5 % quantile; of many values that of the normal distribution, as simulated."""
    return student.quantile(freedom) if freedom < student.TABULATED else _DEVIATIONS


def seconds_needed(one: Trend) -> float:
    """How long a look would have to go on until the interval no longer holds zero, if it goes on like this.

    The error of a slope falls with the time to the power of 3/2.  Between once and ten times as long again.
    """
    error = (one.rate.high - one.rate.low) / 2
    ratio = error / abs(one.rate.estimate) if one.rate.estimate and math.isfinite(error) else math.inf
    return one.seconds * 1.5 * min(max(math.pow(ratio, 2 / 3), 2.0), 10.0)


def _thirds(values: Floats) -> tuple[float, float, float]:
    count = len(values)
    borders = (0, -(-count // 3), -(-2 * count // 3))
    ends = (borders[1], max(borders[2], borders[1] + 1), count)
    first, second, third = (
        float(np.median(values[min(start, count - 1) : max(end, 1)]))
        for start, end in zip(borders, ends, strict=True)
    )
    return first, second, third


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


def _correlation(rests: Floats) -> float:
    """The correlation of neighbours, with what so few of them show too little."""
    power = float((rests**2).sum())
    found = float((rests[1:] * rests[:-1]).sum()) / power if power else 0.0
    return found + (1 + 4 * found) / len(rests) if power else 0.0


def _thinned(times: Floats, values: Floats) -> tuple[Floats, Floats]:
    if len(times) <= _MOST_POINTS:
        return times, values
    chosen = np.linspace(0, len(times) - 1, _MOST_POINTS).astype(np.int64)
    return times[chosen], values[chosen]
