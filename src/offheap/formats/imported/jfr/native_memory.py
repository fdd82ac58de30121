"""async-profiler's events of native memory: profiler.Malloc and profiler.Free.

Source: async-profiler's src/mallocTracer.cpp and flightRecorder.cpp.  Threads write into buffers of their
own, so that a chunk's events are not in the order of time; a chunk ends with all buffers written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.errors import UserError
from offheap.formats.imported.jfr import frames, thread_names
from offheap.formats.imported.jfr.blocks_over_time import Blocks, BlocksOverTime
from offheap.formats.imported.jfr.file import event_columns, event_places, few_events
from offheap.formats.imported.jfr.file.chunks import Chunk
from offheap.formats.imported.jfr.file.constants import Constants
from offheap.formats.imported.jfr.file.event_places import Events
from offheap.formats.imported.jfr.file.metadata import Types
from offheap.formats.imported.jfr.order import ascending, in_order_of_places
from offheap.formats.imported.jfr.thread_names import ThreadNames
from offheap.formats.imported.stack_tables import StackTable
from offheap.recording import allowance

MALLOC, FREE = "profiler.Malloc", "profiler.Free"
TABLES: dict[str, Sequence[str]] = {**frames.TABLES, **thread_names.TABLES}
_FIELDS = {
    MALLOC: ("startTime", "eventThread", "stackTrace", "address", "size"),
    FREE: ("startTime", "address"),
}
_ROW = 56  # bytes of an event of a chunk: it, its places by time and in the file, a share of what is sorted
_SLICE = 500_000  # events that are paired at one time
_MOST_BYTES = np.uint64(1 << 56)  # of one block
_MOST_INTERVAL = 1 << 40  # bytes
_MOST_TABLE = 1 << 24
# What is kept of an event; keys of stacks and threads are counters, or numbers of threads of the kernel.
_PLACE = "place"  # among the chunk's events, in the order of the file
_KINDS: dict[str, Any] = {
    _PLACE: np.uint32,
    "startTime": np.uint64,
    "address": np.uint64,
    "size": np.uint64,
    "stackTrace": np.uint32,
    "eventThread": np.uint32,
}


class NativeMemoryEvents:
    """The blocks of all chunks, which are added by time.

    interval  bytes between samples, as the settings in the file say; 0: all
    """

    def __init__(self, stacks: StackTable, start: float, duration: float, threads: ThreadNames) -> None:
        self._stacks, self._start, self._duration, self._threads = stacks, start, duration, threads
        self._blocks: BlocksOverTime | None = None
        self._waiting = _Waiting()
        self._place = 0  # of the next event of the chunk
        self.interval = 0

    @property
    def blocks(self) -> BlocksOverTime:
        if self._blocks is None:
            self._blocks = BlocksOverTime(self.interval, self._duration)
        return self._blocks

    def take(self, chunk: Chunk, types: Types, of: Events) -> None:
        """The events in a window."""
        for name, value in few_events.rows(chunk, types, of, "jdk.ActiveSetting", ("name", "value")):
            if name == "nativemem" and str(value).isascii() and str(value).isdigit():
                # The profiler was restarted with another interval: the interval of most samples is unknown.
                self.interval = max(self.interval, min(int(value), _MOST_INTERVAL))
        if self.interval == 1:  # as 0
            self.interval = 0
        for name, fields in _FIELDS.items():
            number = types.number(name)
            chosen = of.types == number
            if number >= 0 and chosen.any():
                found = event_columns.columns(chunk, of, chosen, types.atoms(number), fields)
                places = np.flatnonzero(chosen).astype(np.uint64) + np.uint64(self._place)
                self._waiting.add(chunk, of, {**found, _PLACE: places})
        self._place += len(of.types)

    def keys(self) -> NDArray[np.uint64]:
        """The stacks of the chunk's allocations, ascending, as its constants name them."""
        return self._waiting.distinct("stackTrace")

    def end(self, chunk: Chunk, keys: NDArray[np.uint64], constants: Constants) -> None:
        """Adds a chunk: its events are counted in the order of time; `keys` as above."""
        stacks = _Numbers(keys, frames.numbers(constants, keys, self._stacks))
        raw = self._waiting.distinct("eventThread")
        threads = _Numbers(raw, self._threads.numbers(raw, constants))
        ticks = self._waiting.taken("startTime")
        order = ascending(ticks)
        # A thread may free an address and get it again within a tick: then the file has the order.
        in_order_of_places(order, ticks, self._waiting.taken(_PLACE))
        self._place = 0
        addresses, sizes = self._waiting.taken("address"), self._waiting.taken("size")
        keys_of, threads_of = self._waiting.taken("stackTrace"), self._waiting.taken("eventThread")
        self._waiting = _Waiting()
        for low in range(0, len(order), _SLICE):
            of = order[low : low + _SLICE]
            seconds = (ticks[of].astype(np.int64) - np.int64(chunk.start_ticks)) / float(chunk.ticks)
            # An event of a damaged file would be years away.
            times = np.clip(seconds, 0.0, chunk.duration) + (chunk.start - self._start)
            numbers, whose = stacks.of(keys_of[of]), threads.of(threads_of[of]).astype(np.uint16)
            blocks = Blocks(addresses[of], sizes[of], times, numbers, whose)
            self.blocks.add(blocks, len(self._stacks.stacks) + 1)


