"""Live blocks and totals of stacks over time, of allocations and frees with their times.

async-profiler with an interval (nativemem=512k) adds up the bytes of all allocations and takes the one with
which the sum passes a multiple of it (engine.h, updateCounter): a block of s bytes is taken with the
probability min(1, s/interval), if its size has nothing to do with what was allocated before.  So a sample stands
for 1/probability blocks; the variance of a sum of samples is that of independent ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offheap.formats.imported.jfr.paired_events import before
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

# An allocation, or a free: its size is 0.
EVENT = np.dtype(
    [("address", "<u8"), ("size", "<u8"), ("time", "<f8"), ("stack", "<u4"), ("thread", "<u4")]
)


@dataclass
class Counted:
    """unknown: frees of what nobody saw allocated; replaced: allocations at an address that was live."""

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
        self._live = np.zeros(0, EVENT)
        self._now = np.zeros((0, len(_COLUMNS)))  # by stack number
        self._told = np.zeros((0, len(_COLUMNS)))  # of the last snapshot
        self._series: list[NDArray[np.void]] = []
        self._rows = 0
        self._process: list[tuple[float, ...]] = []
        self._last = 0.0
        self.counted = Counted()

    def add(self, events: NDArray[np.void], stacks: int) -> None:
        """`events`: EVENT, by time; numbers of stacks are below `stacks`."""
        more = stacks - len(self._now)
        if more > 0:
            self._now = np.pad(self._now, ((0, more), (0, 0)))
            self._told = np.pad(self._told, ((0, more), (0, 0)))
        held = len(self._live)
        every = np.concatenate((self._live, events))
        born = every["size"] > 0
        earlier = before(every["address"])
        ends = (earlier >= 0) & born[earlier]  # the events with which a block ends
        counted = self.counted
        counted.allocations += int(born[held:].sum())
        counted.frees += int((~born[held:]).sum())
        counted.unknown += int((~born & ~ends)[held:].sum())
        counted.replaced += int((born & ends)[held:].sum())
        ended = np.zeros(len(every), bool)
        ended[earlier[ends]] = True
        self._live = every[born & ~ended]
        buckets = np.maximum((every["time"][held:] / self._width).astype(np.int64), self._bucket)
        np.maximum.accumulate(buckets, out=buckets)
        edges = np.flatnonzero(np.diff(buckets)) + 1 + held
        places = [held, *edges.tolist(), len(every)]
        for low, high in zip(places[:-1], places[1:], strict=True):
            if low == high:
                continue
            bucket = int(buckets[low - held])
            if bucket > self._bucket:
                self._tell((self._bucket + 1) * self._width)
                self._bucket = int(every["time"][low] / self._width)  # telling may have widened them
            self._last = max(self._last, float(every["time"][high - 1]))
            self._count(every[low:high][born[low:high]], 1)
            self._count(every[earlier[low:high][ends[low:high]]], -1)

    def finish(self) -> tuple[NDArray[np.void], NDArray[np.void], NDArray[np.void]]:
        """(LIVE, SERIES, PROCESS without RSS)."""
        self._tell(max(self._last, self._process[-1][0] + _LEAST_WIDTH / 2 if self._process else 0.0))
        live = np.zeros(len(self._live), LIVE)
        for name in ("stack", "thread", "size"):
            live[name] = self._live[name]
        live["birth"] = self._live["time"]
        live["probability"] = self._probability(self._live["size"])
        return live, np.concatenate(self._series), np.array(self._process, PROCESS)

    def _probability(self, sizes: NDArray[np.uint64]) -> Floats:
        if not self._interval:
            return np.ones(len(sizes))
        return np.minimum(1.0, sizes / float(self._interval))

    def _count(self, blocks: NDArray[np.void], sign: int) -> None:
        if not len(blocks):
            return
        sizes, stacks = blocks["size"].astype(np.float64), blocks["stack"]
        weight = 1 / self._probability(blocks["size"])
        variance = weight * (weight - 1)
        length = int(stacks.max()) + 1
        for column, values in enumerate((weight, sizes * weight, variance, sizes**2 * variance)):
            sums = np.bincount(stacks, values, length)
            self._now[:length, column] += sign * sums
            if sign > 0:
                self._now[:length, _LIVE_COLUMNS + column] += sums
        if sign > 0:
            self._now[:length, -1] += np.bincount(stacks, minlength=length)

    def _tell(self, time: float) -> None:
        # Rounding leaves a little less than nothing of what is gone.
        live = self._now[:, :_LIVE_COLUMNS]
        np.maximum(live, 0.0, out=live)
        changed = np.flatnonzero((self._now != self._told).any(axis=1))
        rows = np.zeros(len(changed), SERIES)
        rows["time"], rows["stack"] = time, changed
        for column, name in enumerate(_COLUMNS):
            rows[name] = self._now[changed, column]
        self._told[changed] = self._now[changed]
        self._series.append(rows)
        blocks, size, _, _, _, allocated = self._now.sum(axis=0)[:6].tolist()
        self._process.append((time, 0, size, blocks, allocated, 0))
        self._rows += len(rows)
        while self._rows > _MOST_ROWS and len(self._series) > 2:
            self._halve()

    def _halve(self) -> None:
        """Makes one snapshot of two: the later one with what only the earlier one has."""
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
