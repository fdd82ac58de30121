"""Which owners of RSS grow, and which of them can be blamed: docs/where.md has the mathematics in words.

Each candidate is judged on the series that tells most about it.  RSS is not always that: the Java heap's
saw-tooth says nothing before a collection went over the old generation, metaspace nothing before classes
could be unloaded, and a thread costs little RSS but is counted exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from offheap.analysis.results_owners import Grown, Kind, OwnerGrowth
from offheap.analysis.trend import Floats, Trend, trend
from offheap.jvm.class_loaders import Loaders
from offheap.recording.model import OwnersOverTime

THREADS, MAPPED, ALLOCATOR = "threads: ", "mapped: ", "allocator: "

# The owners that each verdict is about, and the share of its middle third that its last third must grow.
# What HotSpot itself fills grows as the logarithm of time for hours: it has to grow in a straight line.
# The JVM's own malloc stands for itself: its compilers' arenas would drown a library's blocks.
_CANDIDATES: tuple[tuple[Kind, tuple[str, ...], float], ...] = (
    ("java-heap", ("java-heap",), 0.5),
    ("direct-buffers", ("direct-buffers",), 0.5),
    ("metaspace", ("metaspace", "class-space"), 0.6),
    ("code-cache", ("code-cache",), 0.6),
    ("threads", ("thread-stacks",), 0.5),
    ("native-malloc", ("malloc",), 0.5),
    ("native-malloc", ("jvm-malloc",), 0.6),
    ("allocator-retention", ("malloc-free",), 0.5),
    ("native-mmap", ("anonymous", "unattributed"), 0.5),
    ("mapped-files", ("mapped-files",), 0.5),
)

# Shares of RSS: growth below the first is nobody's worry yet; an interval that reaches the second leaves
# the question open.
MATERIAL, WIDE = 0.005, 0.05
# What lies free between blocks wanders: threads that end leave some, others take it again.
_MATERIAL_KEPT = 0.02
_FEWEST_COLLECTIONS = 4
_FEWEST_THREADS = 3
_MOST_NAMED = 5

State = Literal["grows", "slows", "open", "unjudged", "flat"]


@dataclass(frozen=True, slots=True)
class Standing:
    """How one candidate stands; `bytes` as of the last look.

    open      its interval holds both nothing and much
    unjudged  its memory grows, but no collection has shown yet what of it is garbage
    trend     of the series it was judged on: bytes, for "threads" threads
    """

    kind: Kind
    state: State
    trend: Trend
    bytes: float
    rss: Trend  # of its RSS
    grown: tuple[Grown, ...] = ()


def growth(over: OwnersOverTime) -> tuple[OwnerGrowth, tuple[OwnerGrowth, ...]]:
    """RSS as a whole, and every owner, the one with the most bytes at the last look first."""
    owners = [_growth(name, over.times, over.bytes[:, at]) for at, name in enumerate(over.names)]
    return _growth("rss", over.times, over.rss), tuple(sorted(owners, key=lambda one: -one.bytes))


def standings(over: OwnersOverTime) -> list[Standing] | None:
    """None where there are too few looks to judge anyone."""
    whole = trend(over.times, over.rss)
    if whole is None:
        return None
    found = []
    for kind, owners, share in _CANDIDATES:
        held = _held(over, owners)
        used = over.gauges.get("metaspace-used") if kind == "metaspace" else None
        if used is not None and _unloading(over):
            # As of the last collection, and on JDK 11 told where the second of its nodes is not found.
            held = used
        one = trend(over.times, held)
        if one is None or not np.nan_to_num(held).any():
            continue
        material = _MATERIAL_KEPT if kind == "allocator-retention" else MATERIAL
        state = _state(one, share, whole.level, material)
        last = float(held[-1])
        if kind == "java-heap":
            found.append(_heap(over, one, state, share, whole.level, last))
        elif kind == "threads":
            found.append(_threads(over, one, state, share, last))
        elif state == "grows" and (
            (kind == "metaspace" and not _unloading(over))
            or (kind == "native-mmap" and _may_be_metaspace(over))
        ):
            found.append(Standing(kind, "unjudged", one, last, one))
        else:
            grown = _grown(over, MAPPED, "bytes") if kind == "mapped-files" and state == "grows" else ()
            found.append(Standing(kind, state, one, last, one, grown))
    return found


def after_collections(over: OwnersOverTime) -> tuple[Floats, Floats]:
    """(times, bytes of the Java heap) after each collection that went over the old generation.

    The least that any collection left until the next of them: G1 frees what it marked in later ones.
    """
    counts, left = over.gauges.get("old-collections"), over.gauges.get("heap-after-collection")
    if counts is None or left is None:
        return np.zeros(0), np.zeros(0)
    times, values = [], []
    starts = [at for at in range(1, len(counts)) if counts[at] > counts[at - 1]]
    for start, end in zip(starts, [*starts, len(counts)][1:], strict=True):
        part = left[start:end]
        if np.isfinite(part).any():
            times.append(float(over.times[start + int(np.nanargmin(part))]))
            values.append(float(np.nanmin(part)))
    return np.array(times), np.array(values)


def loaders_grown(before: Mapping[str, Loaders], after: Mapping[str, Loaders]) -> tuple[Grown, ...]:
    """The classes of class loaders of which there are more, by what metaspace they gained; else those
    whose loaders have more classes."""
    found: list[tuple[int, Grown]] = []
    for name, now in after.items():
        then = before.get(name, Loaders(0, 0, 0))
        gained = now.bytes - then.bytes
        if now.loaders > then.loaders:
            found.append((gained, Grown(name, then.loaders, now.loaders, "loaders")))
        elif now.classes > then.classes:
            found.append((gained, Grown(name, then.classes, now.classes, "classes")))
    found.sort(key=lambda pair: (pair[1].unit != "loaders", -pair[0]))
    return tuple(grown for _, grown in found[:_MOST_NAMED])


def _growth(name: str, times: Floats, values: Floats) -> OwnerGrowth:
    one = trend(times, values)
    first, last = (float(values[0]), float(values[-1])) if len(values) else (0.0, 0.0)
    return OwnerGrowth(name, first, last, one.rate if one else None)


def _held(over: OwnersOverTime, owners: Sequence[str]) -> Floats:
    chosen = [at for at, name in enumerate(over.names) if name in owners]
    held: Floats = over.bytes[:, chosen].sum(axis=1)
    return held


def _state(one: Trend, share: float, rss: float, material: float = MATERIAL) -> State:
    if one.gained.estimate < material * rss:
        return "flat"
    if one.middle > 0 and one.slows(share):
        return "slows"
    if one.grows:
        return "grows"
    return "open" if one.gained.high >= WIDE * rss else "flat"


def _heap(
    over: OwnersOverTime, rss: Trend, state: State, share: float, whole: float, last: float
) -> Standing:
    times, left = after_collections(over)
    begin, end = over.times[0], over.times[-1]
    after = trend(np.r_[begin, times, end], np.r_[np.nan, left, np.nan], _FEWEST_COLLECTIONS)
    if after is None or times[-1] < begin + (end - begin) * 2 / 3:
        # Heap that is touched for the first time may be garbage.
        return Standing("java-heap", "flat" if state == "flat" else "unjudged", rss, last, rss)
    return Standing("java-heap", _state(after, share, whole), after, last, rss)


def _threads(over: OwnersOverTime, rss: Trend, state: State, share: float, last: float) -> Standing:
    groups = []
    for name, counts in over.gauges.items():
        if not name.startswith(THREADS):
            continue
        # A group without threads is not written.
        one = trend(over.times, np.nan_to_num(counts))
        if one and one.grows and one.gained.estimate >= _FEWEST_THREADS:
            groups.append((one, Grown(name.removeprefix(THREADS), *_ends(counts), "threads")))
    groups.sort(key=lambda pair: -pair[0].rate.estimate)
    if groups:
        one = groups[0][0]
        how: State = "slows" if one.slows(share) else "grows"
        return Standing("threads", how, one, last, rss, tuple(g for _, g in groups[:_MOST_NAMED]))
    # Without more threads, stacks grow as deep calls touch them for the first time.
    return Standing("threads", "slows" if state == "grows" else state, rss, last, rss)


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


def _may_be_metaspace(over: OwnersOverTime) -> bool:
    """Whether metaspace was not told, and so is in what is nobody's, and classes were loaded meanwhile."""
    if "metaspace" in over.names or "classes" not in over.gauges:
        return False
    first, last = _ends(over.gauges["classes"])
    return last > first * 1.01


def _unloading(over: OwnersOverTime) -> bool:
    """Whether a collection that could unload classes ran in the last two thirds."""
    counts = over.gauges.get("old-collections")
    if counts is None or not np.isfinite(counts).any():
        return False
    begin, end = over.times[0], over.times[-1]
    judged = counts[(over.times >= begin + (end - begin) / 3) & np.isfinite(counts)]
    return len(judged) > 1 and bool(judged[-1] > judged[0])
