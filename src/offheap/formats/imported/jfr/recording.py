"""JFR recordings as profiles: async-profiler's native blocks and live Java objects, or the JDK's NMT.

The source of the format is the JDK's jdk.jfr.internal.consumer and async-profiler's flightRecorder.cpp; the
modules of this room have its parts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offheap.errors import UserError
from offheap.formats.imported import source
from offheap.formats.imported.jfr import java_objects, memory_tracking, native_memory
from offheap.formats.imported.jfr.file import chunks as jfr_chunks
from offheap.formats.imported.jfr.file import constants, event_places, few_events, metadata
from offheap.formats.imported.jfr.file.chunks import Chunk
from offheap.formats.imported.jfr.file.constants import whole
from offheap.formats.imported.jfr.file.cursor import Cursor
from offheap.formats.imported.jfr.file.event_places import Events
from offheap.formats.imported.jfr.file.metadata import Types
from offheap.formats.imported.jfr.java_objects import JavaObjects
from offheap.formats.imported.jfr.memory_tracking import MemoryTracking
from offheap.formats.imported.jfr.native_memory import NativeMemoryEvents
from offheap.formats.imported.jfr.thread_names import ThreadNames
from offheap.formats.imported.profile import Profile
from offheap.formats.imported.stack_tables import StackTable, profile
from offheap.quantities import format_size
from offheap.recording.model import LIVE, PROCESS, SERIES, JavaHeap

FORMAT = "jfr"

LACKS = (
    "async-profiler records malloc, calloc, realloc, posix_memalign, aligned_alloc and free of the libraries "
    "that it patched: no mmap, no other function, and nothing from before it was started",
    "async-profiler drops events when its buffers are busy, and does not count them: a block whose free was "
    "dropped looks live",
)
SAMPLED = (
    "async-profiler sampled an allocation each {interval}; a sample of s bytes stands for {interval}/s "
    "blocks where that is more than one (its own reports do not scale), if sizes come in no fixed order"
)
NO_FREES = (
    "The recording has no frees (nativemem with nofree): freed blocks count as live, so that nothing in it "
    "is proof of a leak"
)
NO_TRACKING = (
    "The file has Native Memory Tracking's categories as well, which are not imported with allocations"
)
FOLLOWED = (
    "Java heap: async-profiler follows {most:,} objects at most, and adds none while its table is full: what "
    "is live is a part of the heap, unscaled for the objects that found no place"
)
NO_COLLECTION = (
    "Java heap: nothing in the file says that a collection ran, so that no object is known to be live"
)
_ALLOCATED_ONLY = "they say what was allocated, not what is kept (asprof -e alloc --live records both)"
NO_NATIVE = "The file has no events of native memory, which asprof -e nativemem records"
_OTHER_OBJECTS = (*java_objects.ALLOCATIONS, "jdk.ObjectAllocationSample", "jdk.OldObjectSample")
_RSS = (("jdk.ResidentSetSize", ("startTime", "size")), ("profiler.ProcessSample", ("startTime", "vmRss")))
_MOST_RSS = 1 << 56
# "17.0.9+9" of async-profiler, "OpenJDK 64-Bit Server VM (17.0.9+9) for ..." of the JDK.
_VERSION = re.compile(r"(?:^|\()(\d[\w.+-]*)")


def recognises(head: bytes) -> bool:
    """Whether a file begins with the header of a chunk."""
    return head.startswith(jfr_chunks.MAGIC)


def read(files: Sequence[Path]) -> Profile:
    """All chunks of all files by time: parts of one recording, or recordings of one process."""
    with ExitStack() as stack:
        opened = [stack.enter_context(source.RandomAccess(path)) for path in files]
        chunks, doubts = jfr_chunks.chunks(opened)
        reader = _Reader(chunks, StackTable(files[0]))
        for chunk in chunks:
            reader.add(chunk)
        return reader.profile(doubts)


class _Reader:
    def __init__(self, chunks: Sequence[Chunk], stacks: StackTable) -> None:
        self._path = chunks[0].path
        self._start = chunks[0].start
        self._stacks = stacks
        end = max(chunk.end for chunk in chunks)
        self._threads = ThreadNames()
        self._duration = end - self._start
        self._native = NativeMemoryEvents(stacks, self._start, end - self._start, self._threads)
        self._objects = JavaObjects(stacks, self._start, self._threads)
        self._tracking = MemoryTracking(stacks, self._start, end - self._start)
        self._seen: Counter[str] = Counter()
        self._rss: list[tuple[float, int]] = []
        self._pids: set[int] = set()
        self._program = self._version = ""

    def add(self, chunk: Chunk) -> None:
        data = chunk.event(chunk.metadata, "metadata")
        types = metadata.parse(Cursor(chunk.path, data, chunk.at + chunk.metadata))
        for events in event_places.events(chunk, types.short_numbers()):
            self._take(chunk, types, events)
        keys, of_objects = self._native.keys(), self._objects.keys()
        tables = {**native_memory.TABLES, **memory_tracking.TABLES}
        found = constants.read(chunk, types, tables, np.union1d(keys, of_objects))
        self._native.end(chunk, keys, found)
        self._objects.end(chunk, found)
        self._tracking.end(chunk, found)

    def _take(self, chunk: Chunk, types: Types, events: Events) -> None:
        numbers, counts = np.unique(events.types, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            known = types.by_number.get(number)
            if known:
                self._seen[known.name] += count
        for pid, words in few_events.rows(
            chunk, types, events, "jdk.JVMInformation", ("pid", "javaArguments")
        ):
            self._pids.add(whole(pid))
            self._program = str(words).partition(" ")[0]
        for name, fields in _RSS:
            for ticks, size in few_events.rows(chunk, types, events, name, fields):
                time = chunk.start - self._start + (whole(ticks) - chunk.start_ticks) / chunk.ticks
                self._rss.append((time, min(whole(size), _MOST_RSS)))
        for (version,) in few_events.rows(chunk, types, events, "jdk.JVMInformation", ("jvmVersion",)):
            found = _VERSION.search(str(version))
            self._version = found[1] if found else self._version
        self._native.take(chunk, types, events)
        self._objects.take(chunk, types, events)
        self._tracking.take(chunk, types, events)

    def profile(self, doubts: Sequence[str]) -> Profile:
        if len(self._pids) > 1:
            raise UserError(
                f"{self._path} and what follows are of several processes: {sorted(self._pids)[:5]}",
                "import the files of one process at a time",
            )
        if self._seen[native_memory.MALLOC] or self._seen[java_objects.LIVE_OBJECT]:
            return self._of_blocks(doubts)
        moments = self._tracking.moments()
        if not moments:
            names = ", ".join(name for name, _ in self._seen.most_common(5)) or "none"
            raise UserError(
                f"{self._path} has no events of native memory or live Java objects; it has {names}",
                "record with async-profiler: asprof start -e nativemem -f FILE.jfr PID, or -e alloc --live",
            )
        rss = self._rss_at(np.array([moment.time for moment in moments])).tolist()
        for moment, size in zip(moments, rss, strict=True):
            moment.rss_bytes = size
        return profile(
            FORMAT,
            self._stacks,
            moments,
            lacks=[*memory_tracking.LACKS, *self._not_imported(), *doubts],
            start=self._start,
            pid=next(iter(self._pids), 0),
            program=self._program,
        )

    def _of_blocks(self, doubts: Sequence[str]) -> Profile:
        """The profile of native blocks, of Java objects, or of both."""
        native = bool(self._seen[native_memory.MALLOC])
        live, series, process = self._native.blocks.finish() if native else self._nothing()
        heap: JavaHeap | None = None
        if self._seen[java_objects.LIVE_OBJECT]:
            objects, totals, heap = self._objects.tables(float(process["time"][-1]))
            live, series = np.concatenate((live, objects)), np.concatenate((series, totals))
        process["rss_bytes"] = self._rss_at(process["time"])
        frees = bool(self._seen[native_memory.FREE])
        return Profile(
            FORMAT,
            list(self._stacks.frames),
            [places for places, _ in self._stacks.stacks],
            np.array([kind for _, kind in self._stacks.stacks], np.uint8),
            live,
            series,
            process,
            interval_bytes=self._native.interval if native else 0,
            lacks=(*self._lacks(native, frees, heap), *doubts),
            start=self._start,
            births=frees or not native,
            pid=next(iter(self._pids), 0),
            program=self._program,
            java_heap=heap,
            java_version=self._version,
            threads=self._threads.names,
        )

    def _nothing(self) -> tuple[NDArray[np.void], NDArray[np.void], NDArray[np.void]]:
        process = np.zeros(1, PROCESS)
        process["time"] = self._duration
        return np.zeros(0, LIVE), np.zeros(0, SERIES), process

    def _lacks(self, native: bool, frees: bool, heap: JavaHeap | None) -> list[str]:
        lacks = [*LACKS, *self._doubts()] if native else [NO_NATIVE]
        lacks += self._not_imported()
        interval = self._native.interval
        if native and interval:
            lacks.append(SAMPLED.format(interval=format_size(interval)))
        if native and not frees:
            lacks.append(NO_FREES)
        if heap:
            lacks.append(FOLLOWED.format(most=heap.most))
            lacks += [] if heap.collections else [NO_COLLECTION]
        return lacks

    def _doubts(self) -> list[str]:
        counted = self._native.blocks.counted
        found = []
        if counted.replaced:
            found.append(
                f"{counted.replaced:,} blocks came at addresses that were live: their frees were dropped; so "
                "others that look live are not"
            )
        if counted.unknown and not self._native.interval:
            found.append(
                f"{counted.unknown:,} of {counted.frees:,} frees are of blocks that were allocated before "
                "the start, or whose allocation was dropped"
            )
        return found

    def _not_imported(self) -> list[str]:
        """What else the file says of memory."""
        # With live objects the samples of allocations are imported as well.
        names = () if self._seen[java_objects.LIVE_OBJECT] else _OTHER_OBJECTS
        java = sum(self._seen[name] for name in names)
        tracked = self._seen[memory_tracking.USAGE] if self._seen[native_memory.MALLOC] else 0
        return [
            *([f"{java:,} samples of Java objects are not imported: {_ALLOCATED_ONLY}"] if java else []),
            *([NO_TRACKING] if tracked else []),
        ]

    def _rss_at(self, times: NDArray[np.float64]) -> NDArray[np.uint64]:
        """The last reading before each time; 0 before the first."""
        self._rss.sort()
        sizes = np.array([0, *(size for _, size in self._rss)], np.uint64)
        known = np.array([time for time, _ in self._rss])
        return sizes[np.searchsorted(known, times, "right")]
