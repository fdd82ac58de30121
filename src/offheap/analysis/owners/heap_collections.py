"""Compares growth with the collections of the Java heap: which part may be garbage that the next one frees.

Only collections free the native memory that Java objects hold (direct buffers, mapped files, blocks with a
Cleaner or a finalizer).  So the floors of this memory count: the least value between two collections.
Without a collection growth proves nothing.
"""

from __future__ import annotations

import numpy as np

from offheap.analysis.statistics.trend import Floats, Trend, trend
from offheap.recording.model import OwnersOverTime

# Floors in the last two thirds.  Three leave one degree of freedom, where Student's t is 12.7 and hardly any
# interval excludes zero; with four it is 4.3.
FEWEST_COLLECTIONS = 4
# After few collections: if they gave back this share of the rise or more, later ones may free the rest.
_GIVEN_BACK = 0.3
# Number of readings after a collection in which Cleaners and finalizers may still work.
_CLEANING = 3


def after_collections(over: OwnersOverTime, gauge: str = "old-collections") -> tuple[Floats, Floats]:
    """(times, bytes of the Java heap) after each collection of the old generation.

    The value is the least after any collection until the next old one: G1 frees marked memory in later ones.
    `gauge`: "collections" for those of any generation.
    """
    left = over.gauges.get("heap-after-collection")
    return (np.zeros(0), np.zeros(0)) if left is None else floors(over, left, gauge)


def floors(over: OwnersOverTime, values: Floats, gauge: str = "collections") -> tuple[Floats, Floats]:
    """(times, the least of `values`) between each collection that `gauge` counts and the next."""
    counts = _counts(over, gauge)
    if counts is None:
        return np.zeros(0), np.zeros(0)
    times, least = [], []
    starts = [at for at in range(1, len(counts)) if counts[at] > counts[at - 1]]
    for start, end in zip(starts, [*starts, len(counts)][1:], strict=True):
        part = values[start:end]
        if np.isfinite(part).any():
            times.append(float(over.times[start + int(np.nanargmin(part))]))
            least.append(float(np.nanmin(part)))
    return np.array(times), np.array(least)


def trend_of_floors(over: OwnersOverTime, times: Floats, least: Floats) -> Trend | None:
    """The trend of floors; None with too few, or with none in the last third."""
    begin, end = over.times[0], over.times[-1]
    one = trend(np.r_[begin, times, end], np.r_[np.nan, least, np.nan], FEWEST_COLLECTIONS)
    return None if one is None or times[-1] < begin + (end - begin) * 2 / 3 else one


def ran(over: OwnersOverTime, gauge: str = "collections") -> int | None:
    """The number of collections in the last two thirds by `gauge`; None if unknown."""
    counts = over.gauges.get(gauge)
    if counts is None or not np.isfinite(counts).any():
        return None
    begin, end = over.times[0], over.times[-1]
    judged = counts[(over.times >= begin + (end - begin) / 3) & np.isfinite(counts)]
    return int(judged[-1] - judged[0]) if len(judged) > 1 else None


def gave_back(over: OwnersOverTime, values: Floats) -> bool:
    """Whether the collections gave back so much of the rise that the next ones may free the rest."""
    counts = _counts(over, "collections")
    begin, end = over.times[0], over.times[-1]
    judged = np.flatnonzero((over.times >= begin + (end - begin) / 3) & np.isfinite(values))
    if counts is None or len(judged) < 2:
        return False
    first, last = judged[0], judged[-1]
    fell = 0.0
    for at in range(first + 1, last + 1):
        if counts[at] > counts[at - 1]:
            after = values[at : at + _CLEANING]
            if np.isfinite(after).any() and np.isfinite(values[at - 1]):
                fell += max(float(values[at - 1] - np.nanmin(after)), 0.0)
    rose = float(values[last] - values[first]) + fell
    return fell > 0 and fell >= _GIVEN_BACK * rose


def _counts(over: OwnersOverTime, gauge: str) -> Floats | None:
    """The counter at each reading; where a reading lacks it, as of the reading before."""
    counts = over.gauges.get(gauge)
    if counts is None:
        return None
    last = np.maximum.accumulate(np.where(np.isfinite(counts), np.arange(len(counts)), 0))
    carried: Floats = counts[last]
    return carried
