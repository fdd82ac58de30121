"""Times of a JVM's garbage collections, from its performance data file.

A poll reads three numbers a collector in place: it takes some ten microseconds, so it can run many times a
second, and it asks the JVM nothing.  HotSpot also writes when its last collection began and ended, so a
late poll costs no precision.

young       the young generation alone
concurrent  the whole heap, while the program runs: a cycle of ZGC or Shenandoah, each pause of one of G1.
            A block whose object dies after the begin of the cycle waits for the next one.
full        the whole heap, while the program is stopped; a cycle of a generational collector over all of it

The same file tells the heap in use at the end of a collection: survivors and the old generation, or all of
a heap without generations.  A full collection that fills the old generation leaves objects in eden: then eden
counts, with what the program has allocated there since.  The heap is read at the first poll that finds all
collectors at rest; ZGC and Shenandoah, which rest between the parts of a cycle, name the cause of a
collection for as long as it runs.
"""

from __future__ import annotations

import contextlib
import re
import struct
import time
from collections import defaultdict
from dataclasses import dataclass

from offheap.jvm.counters import gauges, hsperfdata
from offheap.jvm.counters.collectors import family, kind_of
from offheap.jvm.counters.cycles import Cycles
from offheap.proc import maps, status

_LONG_BYTES = 8
_MOST_BYTES = 1 << 20  # of one poll: HotSpot's file has 32 KiB, a hostile one up to 16 MiB
_RETRY_SECONDS = 1.0  # a JVM that starts up has not published its collectors yet
_TRIES = 20  # after which the program counts as one that publishes none
_MOST_ROWS = 8  # of one kind, kept between two calls of `take`: a JVM may collect a hundred times a second
_MOST_HEAPS = 64  # readings of the heap, kept likewise
_FULL = 0.9  # share of the old generation: with more in use, large objects may find no room there
_CLOCK_SECONDS = 0.1  # by which the JVM's clock and this process's may differ
_COLLECTOR = re.compile(r"sun\.gc\.collector\.(\d+)\.invocations", re.ASCII)
_CAUSES = ("sun.gc.cause", "sun.gc.lastCause")
_CAUSE_BYTES = 40  # at most
_NO_CAUSE = "No GC"

# (kind, begin and end by time.monotonic(), number of this kind since the row before).
Row = tuple[str, float, float, int]


@dataclass(slots=True)
class _Collector:
    kind: str
    count: int
    count_at: int  # offsets in the file
    entry_at: int
    exit_at: int
    cycles: Cycles | None  # where the JVM counts pauses
    unseen: float | None = None  # the last poll before a collection that has not ended

    @property
    def places(self) -> tuple[int, int, int]:
        return self.count_at, self.entry_at, self.exit_at


