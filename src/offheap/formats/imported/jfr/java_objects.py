"""async-profiler's samples of Java objects, alive ones above all: `asprof -e alloc --live`.

Source: async-profiler's src/objectSampler.cpp.  The JVM samples allocations (JVMTI's SampledObjectAlloc), on
average one in each `alloc` bytes; each is an event.  A table of 1,024 weak references has the sampled
objects; once it is full nothing is added until a collection begins.  When the profiler stops, each reference
that is not cleared yields an event profiler.LiveObject, and the table is empty again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from offheap.errors import UserError
from offheap.formats.imported.jfr import frames
from offheap.formats.imported.jfr.file import event_columns, event_places, few_events
from offheap.formats.imported.jfr.file.chunks import Chunk
from offheap.formats.imported.jfr.file.constants import Constants
from offheap.formats.imported.jfr.file.event_places import Events
from offheap.formats.imported.jfr.file.metadata import Types
from offheap.formats.imported.jfr.thread_names import ThreadNames
from offheap.formats.imported.stack_tables import StackTable
from offheap.recording import allowance
from offheap.recording.model import JAVA, LIVE, SERIES, JavaHeap

LIVE_OBJECT = "profiler.LiveObject"
ALLOCATIONS = ("jdk.ObjectAllocationInNewTLAB", "jdk.ObjectAllocationOutsideTLAB")
MOST_FOLLOWED = 1024  # weak references
DEFAULT_INTERVAL = 524_287  # bytes, where the settings do not name it
# An object whose addition to the table met another thread's looks dead; so many at once do not.
_SURE = 3
_FIELDS = ("eventThread", "stackTrace", "objectClass", "allocationSize")
_ROW = 64  # bytes of an event in memory, with what is sorted
_MOST_BYTES = 1 << 56
_MOST_INTERVAL = 1 << 40

_Column = NDArray[np.int64]


class JavaObjects:
    """Samples of all chunks: allocations, and the objects that were live when the profiler stopped last."""

    def __init__(self, stacks: StackTable, start: float, threads: ThreadNames) -> None:
        self._stacks, self._start, self._threads = stacks, start, threads
        self._waiting: list[tuple[bool, event_columns.Columns]] = []
        self._seconds: list[NDArray[np.float64]] = []
        self._columns: list[tuple[bool, _Column, _Column, _Column]] = []
        self._events = 0
        self._since = 0.0  # seconds: when the table was empty last
        self._stopped = False  # the profiler, and whoever is live since is of a new table
        self.interval = DEFAULT_INTERVAL

    def take(self, chunk: Chunk, types: Types, of: Events) -> None:
        """The events in a window."""
        for name, value in few_events.rows(chunk, types, of, "jdk.ActiveSetting", ("name", "value")):
            if name == "alloc" and str(value).isascii() and str(value).isdigit() and int(value) > 0:
                self.interval = min(int(value), _MOST_INTERVAL)
        for name in (*ALLOCATIONS, LIVE_OBJECT):
            number = types.number(name)
            chosen = of.types == number
            if number < 0 or not chosen.any():
                continue
            alive = name == LIVE_OBJECT
            fields = ("allocationTime" if alive else "startTime", *_FIELDS)
            known = {atom.name for atom in types.atoms(number)}
            if not known.issuperset(fields):
                continue  # another producer's
            found = event_columns.columns(chunk, of, chosen, types.atoms(number), fields)
            found["startTime"] = found.pop("allocationTime") if alive else found["startTime"]
            if (found["allocationSize"] > _MOST_BYTES).any():
                raise event_places.fault(chunk, of.base, "an object larger than any heap")
            self._waiting.append((alive, found))
            self._events += len(found["startTime"])
            if self._events * _ROW > allowance.limit():
                raise UserError(
                    f"{chunk.path} has more than {self._events:,} samples of Java objects",
                    f"if it is yours, allow more: {allowance.VARIABLE}=4GiB",
                )

    def keys(self) -> NDArray[np.uint64]:
        """The stacks of the waiting events, ascending, as the chunk's constants name them."""
        none = np.zeros(0, np.uint64)
        return np.unique(np.concatenate([none, *(found["stackTrace"] for _, found in self._waiting)]))

    def end(self, chunk: Chunk, constants: Constants) -> None:
        """Adds a chunk, whose constants name stacks, classes and threads."""
        keys = self.keys()
        places = frames.places(constants, keys, self._stacks)
        if self._stopped and self._waiting:
            # Only the last table says what is live at the end.
            self._since, self._stopped = chunk.start - self._start, False
            kept = [at for at, one in enumerate(self._columns) if not one[0]]
            self._seconds = [self._seconds[at] for at in kept]
            self._columns = [self._columns[at] for at in kept]
        for alive, found in self._waiting:
            pairs, back = np.unique(
                np.stack((found["stackTrace"], found["objectClass"])), axis=1, return_inverse=True
            )
            at = np.searchsorted(keys, pairs[0])
            classes = [frames.class_frame(constants, key) for key in pairs[1].tolist()]
            numbers = [
                self._stacks.stack([self._stacks.frame(its), *places[place]], JAVA)
                for its, place in zip(classes, at.tolist(), strict=True)
            ]
            ticks = found["startTime"].astype(np.int64) - np.int64(chunk.start_ticks)
            # An object may be older than its chunk, and not than the recording.
            seconds = ticks / float(chunk.ticks) + (chunk.start - self._start)
            self._seconds.append(np.clip(seconds, 0.0, chunk.start - self._start + chunk.duration))
            self._columns.append(
                (
                    alive,
                    np.array(numbers, np.int64)[back.reshape(-1)],
                    self._threads.of(found["eventThread"], constants),
                    np.maximum(found["allocationSize"], 1).astype(np.int64),
                )
            )
        self._stopped = any(alive for alive, _ in self._waiting)
        self._waiting = []

    def tables(self, time: float) -> tuple[NDArray[np.void], NDArray[np.void], JavaHeap]:
        """(LIVE, SERIES with one snapshot at `time`, how objects were followed)."""
        seconds = np.concatenate(self._seconds)
        alive = np.concatenate([np.full(len(one[1]), one[0]) for one in self._columns])
        stack, thread, size = (np.concatenate([one[at] for one in self._columns]) for at in (1, 2, 3))
        probability = np.maximum(-np.expm1(-size / self.interval), 1e-12)
        rows = np.zeros(int(alive.sum()), LIVE)
        rows["stack"], rows["thread"] = stack[alive], thread[alive]
        rows["size"], rows["birth"] = size[alive], np.minimum(seconds[alive], time)
        rows["probability"] = probability[alive]
        numbers, of_stack = np.unique(stack, return_inverse=True)
        series = np.zeros(len(numbers), SERIES)
        series["time"], series["stack"] = time, numbers
        weight = 1 / probability
        spread = weight * (weight - 1)
        values = (weight, size * weight, spread, size.astype(np.float64) ** 2 * spread)
        # The event of a live object's allocation may be lost: no less was allocated than is live.
        for what, chosen in (("live", alive), ("allocated", ~alive)):
            for name, value in zip(
                ("blocks", "bytes", "blocks_variance", "bytes_variance"), values, strict=True
            ):
                sums = np.bincount(of_stack[chosen], value[chosen], len(numbers))
                series[f"{what}_{name}"] = np.maximum(sums, series[f"live_{name}"])
        series["samples"] = np.maximum(
            np.bincount(of_stack[~alive], minlength=len(numbers)),
            np.bincount(of_stack[alive], minlength=len(numbers)),
        )
        collected = self._collected(seconds, alive, (stack, thread, size))
        heap = JavaHeap(
            "followed",
            interval_bytes=self.interval,
            followed=len(rows),
            most=MOST_FOLLOWED,
            collections=1 if collected > 0 else 0,
            collected=collected,
            swept=collected,
        )
        return rows, series, heap

    def _collected(
        self, seconds: NDArray[np.float64], alive: NDArray[np.bool_], keys: Sequence[_Column]
    ) -> float:
        """A time before the last known collection, which all live objects that are older survived; 0.0: none.

        A sampled object that is not alive at the end was collected, or found the table full.  If an object
        came into the table later, then a collection began after the first one's birth in both cases: it
        cleared the reference, or made room.
        """
        if not alive.any():
            return 0.0
        order = np.lexsort((alive, seconds, *keys))
        same = np.ones(max(len(order) - 1, 0), np.bool_)
        for column in keys:
            same &= column[order][1:] == column[order][:-1]
        sorted_alive = alive[order]
        # The event of a live object's own allocation is the one right before, of the same thread.
        own = np.append(same & sorted_alive[1:] & ~sorted_alive[:-1], False)[: len(order)]
        dead = seconds[order][~sorted_alive & ~own]
        dead = np.sort(dead[(dead >= self._since) & (dead < seconds[alive].max())])
        return float(dead[-_SURE]) if len(dead) >= _SURE else 0.0
