"""async-profiler's events of native memory: profiler.Malloc and profiler.Free.

Source: async-profiler's src/mallocTracer.cpp and flightRecorder.cpp.  Threads write into buffers of their
own, so that a chunk's events are not in the order of time; a chunk ends with all buffers written.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from offheap.errors import UserError
from offheap.formats.imported.jfr import event_columns, event_places, few_events, frames
from offheap.formats.imported.jfr.blocks_over_time import EVENT, BlocksOverTime
from offheap.formats.imported.jfr.chunks import Chunk
from offheap.formats.imported.jfr.constants import Constants
from offheap.formats.imported.jfr.event_places import Events
from offheap.formats.imported.jfr.metadata import Types
from offheap.formats.imported.stack_tables import Stacks
from offheap.recording import allowance

MALLOC, FREE = "profiler.Malloc", "profiler.Free"
_THREADS = "java.lang.Thread"
TABLES: dict[str, Sequence[str]] = {**frames.TABLES, _THREADS: ("osName", "javaName")}
_FIELDS = {
    MALLOC: ("startTime", "eventThread", "stackTrace", "address", "size"),
    FREE: ("startTime", "address"),
}
_ROW = 48  # bytes of an event of a chunk: it, its place in the order of time, and a share of what is sorted
_SLICE = 1_000_000  # events that are paired at one time
_MOST_BYTES = np.uint64(1 << 56)  # of one block
_MOST_THREADS = 65_535  # of LIVE; beyond they are "other threads"
OTHER_THREADS = "other threads"


class NativeMemory:
    """The blocks of all chunks, which are added by time.

    interval  bytes between samples, as the settings in the file say; 0: all
    """

    def __init__(self, stacks: Stacks, start: float, duration: float) -> None:
        self._stacks, self._start, self._duration = stacks, start, duration
        self._blocks: BlocksOverTime | None = None
        self._waiting: list[NDArray[np.void]] = []
        self._events = 0
        self._threads = {OTHER_THREADS: 0}
        self.interval = 0

    @property
    def blocks(self) -> BlocksOverTime:
        if self._blocks is None:
            self._blocks = BlocksOverTime(self.interval, self._duration)
        return self._blocks

    @property
    def threads(self) -> list[str]:
        return list(self._threads)

    def take(self, chunk: Chunk, types: Types, of: Events) -> None:
        """The events in a window."""
        for name, value in few_events.rows(chunk, types, of, "jdk.ActiveSetting", ("name", "value")):
            if name == "nativemem" and str(value).isascii() and str(value).isdigit():
                # A profiler that is started anew with another interval: the sampling of most is unknown.
                self.interval = max(self.interval, min(int(value), 1 << 40))
        if self.interval == 1:
            self.interval = 0
        for name, fields in _FIELDS.items():
            number = types.number(name)
            chosen = of.types == number
            if number >= 0 and chosen.any():
                found = event_columns.columns(chunk, of, chosen, types.atoms(number), fields)
                self._wait(chunk, of, found)

    def _wait(self, chunk: Chunk, of: Events, found: event_columns.Columns) -> None:
        rows = np.zeros(len(found["address"]), EVENT)
        ticks = found["startTime"].astype(np.int64) - np.int64(chunk.start_ticks)
        seconds = ticks / float(chunk.ticks)
        # An event of a damaged file would be years away.
        rows["time"] = np.clip(seconds, 0.0, max(chunk.duration, 0.0)) + (chunk.start - self._start)
        rows["address"] = found["address"]
        if "size" in found:
            most = np.uint64((1 << 32) - 1)
            keys, threads, sizes = found["stackTrace"], found["eventThread"], found["size"]
            if (keys > most).any() or (threads > most).any() or (sizes > _MOST_BYTES).any():
                raise event_places.fault(chunk, of.base, "an allocation larger than any address space")
            rows["stack"], rows["thread"], rows["size"] = keys, threads, np.maximum(sizes, np.uint64(1))
        self._waiting.append(rows)
        self._events += len(rows)
        if self._events * _ROW > allowance.limit():
            raise UserError(
                f"{chunk.path} has more than {self._events:,} events in a chunk: more memory than is allowed",
                f"if it is yours, allow more: {allowance.VARIABLE}=4GiB",
            )

    def keys(self) -> NDArray[np.uint64]:
        """The stacks of the chunk's allocations, ascending, as its constants name them."""
        keys = [np.unique(rows["stack"][rows["size"] > 0]) for rows in self._waiting]
        return np.unique(np.concatenate([np.zeros(0, np.uint32), *keys])).astype(np.uint64)

    def end(self, keys: NDArray[np.uint64], constants: Constants) -> None:
        """Of a chunk: its events are counted in the order of time; `keys` as above."""
        every = np.empty(self._events, EVENT)
        at = 0
        while self._waiting:  # each part is given back once it is copied
            part = self._waiting.pop()
            every[at : at + len(part)] = part
            at += len(part)
        self._events = 0
        numbers = frames.numbers(constants, keys, self._stacks)
        born = every["size"] > 0
        places = np.searchsorted(keys, every["stack"][born])
        every["stack"][born] = numbers[places]
        raw, back = np.unique(every["thread"], return_inverse=True)
        every["thread"] = self._thread_numbers(raw, constants)[back.reshape(-1)]
        order = np.argsort(every["time"], kind="stable")
        stacks = len(self._stacks.stacks) + 1
        for low in range(0, len(order), _SLICE):
            self.blocks.add(every[order[low : low + _SLICE]], stacks)

    def _thread_numbers(self, raw: NDArray[np.uint32], constants: Constants) -> NDArray[np.uint32]:
        numbers = np.zeros(len(raw), np.uint32)
        for at, key in enumerate(raw.tolist()):
            row = constants.tables[_THREADS].get(key)
            if row is None:
                continue
            name = constants.text(row[1]) or constants.text(row[0])
            if name and (name in self._threads or len(self._threads) < _MOST_THREADS):
                numbers[at] = self._threads.setdefault(name, len(self._threads))
        return numbers
