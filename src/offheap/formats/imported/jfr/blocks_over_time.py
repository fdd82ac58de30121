"""Live blocks and totals of stacks over time, of allocations and frees with their times.

async-profiler with an interval (nativemem=512k) sums the bytes of all allocations and samples the allocation
with which the sum exceeds a multiple of the interval (engine.h, updateCounter).  So a block of s bytes is
sampled with the probability min(1, s/interval), if its size does not depend on the allocations before it.  A
sample stands for 1/probability blocks; the variance of a sum is that of independent samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.formats.imported.jfr.order import before
from offheap.recording.model import LIVE, PROCESS, SERIES

# Twice as many as are kept of a long recording at least: the trend of a site needs some twenty.
MOST_SNAPSHOTS = 240
_LEAST_WIDTH = 0.1  # seconds
_MOST_ROWS = 2_000_000  # of SERIES: 180 MB; beyond, pairs of snapshots become one
_COLUMNS = (
    "live_blocks",
    "live_bytes",
    "live_blocks_variance",
    "live_bytes_variance",
    "allocated_blocks",
    "allocated_bytes",
    "allocated_blocks_variance",
    "allocated_bytes_variance",
    "samples",
)
_LIVE_COLUMNS = 4

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Blocks:
    """Allocations, and frees, whose sizes are 0: a column a field.  times: seconds, ascending."""

    addresses: NDArray[np.uint64]
    sizes: NDArray[np.uint64]
    times: Floats
    stacks: NDArray[np.uint32]
    threads: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.addresses)

    def chosen(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> Blocks:
        return Blocks(*(column[which] for column in self._columns()))

    def behind(self, other: Blocks) -> Blocks:
        """The other's, then these."""
        return Blocks(*map(np.concatenate, zip(other._columns(), self._columns(), strict=True)))

    @classmethod
    def none(cls) -> Blocks:
        return cls(
            np.zeros(0, np.uint64),
            np.zeros(0, np.uint64),
            np.zeros(0),
            np.zeros(0, np.uint32),
            np.zeros(0, np.uint16),
        )

    def _columns(self) -> tuple[NDArray[Any], ...]:
        return self.addresses, self.sizes, self.times, self.stacks, self.threads


@dataclass
class BlockCounts:
    """unknown: frees without an allocation in the file; replaced: allocations at an address that was live."""

    allocations: int = 0
    frees: int = 0
    unknown: int = 0
    replaced: int = 0


