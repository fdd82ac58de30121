"""Which classes grow in the Java heap between two histograms, and whether a heap dump is the next step."""

from __future__ import annotations

from dataclasses import dataclass

from offheap.jvm.listener.histogram import ClassCount, Histogram
from offheap.jvm.texts.nmt import Report
from offheap.quantities import format_size

_BUFFER = "java.nio.DirectByteBuffer"
_OWNING = "java.nio.DirectByteBuffer$Deallocator"
# Memory of a zlib object outside the Java heap until its end(), which no histogram shows: four tables,
# or a state and, after the first inflation, a window (block_sizes.py).
_ZLIB = {"java.util.zip.Deflater": 4 * 65_536, "java.util.zip.Inflater": 7_152 + 32_768}
# The jars that a JVM reads its classes from hold less than this.
_LEAST_HELD = 16 << 20
# The two histograms and any logger leave less than this behind.
_LEAST_GROWTH, _LEAST_SHARE = 1 << 20, 0.01


@dataclass(frozen=True, slots=True)
class GrownClass:
    name: str
    instances: int
    bytes: int
    more_instances: int
    more_bytes: int


@dataclass(frozen=True, slots=True)
class DirectBuffers:
    """Objects of java.nio.DirectByteBuffer, and those that own memory; others are views or mapped files.

    blocks, bytes  Native Memory Tracking's category Other, Unsafe and FFM included; None without tracking
    """

    buffers: int
    owning: int
    blocks: int | None
    bytes: int | None


@dataclass(frozen=True, slots=True)
class NativeHolder:
    """Objects of one class that hold at most `bytes` of native memory, in no heap figure or counter."""

    name: str
    instances: int
    bytes: int
    more_instances: int
    more_bytes: int


@dataclass(frozen=True, slots=True)
class HeapGrowth:
    """Growth between two full collections, `seconds` apart; bytes of live objects.

    classes  classes that grew, by bytes
    holders  classes that hold native memory, by bytes
    pause    seconds of the JVM for both histograms
    dump     whether a heap dump tool is the next step, by `why`
    """

    seconds: float
    live: int
    growth: int
    classes: tuple[GrownClass, ...]
    direct: DirectBuffers
    holders: tuple[NativeHolder, ...]
    pause: float
    dump: bool
    why: str


def heap_growth(first: Histogram, last: Histogram, report: Report | None) -> HeapGrowth:
    """`report` is Native Memory Tracking's at the time of `last`, or None."""
    none = ClassCount(0, 0)
    live = sum(one.bytes for one in last.classes.values())
    growth = live - sum(one.bytes for one in first.classes.values())
    grown = [
        GrownClass(name, now.instances, now.bytes, now.instances - old.instances, now.bytes - old.bytes)
        for name, now in last.classes.items()
        if now.bytes > (old := first.classes.get(name, none)).bytes
    ]
    seconds = last.taken - first.taken
    holders = _holders(first, last)
    grows = growth >= max(_LEAST_GROWTH, live * _LEAST_SHARE)
    holds = sum(one.bytes for one in holders) >= _LEAST_HELD
    holds_more = sum(one.more_bytes for one in holders) >= _LEAST_GROWTH
    if grows:
        why = "live objects grow from one full collection to the next: a heap dump tool names who holds them"
    elif holds or holds_more:
        why = f"live objects hold native memory ({_listed(holders)}): a heap dump tool names who holds them"
    else:
        why = "live objects did not grow beyond 1 MiB and 1 %: a heap dump would not tell more"
    other = report.categories.get("Other") if report else None
    direct = DirectBuffers(
        last.classes.get(_BUFFER, none).instances,
        last.classes.get(_OWNING, none).instances,
        other.malloc_count if other else None,
        other.malloc if other else None,
    )
    grown.sort(key=lambda one: (-one.more_bytes, one.name))
    dump = grows or holds or holds_more
    pause = first.seconds + last.seconds
    return HeapGrowth(seconds, live, growth, tuple(grown), direct, holders, pause, dump, why)


def _holders(first: Histogram, last: Histogram) -> tuple[NativeHolder, ...]:
    none = ClassCount(0, 0)
    found = []
    for name, each in _ZLIB.items():
        now, old = (histogram.classes.get(name, none).instances for histogram in (last, first))
        if now:
            found.append(NativeHolder(name, now, now * each, now - old, (now - old) * each))
    return tuple(sorted(found, key=lambda one: (-one.bytes, one.name)))


def _listed(holders: tuple[NativeHolder, ...]) -> str:
    return ", ".join(
        f"{one.instances:,} {one.name.rpartition('.')[2]}s up to {format_size(one.bytes)}" for one in holders
    )
