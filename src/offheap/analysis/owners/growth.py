"""Finds the owners of RSS that grow, and those to blame: docs/where.md has the mathematics in words.

Each candidate is judged on its most informative series, which is not always RSS: the Java heap's saw-tooth
shows nothing before a collection of the old generation, metaspace nothing before the JVM could unload
classes, native memory little before a collection could free the part that Java objects hold, and a thread
costs little RSS but is counted exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from offheap.analysis.owners import heap_collections, warm_up
from offheap.analysis.owners.heap_collections import after_collections
from offheap.analysis.owners.results import Grown, Kind, OwnerGrowth
from offheap.analysis.owners.thread_growth import more_threads
from offheap.analysis.statistics.trend import FEWEST, JUDGED, STRAIGHT, Floats, Trend, trend
from offheap.recording.model import OwnersOverTime

if TYPE_CHECKING:
    # For types only: to read loaders needs an attach, which an analysis of a recording cannot use.
    from offheap.jvm.listener.class_loaders import Loaders

MAPPED, ALLOCATOR = "mapped: ", "allocator: "
FILE_SPACE, LIBRARY_SPACE = "mapped-file-space", "library-space"
DIRECT_BYTES, DIRECT_BUFFERS = "direct-buffer-bytes", "direct-buffers"

# The owners of each verdict, and the least growth of the last third as a share of the middle third's.
# HotSpot's own memory grows as the logarithm of time for hours: it has to grow in a straight line.
# The JVM's own malloc is a separate candidate: its compilers' arenas would drown a library's blocks.
# Free memory in malloc and its blocks turn into each other, and with too many blocks to walk both are
# estimates: only their sum is exact.
_HALF_AS_FAST = 0.5
# Files that the JVM maps itself, and that a program may map, too: a plugin's library, an archive.
_LIBRARIES = ("shared-libraries", "jars")
_CANDIDATES: tuple[tuple[Kind, tuple[str, ...], float], ...] = (
    ("java-heap", ("java-heap",), _HALF_AS_FAST),
    ("direct-buffers", ("direct-buffers",), _HALF_AS_FAST),
    ("metaspace", ("metaspace", "class-space"), STRAIGHT),
    ("code-cache", ("code-cache",), STRAIGHT),
    ("threads", ("thread-stacks",), _HALF_AS_FAST),
    ("native-malloc", ("malloc",), _HALF_AS_FAST),
    ("native-malloc", ("jvm-malloc",), STRAIGHT),
    ("allocator-retention", ("malloc-free",), _HALF_AS_FAST),
    ("native-mmap", ("anonymous", "unattributed"), _HALF_AS_FAST),
    ("mapped-files", ("mapped-files",), _HALF_AS_FAST),
    ("mapped-files", _LIBRARIES, STRAIGHT),
)

# Caches and pools of a young process fill slowly: its last third must grow by more.
_YOUNG_SHARE = STRAIGHT
# Readings in the last two thirds that show a rise, though not enough of them for a verdict.
FEW = 3
# Bytes.  Pages of malloc, without live blocks behind them, rose by 3.1 and 3.3 MiB in the two of 31 healthy
# programs where they rose steadily for 80 s (docs/evaluation.md).
FRAGMENTS = 8.0 * (1 << 20)
# Java objects may hold the memory of these owners, and collections free it.
_HELD_BY_OBJECTS: tuple[tuple[str, ...], ...] = (
    ("direct-buffers",),
    ("malloc",),
    ("anonymous", "unattributed"),
    ("mapped-files",),
    _LIBRARIES,  # a class loader's libraries
)

_MALLOC_PAGES = ("malloc", "jvm-malloc", "direct-buffers", "malloc-free")

# Shares of RSS: growth below the first is no problem yet; an interval that reaches the second leaves the
# question open.
_MATERIAL, _WIDE = 0.005, 0.05
# Bytes, 0.5 % of an RSS of 1.6 GiB and twice what malloc's pages gain in a healthy program
# (docs/evaluation.md): a Java heap of 64 GiB does not make 300 MiB of native memory immaterial.
_MOST_MATERIAL = 8.0 * (1 << 20)
# Free memory between blocks varies: ending threads leave some, and others reuse it.
_MATERIAL_KEPT = 0.02
# Groups of threads, files or class loaders: the sentence names the first; the others are for tools.
_MOST_NAMED = 5
# Address space of new mappings over the gain of mapped files in memory: what was mapped before brings less.
_NEW_FILES = 0.5
_MORE_CLASSES = 1.01  # times as many classes: code that a program reaches late loads fewer

State = Literal["grows", "slows", "open", "unjudged", "uncollected", "warming", "filling", "reading", "flat"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """The state of one candidate; `bytes` as of the last reading.

    open         its interval includes both no growth and much growth
    unjudged     its memory grows, but no collection has shown yet which part is garbage
    uncollected  it grows, but no collection ran that could have freed the part that Java objects hold, or the
                 collections freed much
    warming      it grows as in every JVM of that age
    filling      it grows like a cache or a pool that fills in a young process
    reading      of mapped files: no more are mapped, and their pages are read for the first time
    trend        of the series that was judged: bytes, for "threads" threads
    collections  number during the judged time, if collections matter
    libraries    of "mapped-files": whether it is about libraries and jars
    """

    kind: Kind
    state: State
    trend: Trend
    bytes: float
    rss: Trend  # of the candidate's RSS
    grown: tuple[Grown, ...] = ()
    collections: int | None = None
    libraries: bool = False


def growth(over: OwnersOverTime) -> tuple[OwnerGrowth, tuple[OwnerGrowth, ...]]:
    """RSS as a whole, and every owner, ordered by bytes at the last reading, largest first."""
    owners = [_growth(name, over.times, over.bytes[:, at]) for at, name in enumerate(over.names)]
    return _growth("rss", over.times, over.rss), tuple(sorted(owners, key=lambda one: -one.bytes))


def standings(
    over: OwnersOverTime, loaders: Sequence[Grown] = (), fewest: int = FEWEST
) -> list[Candidate] | None:
    """None with too few readings to judge any candidate.

    loaders  from `loaders_grown`
    fewest   readings in the last two thirds
    """
    whole = trend(over.times, over.rss, fewest)
    if whole is None:
        return None
    young = warm_up.is_young(over)
    found = []
    for kind, owners, share in _CANDIDATES:
        share = max(share, _YOUNG_SHARE) if young and owners in _HELD_BY_OBJECTS else share
        held = _held(over, owners)
        used = over.gauges.get("metaspace-used") if kind == "metaspace" else None
        if used is not None and _unloading(over):
            # `used` is as of the last collection, and on JDK 11 known even if the second node is not found.
            held = used
        one = trend(over.times, held, fewest)
        if one is None or not np.nan_to_num(held).any():
            continue
        state = _state(kind, one, share, whole.level)
        libraries = owners == _LIBRARIES
        last = float(held[-1])
        if kind == "allocator-retention" and state == "grows" and not _pages_grow(over):
            state = "flat"  # blocks were freed, and malloc took no memory from the system
        if kind == "java-heap":
            found.append(_heap(over, one, state, share, whole.level, last))
        elif kind == "threads":
            found.append(_threads(over, one, state, share, last))
        elif state == "grows" and (
            (kind == "metaspace" and not _unloading(over))
            or (kind == "native-mmap" and _may_be_metaspace(over))
        ):
            found.append(Candidate(kind, "unjudged", one, last, one))
        elif state == "grows" and libraries and young and not _more_mapped(over, one, LIBRARY_SPACE):
            found.append(Candidate(kind, "warming", one, last, one, libraries=True))
        elif state == "grows" and warm_up.warms(over, kind, owners, one.gained.estimate, loaders):
            found.append(Candidate(kind, "warming", one, last, one))
        elif owners == ("mapped-files",) and state == "grows" and not _more_mapped(over, one, FILE_SPACE):
            found.append(Candidate(kind, "reading", one, last, one, _grown(over, MAPPED, "bytes")))
        elif owners in _HELD_BY_OBJECTS and state in ("grows", "open", "slows"):
            candidate = Candidate(kind, state, one, last, one, libraries=libraries)
            found.append(_held_by_objects(over, candidate, held, share, whole.level))
        else:
            found.append(Candidate(kind, state, one, last, one, libraries=libraries))
    if warm_up.may_fill(over):
        return [
            replace(one, state="filling") if one.state == "grows" and one.kind in warm_up.FILLED else one
            for one in found
        ]
    return found


def loaders_grown(before: Mapping[str, Loaders], after: Mapping[str, Loaders]) -> tuple[Grown, ...]:
    """The loader classes with more loaders than before, ordered by gained metaspace; else the loader classes
    whose loaders have more classes."""
    found: list[tuple[int, Grown]] = []
    for name, now in after.items():
        then = before.get(name)
        loaders, classes, held = (then.loaders, then.classes, then.bytes) if then else (0, 0, 0)
        gained = now.bytes - held
        if now.loaders > loaders:
            found.append((gained, Grown(name, loaders, now.loaders, "loaders")))
        elif now.classes > classes:
            found.append((gained, Grown(name, classes, now.classes, "classes")))
    found.sort(key=lambda pair: (pair[1].unit != "loaders", -pair[0]))
    return tuple(grown for _, grown in found[:_MOST_NAMED])


def _growth(name: str, times: Floats, values: Floats) -> OwnerGrowth:
    one = trend(times, values)
    first, last = (float(values[0]), float(values[-1])) if len(values) else (0.0, 0.0)
    return OwnerGrowth(name, first, last, one.rate if one else None)


def _held(over: OwnersOverTime, owners: Sequence[str]) -> Floats:
    chosen = [at for at, name in enumerate(over.names) if name in owners]
    held: Floats = over.bytes[:, chosen].sum(axis=1)
    counted = over.gauges.get(DIRECT_BYTES)
    if counted is not None and set(owners) & {"malloc", "direct-buffers"} and np.isfinite(counted).any():
        # Readings without the JDK's counters count the buffers as malloc's blocks.
        direct = over.bytes[:, over.names.index("direct-buffers")] if "direct-buffers" in over.names else None
        if direct is not None and direct.any():
            held = np.where(np.isfinite(counted) | (direct > 0), held, np.nan)
    return held


def material(kind: Kind, rss: float) -> float:
    """Bytes below which growth is no problem yet, in a process of this RSS."""
    if kind == "allocator-retention":
        return _MATERIAL_KEPT * rss
    return _MATERIAL * rss if kind == "java-heap" else min(_MATERIAL * rss, _MOST_MATERIAL)


def _state(kind: Kind, one: Trend, share: float, rss: float) -> State:
    if one.gained.estimate < material(kind, rss):
        return "flat"
    if one.middle > 0 and one.slows(share):
        return "slows"
    if one.grows:
        return "grows"
    return "open" if one.gained.high >= _WIDE * rss else "flat"


def _heap(
    over: OwnersOverTime, rss: Trend, state: State, share: float, whole: float, last: float
) -> Candidate:
    for gauge in ("old-collections", "collections"):
        after = heap_collections.trend_of_floors(over, *after_collections(over, gauge))
        if after is None:
            continue
        judged = _state("java-heap", after, share, whole)
        # The rest after young collections may be garbage in the old generation, if that generation grows.
        if gauge == "old-collections" or judged == "flat":
            return Candidate("java-heap", judged, after, last, rss)
    # Heap pages touched for the first time may hold garbage.
    if state in ("grows", "slows"):
        state = "unjudged" if rss.rate.low > 0 else "open"
    return Candidate("java-heap", state, rss, last, rss)


def _pages_grow(over: OwnersOverTime) -> bool:
    """Whether malloc's pages as a whole grow, regardless of the owners of their blocks."""
    pages = trend(over.times, _held(over, _MALLOC_PAGES))
    return pages is not None and pages.grows