class BlocksOverTime:
    """Takes events in the order of time, many at once.

    interval  of async-profiler, bytes; 0: every allocation is an event
    duration  seconds, of all events
    """

    def __init__(self, interval: int, duration: float) -> None:
        self._interval = interval
        self._width = max(duration / MOST_SNAPSHOTS, _LEAST_WIDTH)
        self._bucket = 0
        self._live = Blocks.none()
        self._now = np.zeros((0, len(_COLUMNS)))  # by stack number
        self._changed = np.zeros(0, bool)  # by stack number, since the last snapshot
        self._series: list[NDArray[np.void]] = []
        self._rows = 0
        self._process: list[tuple[float, ...]] = []
        self._last = 0.0
        self.counted = BlockCounts()

    def add(self, events: Blocks, stacks: int) -> None:
        """Events by time, none before the earlier events; numbers of stacks are below `stacks`."""
        more = stacks - len(self._now)
        if more > 0:
            self._now = np.pad(self._now, ((0, more), (0, 0)))
            self._changed = np.pad(self._changed, (0, more))
        held = len(self._live)
        every = events.behind(self._live)
        born = every.sizes > 0
        earlier = before(every.addresses)
        ends = (earlier >= 0) & born[earlier]  # the events with which a block ends
        self._compare(born[held:], ends[held:])
        ended = np.zeros(len(every), bool)
        ended[earlier[ends]] = True
        self._live = every.chosen(born & ~ended)
        buckets = np.maximum((events.times / self._width).astype(np.int64), self._bucket)
        np.maximum.accumulate(buckets, out=buckets)
        edges = (np.flatnonzero(np.diff(buckets)) + 1).tolist()
        for low, high in zip([0, *edges], [*edges, len(events)], strict=True):
            if low == high:
                continue
            time = float(events.times[low])
            if int(time / self._width) > self._bucket:
                self._tell((self._bucket + 1) * self._width)
                self._bucket = int(time / self._width)  # telling may have widened them
            self._last = max(self._last, float(events.times[high - 1]))
            span = slice(held + low, held + high)
            places = np.flatnonzero(born[span]) + (held + low)
            self._count(every.sizes[places], every.stacks[places], 1)
            places = earlier[span][ends[span]]
            self._count(every.sizes[places], every.stacks[places], -1)

    def finish(self) -> tuple[NDArray[np.void], NDArray[np.void], NDArray[np.void]]:
        """(LIVE, SERIES, PROCESS without RSS)."""
        self._tell(max(self._last, self._process[-1][0] + _LEAST_WIDTH / 2 if self._process else 0.0))
        live = np.zeros(len(self._live), LIVE)
        live["stack"], live["thread"] = self._live.stacks, self._live.threads
        live["size"], live["birth"] = self._live.sizes, self._live.times
        live["probability"] = self._probability(self._live.sizes)
        return live, np.concatenate(self._series), np.array(self._process, PROCESS)

    def _compare(self, born: NDArray[np.bool_], ends: NDArray[np.bool_]) -> None:
        counted = self.counted
        allocations = int(np.count_nonzero(born))
        counted.allocations += allocations
        counted.frees += len(born) - allocations
        both = int(np.count_nonzero(born & ends))
        counted.replaced += both
        counted.unknown += len(born) - allocations - (int(np.count_nonzero(ends)) - both)

    def _probability(self, sizes: NDArray[np.uint64]) -> Floats:
        if not self._interval:
            return np.ones(len(sizes))
        return np.minimum(1.0, sizes / float(self._interval))

    def _count(self, sizes: NDArray[np.uint64], stacks: NDArray[np.uint32], sign: int) -> None:
        if not len(stacks):
            return
        length = int(stacks.max()) + 1
        samples = np.bincount(stacks, minlength=length)
        self._changed[:length] |= samples > 0
        now, exact = self._now[:length], sizes.astype(np.float64)
        if sign > 0:
            now[:, -1] += samples
        amounts: list[NDArray[Any]] = [samples, np.bincount(stacks, exact, length)]
        if self._interval:
            weight = 1 / self._probability(sizes)
            variance = weight * (weight - 1)
            values = (weight, exact * weight, variance, exact**2 * variance)
            amounts = [np.bincount(stacks, value, length) for value in values]
        for column, sums in enumerate(amounts):
            now[:, column] += sign * sums
            if sign > 0:
                now[:, _LIVE_COLUMNS + column] += sums

    def _tell(self, time: float) -> None:
        changed = np.flatnonzero(self._changed)
        self._changed[:] = False
        # Rounding may leave a small negative rest of a stack that holds nothing.
        live = self._now[:, :_LIVE_COLUMNS]
        np.maximum(live, 0.0, out=live)
        rows = np.zeros(len(changed), SERIES)
        rows["time"], rows["stack"] = time, changed
        for column, name in enumerate(_COLUMNS):
            rows[name] = self._now[changed, column]
        self._series.append(rows)
        blocks, size, _, _, _, allocated = self._now.sum(axis=0)[:6].tolist()
        self._process.append((time, 0, size, blocks, allocated, 0))
        self._rows += len(rows)
        while self._rows > _MOST_ROWS and len(self._series) > 2:
            self._halve()

    def _halve(self) -> None:
        """Makes one snapshot of two: the later one, with the rows that only the earlier one has."""
        series, process = [], []
        for place in range(len(self._series) % 2, len(self._series), 2):
            earlier, later = self._series[place : place + 2]
            both = np.concatenate((earlier[~np.isin(earlier["stack"], later["stack"])], later))
            both["time"] = self._process[place + 1][0]
            series.append(both[np.argsort(both["stack"])])
            process.append(self._process[place + 1])
        if len(self._series) % 2:
            series.insert(0, self._series[0])
            process.insert(0, self._process[0])
        self._series, self._process = series, process
        self._rows = sum(map(len, series))
        self._width *= 2
        self._bucket //= 2
