"""What happened to each site over the recording: when its survivors were born, what was live when.

Time is cut into eras at common boundaries.  For every site and era, of the blocks alive at the end:
how much was born in it.  With snapshots also what was live at each boundary; the difference to the
survivors born until then is what has been freed since, of which the sampled part is known exactly
(the same sampled blocks), so its variance is the difference of the two variances.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from offheap.analysis import estimates
from offheap.analysis.results import Estimate
from offheap.analysis.sites import Grouping, latest_rows
from offheap.recording.model import Recording

ERAS = 24
_FEWEST_SNAPSHOTS = 5


@dataclass(frozen=True, slots=True)
class History:
    """One site, in bytes, by boundary: n + 1 of them, between n eras."""

    times: list[float]  # seconds since the start
    first: int  # the boundary before the site's first known allocation
    born: list[float]  # live at the end and born until the boundary
    seen: list[float]  # of which sampled
    variance: list[float]  # of `born`
    samples: list[float]  # sampled blocks in `born`
    live: list[float]  # live at the boundary; empty without snapshots
    live_variance: list[float]
    interval_bytes: int
    block_bytes: float  # a typical block, 0 if none was sampled alive

    def at(self, share: float) -> int:
        """The boundary nearest to this share of the site's own time, from `first` to the end."""
        target = self.times[self.first] + share * (self.times[-1] - self.times[self.first])
        after = bisect_left(self.times, target, self.first + 1, len(self.times) - 1)
        return after - (target - self.times[after - 1] < self.times[after] - target)

    def seconds(self, start: int, end: int) -> float:
        return self.times[end] - self.times[start]

    def survivors(self, start: int, end: int) -> Estimate:
        """Bytes alive at the end of the recording and born between two boundaries."""
        samples = self.samples[end] - self.samples[start]
        if not samples:
            return estimates.none_sampled(self.interval_bytes, self.block_bytes)[0]
        seen = self.seen[end] - self.seen[start]
        unseen = max(self.born[end] - self.born[start] - seen, 0.0)
        return estimates.of_sums(seen, unseen, max(self.variance[end] - self.variance[start], 0.0), samples)

    def sampled(self, start: int, end: int) -> int:
        return int(self.samples[end] - self.samples[start])

    def freed_since(self, boundary: int) -> Estimate:
        """Bytes alive at a boundary and freed since."""
        alive = self.live[boundary]
        freed = max(alive - self.born[boundary], 0.0)
        variance = max(self.live_variance[boundary] - self.variance[boundary], 0.0)
        if freed <= 1e-9 * alive or (variance <= 0 and self.interval_bytes):
            # None of the sampled ones; some of the others perhaps, but no more than there was.
            hidden = estimates.none_sampled(self.interval_bytes, self.block_bytes)[0]
            return Estimate(0.0, 0.0, min(hidden.high, alive))
        return estimates.of_sums(0.0, freed, variance, 1.0) if variance else Estimate(freed, freed, freed)

    def net(self, start: int) -> Estimate:
        """Growth in bytes from a boundary to the end: born since and alive, less freed since."""
        return estimates.difference(self.survivors(start, len(self.times) - 1), self.freed_since(start))

    def steps(self, start: int, end: int) -> list[float]:
        """Growth in bytes per second, era by era: of live bytes, or of survivors without snapshots."""
        return self._rates(self.live or self.born, start, end)

    def births(self, start: int, end: int) -> list[float]:
        """Bytes per second that survive, by the era of their birth."""
        return self._rates(self.born, start, end)

    def filled(self, start: int, end: int) -> int:
        """How many eras left sampled survivors."""
        counts = self.samples[start : end + 1]
        return sum(after > before for before, after in pairwise(counts))

    def _rates(self, amounts: list[float], start: int, end: int) -> list[float]:
        return [
            (amounts[i + 1] - amounts[i]) / (self.times[i + 1] - self.times[i]) for i in range(start, end)
        ]


