"""Native Memory Tracking over time, as JDK 20 and later write it into JFR: events jdk.NativeMemoryUsage.

Source: the JDK's src/hotspot/share/nmt/memReporter.cpp (MemJFRReporter) and jfr/metadata/metadata.xml.  All
categories of one reading have the same time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from offheap.formats.imported.jfr.file import event_columns
from offheap.formats.imported.jfr.file.chunks import Chunk
from offheap.formats.imported.jfr.file.constants import Constants
from offheap.formats.imported.jfr.file.event_places import Events
from offheap.formats.imported.jfr.file.metadata import Types
from offheap.formats.imported.stack_tables import StackTable, Total, TotalsAtTime
from offheap.recording.model import MMAP, Frame

USAGE = "jdk.NativeMemoryUsage"
_CATEGORIES = "jdk.types.NMTType"
TABLES: dict[str, Sequence[str]] = {_CATEGORIES: ("name",)}
LACKS = (
    "Native Memory Tracking counts what the JVM itself asks for, direct buffers and Unsafe included: memory "
    "that native libraries take from malloc or mmap is not in it",
    "JFR has committed memory by category, malloc and mmap in one, which is not all resident: no number of "
    "blocks, no callers, no births, and nothing that was freed",
)
_FIELDS = ("startTime", "type", "committed")
_MOST_SNAPSHOTS = 240  # as many as of allocations
_LEAST_WIDTH = 0.1  # seconds
_MOST_BYTES = 1 << 56


class MemoryTracking:
    """The last reading of each of 240 equal parts of the time."""

    def __init__(self, stacks: StackTable, start: float, duration: float) -> None:
        self._stacks, self._start = stacks, start
        self._width = max(duration / _MOST_SNAPSHOTS, _LEAST_WIDTH)
        self._waiting: list[event_columns.Columns] = []
        self._readings: dict[int, tuple[float, dict[int, Total]]] = {}

    def take(self, chunk: Chunk, types: Types, of: Events) -> None:
        number = types.number(USAGE)
        chosen = of.types == number
        if number >= 0 and chosen.any():
            self._waiting.append(event_columns.columns(chunk, of, chosen, types.atoms(number), _FIELDS))

    def end(self, chunk: Chunk, constants: Constants) -> None:
        """Adds a chunk, whose constants name the categories."""
        if not self._waiting:
            return
        ticks, keys, committed = (
            np.concatenate([columns[name] for columns in self._waiting]) for name in _FIELDS
        )
        self._waiting = []
        moments, of_moment = np.unique(ticks, return_inverse=True)
        times = self._times(chunk, moments)
        buckets = (times / self._width).astype(np.int64)
        last = np.flatnonzero(np.append(np.diff(buckets) != 0, True))
        for moment in last.tolist():
            rows = np.flatnonzero(of_moment.reshape(-1) == moment)
            totals = {}
            for key, size in zip(keys[rows].tolist(), committed[rows].tolist(), strict=True):
                row = constants.tables[_CATEGORIES].get(key)
                name = constants.text(row[0]) if row else ""
                if size and name:
                    frame = Frame(f"NMT category {name}", "jvm", "libjvm.so")
                    totals[self._stacks.of_frames([frame], MMAP)] = Total(1.0, float(min(size, _MOST_BYTES)))
            self._readings[int(buckets[moment])] = (float(times[moment]), totals)

    def moments(self) -> list[TotalsAtTime]:
        """By time; none where the file has no reading."""
        found = sorted(self._readings.values(), key=lambda reading: reading[0])
        moments: list[TotalsAtTime] = []
        for time, totals in found:
            if not moments or time > moments[-1].time:
                moments.append(TotalsAtTime(time, totals))
        return moments

    def _times(self, chunk: Chunk, ticks: NDArray[np.uint64]) -> NDArray[np.float64]:
        seconds = (ticks.astype(np.int64) - np.int64(chunk.start_ticks)) / float(chunk.ticks)
        times: NDArray[np.float64] = np.clip(seconds, 0.0, chunk.duration) + (chunk.start - self._start)
        return times