class CollectionLog:
    """Poll often; `take` returns the collections since its last call.  `known_since`: None while unknown."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._source: hsperfdata.PerfDataSource | None = None
        self._collectors: list[_Collector] = []
        self._order = "<"
        self._frequency = 0
        self._vm_began = 0.0  # seconds since the epoch
        self._tries = 0
        self._due = 0.0
        self._polled = time.monotonic()
        self._rows: list[Row] = []
        self._spaces: list[int] = []  # offsets in the file
        self._eden: list[int] = []  # likewise, where objects may be left
        self._old: list[tuple[int, int]] = []  # likewise, in use and capacity
        self._causes: list[int] = []  # likewise: of the present and of the last one; [] without cycles
        self._first, self._size = 0, 0  # of the bytes that hold all counters
        self._collected = False  # since the heap was read
        self._full = False  # likewise: over the whole heap while the program stood still
        self._heaps: list[tuple[float, int]] = []
        self.known_since: float | None = None
        self.collector = ""  # as of collectors.family

    def poll(self) -> None:
        now = time.monotonic()
        if self._source is None:
            if self._tries >= _TRIES or now < self._due:
                return
            self._tries += 1
            self._due = now + _RETRY_SECONDS
            with contextlib.suppress(OSError, ValueError):
                self._open()
        else:
            try:
                self._read(now)
            except (OSError, struct.error):
                self.close()
                self._tries = _TRIES
        self._polled = now

    def take(self) -> list[Row]:
        """The collections seen since the last call; of very many the newest of each kind."""
        taken: list[Row] = []
        places: defaultdict[str, list[int]] = defaultdict(list)
        for kind, began, ended, count in reversed(self._rows):
            if len(places[kind]) < _MOST_ROWS:
                places[kind].append(len(taken))
                taken.append((kind, began, ended, count))
            else:
                oldest = places[kind][-1]
                _, began, ended, more = taken[oldest]
                taken[oldest] = (kind, began, ended, more + count)
        self._rows = []
        return taken[::-1]

    def take_heaps(self) -> list[tuple[float, int]]:
        """When the heap was read after collections, and its bytes in use, since the last call."""
        taken, self._heaps = self._heaps, []
        return taken

    def close(self) -> None:
        if self._source:
            self._source.close()
            self._source = None

    def _open(self) -> None:
        namespace_pid, mappings = status.read(self._pid).namespace_pid, maps.read(self._pid)
        source = hsperfdata.open_source(self._pid, namespace_pid, mappings)
        if source is None:
            return
        try:
            performance = hsperfdata.parse(source.read())
        except ValueError:
            source.close()
            raise
        collectors = _collectors(performance)
        if not collectors:
            source.close()
            return
        self._source = source
        frequency = performance.values.get("sun.os.hrt.frequency")
        began = performance.values.get("sun.rt.createVmBeginTime")
        self._collectors, self._order = [one for one, _ in collectors], performance.order
        self.collector = family(name for _, name in collectors)
        self._spaces = [performance.places[name] for name in gauges.spaces(performance)]
        eden, old, capacity = gauges.left_in_eden(performance)
        self._eden = [performance.places[name] for name in eden]
        self._old = [
            (performance.places[used], performance.places[most])
            for used, most in zip(old, capacity, strict=True)
        ]
        cycles = any(each.cycles for each in self._collectors)
        self._causes = [performance.places[name] for name in _CAUSES if cycles and name in performance.places]
        places = [
            *self._spaces,
            *self._eden,
            *(place for pair in self._old for place in pair),
            *self._causes,
            *(place for each in self._collectors for place in each.places),
        ]
        self._first, self._size = min(places), max(places) + max(_LONG_BYTES, _CAUSE_BYTES) - min(places)
        if self._size > _MOST_BYTES:
            self.close()
            raise ValueError("counters too far apart")
        self._frequency = frequency if isinstance(frequency, int) else 0
        self._vm_began = began / 1000 if isinstance(began, int) else 0.0
        self.known_since = time.monotonic()

    def _read(self, now: float) -> None:
        before = self._copy()
        counts = self._counts(before)
        if not self._collected and counts == [each.count for each in self._collectors]:
            return
        # HotSpot counts a collection before it notes its times.
        counters = self._copy()
        at_rest = counts == self._counts(counters) and self._at_rest(before) and self._at_rest(counters)
        for collector, count in zip(self._collectors, counts, strict=True):
            if count != collector.count:
                self._add(collector, count, counters, now)
            self._add_cycle(collector, at_rest, counters)
        if at_rest and self._collected:
            self._read_heap(now)

    def _counts(self, counters: bytes) -> list[int]:
        return [self._long(counters, each.count_at) for each in self._collectors]

    def _add_cycle(self, collector: _Collector, at_rest: bool, counters: bytes) -> None:
        cycles = collector.cycles
        found = cycles.take(at_rest=at_rest) if cycles else None
        if cycles is None or found is None:
            return
        # The last cause is that of a cycle that has ended.
        cause = self._text(counters, self._causes[-1]) if at_rest and self._causes else ""
        self._rows.append(("full" if cycles.of_all(cause) else collector.kind, *found, 1))

    def _at_rest(self, counters: bytes) -> bool:
        if self._causes and self._text(counters, self._causes[0]) != _NO_CAUSE:
            return False
        # HotSpot writes the spaces before it notes the end of a collection.
        return all(
            self._long(counters, each.exit_at) >= self._long(counters, each.entry_at)
            for each in self._collectors
        )

    def _add(self, collector: _Collector, count: int, counters: bytes, now: float) -> None:
        entry, end = self._long(counters, collector.entry_at), self._long(counters, collector.exit_at)
        earliest = self._polled if collector.unseen is None else collector.unseen
        if end < entry and collector.cycles is None:
            # HotSpot counts a collection as it begins: this one is a row once it has ended.
            before = count - 1 - collector.count
            if before > 0:
                # Where collections follow each other at once, hardly a poll finds none that runs.
                exit_ = self._when(end, now, time.time())
                self._rows.append((collector.kind, earliest, now if exit_ is None else exit_, before))
                collector.count, earliest = count - 1, self._polled
            collector.unseen = earliest
            return
        wall = time.time()
        began, ended = self._when(entry, now, wall), self._when(end, now, wall)
        if began is None or began < earliest - _CLOCK_SECONDS:
            # The earliest possible begin.  The JVM's clock is the wall clock, which may have jumped.
            began, ended = earliest, now
        elif ended is None or ended < began:
            ended = now
        more = max(count - collector.count, 1)
        if collector.cycles is None:
            self._rows.append((collector.kind, began, ended, more))
        else:
            collector.cycles.add(began if more == 1 else min(began, self._polled), ended, more)
        collector.count, collector.unseen = count, None
        self._collected = True
        self._full |= collector.kind == "full"

    def _read_heap(self, now: float) -> None:
        counters = self._copy()
        used = sum(self._long(counters, place) for place in self._spaces)
        if self._full and any(
            self._long(counters, old) >= _FULL * self._long(counters, capacity) for old, capacity in self._old
        ):
            used += sum(self._long(counters, place) for place in self._eden)
        self._collected = self._full = False
        if used > 0:
            # The newest, where very many came between two readings.
            self._heaps = [*self._heaps[1 - _MOST_HEAPS :], (now, used)]

    def _when(self, ticks: int, now: float, wall: float) -> float | None:
        """Converts to time.monotonic(), which shows `now` when the wall clock shows `wall`.

        None if the JVM's clock does not fit: somebody may have set the wall clock.
        """
        if self._frequency <= 0 or not self._vm_began or ticks <= 0:
            return None
        ago = wall - self._vm_began - ticks / self._frequency
        return now - max(ago, 0.0) if ago >= -_CLOCK_SECONDS else None

    def _copy(self) -> bytes:
        """All counters that this class reads, in one call."""
        assert self._source
        return self._source.read(self._first, self._size)

    def _text(self, counters: bytes, place: int) -> str:
        return counters[place - self._first :][:_CAUSE_BYTES].split(b"\0")[0].decode("ascii", "replace")

    def _long(self, counters: bytes, place: int) -> int:
        value: int = struct.unpack_from(self._order + "q", counters, place - self._first)[0]
        return value


def _collectors(performance: hsperfdata.PerfData) -> list[tuple[_Collector, str]]:
    """With their names."""
    found = []
    for name, value in performance.values.items():
        match = _COLLECTOR.fullmatch(name)
        if not match or not isinstance(value, int) or name not in performance.places:
            continue
        prefix = name.removesuffix("invocations")
        places = [performance.places.get(f"{prefix}{key}") for key in ("lastEntryTime", "lastExitTime")]
        entry, end = (place if place is not None else performance.places[name] for place in places)
        called = performance.text(f"{prefix}name")
        kind = kind_of(int(match[1]), called, performance.vm_arguments)
        cycles = Cycles.of(called, performance.vm_arguments)
        found.append((_Collector(kind, value, performance.places[name], entry, end, cycles), called))
    return found