class _Waiting:
    """The events of a chunk, which wait for its constants; a free has size 0, and no stack and thread."""

    def __init__(self) -> None:
        self._parts: dict[str, list[NDArray[Any]]] = {name: [] for name in _KINDS}
        self._events = 0

    def add(self, chunk: Chunk, of: Events, found: event_columns.Columns) -> None:
        count = len(found["address"])
        for name, kind in _KINDS.items():
            values = found.get(name, np.zeros(1, np.uint64))
            if kind != np.uint64 and (values > np.iinfo(kind).max).any():
                raise event_places.fault(
                    chunk, of.base, "an event whose stack, thread or place has no such number"
                )
            column = np.broadcast_to(values.astype(kind), count)
            if name == "size" and name in found:
                if (values > _MOST_BYTES).any():
                    raise event_places.fault(chunk, of.base, "an allocation larger than any address space")
                column = np.maximum(column, kind(1))
            self._parts[name].append(column)
        self._events += count
        if self._events * _ROW > allowance.limit():
            raise UserError(
                f"{chunk.path} has more than {self._events:,} events in a chunk: more memory than is allowed",
                f"if it is yours, allow more: {allowance.VARIABLE}=4GiB",
            )

    def distinct(self, name: str) -> NDArray[np.uint64]:
        """The values of the allocations, ascending, and of frees 0."""
        parts = self._parts[name]
        if max((int(part.max(initial=0)) for part in parts), default=0) < _MOST_TABLE:
            present = np.zeros(_MOST_TABLE, bool)
            for part in parts:
                present[part] = True
            return np.flatnonzero(present).astype(np.uint64)
        return np.unique(np.concatenate([np.unique(part) for part in parts])).astype(np.uint64)

    def taken(self, name: str) -> NDArray[Any]:
        """A column, which is not kept."""
        parts, self._parts[name] = self._parts[name], []
        return np.concatenate([np.zeros(0, _KINDS[name]), *parts])


class _Numbers:
    """Numbers of keys: by a table where keys are small, as async-profiler's are."""

    def __init__(self, keys: NDArray[np.uint64], numbers: NDArray[np.uint32]) -> None:
        self._keys, self._numbers = keys, numbers
        self._table: NDArray[np.uint32] | None = None
        most = int(keys.max()) if len(keys) else 0
        if most < _MOST_TABLE:
            self._table = np.zeros(most + 1, np.uint32)
            self._table[keys.astype(np.int64)] = numbers

    def of(self, keys: NDArray[np.uint32]) -> NDArray[np.uint32]:
        if self._table is not None:
            return self._table[keys]
        return self._numbers[np.searchsorted(self._keys, keys.astype(np.uint64))]