def histories(recording: Recording, grouping: Grouping) -> list[History]:
    """By site number."""
    times, snapshots = _boundaries(recording)
    count, eras = len(grouping.members), len(times) - 1
    live = recording.live
    size = live["size"].astype(np.float64)
    probability = live["probability"]
    site = grouping.of_stack[live["stack"]]
    era = np.clip(np.searchsorted(times, live["birth"], "left") - 1, 0, eras - 1)
    cell = site * eras + era

    def by_era(weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
        table = np.bincount(cell, weights=weights, minlength=count * eras)
        return table.astype(np.float64).reshape(count, eras)

    weighted = size / probability
    born, seen, samples = by_era(weighted), by_era(size), by_era(None)
    variance = by_era(weighted * weighted * (1 - probability))

    first = np.full(count, eras)
    np.minimum.at(first, site, era)
    total, total_samples = born.sum(axis=1), samples.sum(axis=1)
    block = seen.sum(axis=1) / np.maximum(total_samples, 1)
    at: NDArray[np.float64] | None = None
    if snapshots:
        at, at_variance, began = _at_boundaries(recording, grouping, times)
        # The live set is newer than the last snapshot by the time it took to read: it is the end.
        at[:, -1], at_variance[:, -1] = total, variance.sum(axis=1)
        first = np.minimum(first, began)
    else:
        last = latest_rows(recording)
        last = last[last >= 0]
        # The oldest survivor is the site's beginning only if it frees nothing.
        allocated = np.bincount(
            grouping.of_stack[recording.series["stack"][last]],
            weights=recording.series["allocated_bytes"][last],
            minlength=count,
        )
        first[total < 0.9 * allocated] = 0
    first = np.minimum(first, eras - 1)

    def running(table: NDArray[np.float64]) -> list[list[float]]:
        rows: list[list[float]] = np.pad(table.cumsum(axis=1), ((0, 0), (1, 0))).tolist()
        return rows

    boundaries: list[float] = times.tolist()
    columns = [running(table) for table in (born, seen, variance, samples)]
    empty: list[list[float]] = [[]] * count
    lives = at.tolist() if at is not None else empty
    variances = at_variance.tolist() if at is not None else empty
    return [
        History(
            times=boundaries,
            first=int(first[number]),
            born=columns[0][number],
            seen=columns[1][number],
            variance=columns[2][number],
            samples=columns[3][number],
            live=lives[number],
            live_variance=variances[number],
            interval_bytes=recording.info.interval_bytes,
            block_bytes=float(block[number]),
        )
        for number in range(count)
    ]


def _boundaries(recording: Recording) -> tuple[NDArray[np.float64], bool]:
    """Era boundaries from 0 to the end, and whether each is a snapshot.

    At snapshots where there are enough of them: between two, what was live is not known.
    """
    end = max(
        recording.info.duration_seconds,
        float(recording.live["birth"].max(initial=0.0)),
        float(recording.process["time"].max(initial=0.0)),
        0.01,
    )
    even = np.linspace(0.0, end, ERAS + 1)
    taken = np.unique(np.concatenate((recording.process["time"], recording.series["time"])))
    taken = taken[(taken > 0) & (taken < end)]
    if len(taken) < _FEWEST_SNAPSHOTS:
        return even, False
    nearest = np.searchsorted((taken[1:] + taken[:-1]) / 2, even[1:-1])
    return np.unique(np.concatenate(([0.0], taken[nearest], [end]))), True


def _at_boundaries(
    recording: Recording, grouping: Grouping, times: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Live bytes and their variance by site and boundary, and the boundary before the first allocation."""
    series = recording.series
    count = len(grouping.members)
    live, variance = np.zeros((count, len(times))), np.zeros((count, len(times)))
    latest = np.full(len(grouping.of_stack), -1, np.int64)
    began = np.full(count, len(times))
    cuts = np.searchsorted(series["time"], times, "right")
    start = 0
    for column, end in enumerate(cuts.tolist()):
        stacks = series["stack"][start:end]
        latest[stacks] = np.arange(start, end)  # by time: the latest row wins
        known = np.flatnonzero(latest >= 0)
        rows, of = series[latest[known]], grouping.of_stack[known]
        live[:, column] = np.bincount(of, weights=rows["live_bytes"], minlength=count)
        variance[:, column] = np.bincount(of, weights=rows["live_bytes_variance"], minlength=count)
        began[grouping.of_stack[stacks]] = np.minimum(began[grouping.of_stack[stacks]], max(column - 1, 0))
        start = end
    return live, variance, began