def _held_by_objects(
    over: OwnersOverTime, one: Candidate, held: Floats, share: float, whole: float
) -> Candidate:
    """The candidate judged on its floors, the least values between two collections."""
    count = heap_collections.ran(over)
    files = one.kind == "mapped-files" and not one.libraries
    one = replace(one, grown=_grown(over, MAPPED, "bytes") if files else (), collections=count)
    if count is None:
        return one
    if not count:
        return replace(one, state="uncollected") if one.state == "grows" else one
    if one.state == "grows" and not heap_collections.gave_back(over, held):
        return one
    after = heap_collections.trend_of_floors(over, *heap_collections.floors(over, held))
    if after is not None:
        return replace(one, state=_state(one.kind, after, share, whole), trend=after)
    return replace(one, state="uncollected") if one.state == "grows" else one


def _threads(over: OwnersOverTime, rss: Trend, state: State, share: float, last: float) -> Candidate:
    groups = more_threads(over)
    if groups:
        one = groups[0][0]
        how: State = "slows" if one.slows(share) else "grows"
        return Candidate("threads", how, one, last, rss, tuple(grown for _, grown in groups[:_MOST_NAMED]))
    # Without more threads, stacks grow as deep calls touch them for the first time.
    return Candidate("threads", "slows" if state == "grows" else state, rss, last, rss)


