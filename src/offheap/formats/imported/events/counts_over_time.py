"""Counts of allocations and frees by kind of allocation, as snapshots of a bounded number over any time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# A long recording keeps at least half of these.  The trend of a site needs some twenty; the
# report's charts have 120 points.
MOST_SNAPSHOTS = 240
_MOST_ENTRIES = 2_000_000  # changes of a kind of allocation in a snapshot: 250 MB with the rows made of them
_FIRST_WIDTH = 0.1  # seconds; doubled whenever there are more than MOST_SNAPSHOTS


@dataclass(frozen=True)
class CountChanges:
    """What changed up to `time` (seconds): allocations (distinct indices), how many were born, freed."""

    time: float
    allocations: NDArray[np.int64]
    born: NDArray[np.float64]
    freed: NDArray[np.float64]
    rss_bytes: int


class CountsOverTime:
    """Events are added block by block; `place` is the place of a line in its block, for the order of both."""

    def __init__(self) -> None:
        self._width = _FIRST_WIDTH
        self._time = self._last = 0.0
        self._rss = 0
        self._clock: list[tuple[int, float, int]] = []  # (place, time, RSS) of the block
        self._void = -1
        self._changes: dict[
            int, list[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]]
        ] = {}
        self._of_bucket: dict[int, tuple[float, int]] = {}  # time, RSS at the end of it

    def clock(self, time: float, place: int) -> None:
        """The time of the events that follow; ValueError if it is not finite."""
        if not time < 1e12:
            raise ValueError
        self._last = max(self._last, time)
        self._clock.append((place, self._last, self._rss))

    def rss(self, size: int) -> None:
        """RSS now, in bytes."""
        self._rss = size if 0 <= size < 1 << 62 else 0
        if self._clock:
            place, time, _ = self._clock[-1]
            self._clock[-1] = (place, time, self._rss)

    def void(self, place: int) -> None:
        """Drops the counts before this place."""
        self._void = place
        self._changes.clear()
        self._of_bucket.clear()

    def add(self, indices: NDArray[np.int64], births: NDArray[np.bool_], places: NDArray[np.int64]) -> None:
        """The events of a block; its times were told to `clock` before."""
        if self._void >= 0:
            kept = places > self._void
            indices, births, places = indices[kept], births[kept], places[kept]
        marks = np.array([place for place, _, _ in self._clock], np.int64)
        times = np.array([self._time, *(time for _, time, _ in self._clock)])
        buckets = (times / self._width).astype(np.int64)
        of_event = buckets[np.searchsorted(marks, places)]
        edges = np.flatnonzero(np.diff(of_event)) + 1
        for low, high in zip([0, *edges.tolist()], [*edges.tolist(), len(of_event)], strict=True):
            if high > low:
                self._change(int(of_event[low]), indices[low:high], births[low:high])
        for (_, time, rss), bucket in zip(self._clock, buckets[1:].tolist(), strict=True):
            self._of_bucket[bucket] = (time, rss)
        self._time = self._last
        self._clock, self._void = [], -1
        while self._too_many():
            self._widen()

    def snapshots(self) -> Iterator[CountChanges]:
        """By time; at least one."""
        rss = 0
        none = np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
        for bucket in sorted(self._changes.keys() | self._of_bucket.keys()) or [0]:
            time, rss = self._of_bucket.get(bucket, (bucket * self._width, rss))
            yield CountChanges(time, *_merged(self._changes.get(bucket, [none])), rss)

    def _too_many(self) -> bool:
        snapshots = len(self._changes.keys() | self._of_bucket.keys())
        entries = sum(len(indices) for parts in self._changes.values() for indices, _, _ in parts)
        return snapshots > MOST_SNAPSHOTS or (entries > _MOST_ENTRIES and snapshots > 1)

    def _change(self, bucket: int, indices: NDArray[np.int64], births: NDArray[np.bool_]) -> None:
        distinct, back = np.unique(indices, return_inverse=True)
        back = back.reshape(-1)
        born = np.bincount(back[births], minlength=len(distinct)).astype(float)
        freed = np.bincount(back[~births], minlength=len(distinct)).astype(float)
        self._changes.setdefault(bucket, []).append((distinct, born, freed))

    def _widen(self) -> None:
        self._width *= 2
        changes, of_bucket = self._changes, self._of_bucket
        self._changes, self._of_bucket = {}, {}
        for bucket, parts in sorted(changes.items()):
            self._changes.setdefault(bucket // 2, []).extend(parts)
        self._changes = {bucket: [_merged(parts)] for bucket, parts in self._changes.items()}
        for bucket, at in sorted(of_bucket.items()):
            self._of_bucket[bucket // 2] = at


def _merged(
    parts: list[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]],
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    if len(parts) == 1:
        return parts[0]
    indices, born, freed = (np.concatenate(column) for column in zip(*parts, strict=True))
    distinct, back = np.unique(indices, return_inverse=True)
    back = back.reshape(-1)
    count = len(distinct)
    return (
        distinct.astype(np.int64),
        np.bincount(back, born, count).astype(np.float64),
        np.bincount(back, freed, count).astype(np.float64),
    )