def _grown(over: OwnersOverTime, prefix: str, unit: Literal["bytes"]) -> tuple[Grown, ...]:
    found = [
        Grown(name.removeprefix(prefix), *_ends(values), unit)
        for name, values in over.gauges.items()
        if name.startswith(prefix)
    ]
    found = sorted((one for one in found if one.after > one.before), key=lambda one: one.before - one.after)
    return tuple(found[:_MOST_NAMED])


def _ends(values: Floats) -> tuple[float, float]:
    known = np.nan_to_num(values)
    return float(known[0]), float(known[-1])


@dataclass(frozen=True, slots=True)
class Rise:
    """`gained` bytes in the last `seconds`, more at each of so many readings."""

    gained: float
    seconds: float
    readings: int


def nobodys_rise(over: OwnersOverTime) -> Rise | None:
    """The rise of memory without a known owner over the last two thirds; None if it is small, or ever fell.

    For readings that are too few for a verdict: libraries that map memory by their own system calls hold what
    no probe sees.
    """
    late = over.times >= over.times[0] + (1 - JUDGED) * (over.times[-1] - over.times[0])
    columns = [place for place, name in enumerate(over.names) if name in ("anonymous", "unattributed")]
    held, times = over.bytes[late][:, columns].sum(axis=1), over.times[late]
    if len(held) < FEW or bool((np.diff(held) <= 0).any()) or _may_be_metaspace(over):
        return None
    gained = float(held[-1] - held[0])
    return Rise(gained, float(times[-1] - times[0]), len(held)) if gained >= FRAGMENTS else None


def _may_be_metaspace(over: OwnersOverTime) -> bool:
    """Whether metaspace has no source, and so is unattributed, and the JVM loaded classes."""
    if "metaspace" in over.names or "classes" not in over.gauges:
        return False
    first, last = _ends(over.gauges["classes"])
    return last > first * _MORE_CLASSES


def _more_mapped(over: OwnersOverTime, files: Trend, gauge: str) -> bool:
    """Whether more files are mapped, or larger ones; also where nobody knows."""
    space = over.gauges.get(gauge)
    one = trend(over.times, space) if space is not None else None
    return one is None or one.gained.estimate >= _NEW_FILES * files.gained.estimate


def _unloading(over: OwnersOverTime) -> bool:
    """Whether a collection that could unload classes ran in the last two thirds."""
    return bool(heap_collections.ran(over, "old-collections"))
