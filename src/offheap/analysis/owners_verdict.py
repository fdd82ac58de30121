"""One word for what grows, the sentence why, and what to run next: docs/where.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from offheap.analysis.conclusion import per_minute
from offheap.analysis.owners_growth import ALLOCATOR, MATERIAL, Standing, growth, standings
from offheap.analysis.power import DEFAULT_LIMIT, round_up_seconds
from offheap.analysis.results import Estimate
from offheap.analysis.results_owners import Grown, Kind, OwnersGrowth, WhereVerdict
from offheap.analysis.trend import seconds_needed
from offheap.quantities import PER_MINUTE, format_duration, format_size
from offheap.recording.model import OwnersOverTime

_SHORTEST = 10.0  # seconds
_FEWEST_LOOKS = 10
_RETAINED = 0.25  # of RSS
_CAUSE = 0.1  # of all growth: classes bring Java objects and the JVM's malloc with them

_NAMES: dict[Kind, str] = {
    "java-heap": "the Java heap, as collections leave it,",
    "direct-buffers": "memory of direct buffers, Unsafe and FFM",
    "metaspace": "metaspace",
    "code-cache": "the code cache",
    "threads": "the number of threads",
    "native-malloc": "malloc's memory",
    "allocator-retention": "memory that was freed and that malloc keeps",
    "native-mmap": "anonymous memory that neither the JVM nor malloc is known to hold",
    "mapped-files": "the mapped files in memory",
}


def judge(over: OwnersOverTime, *, pid: int | None = None, loaders: Sequence[Grown] = ()) -> OwnersGrowth:
    """The growth of every owner, and the verdict.

    `pid` is put into the commands to run next, "PID" without; `loaders`: classes of class loaders of
    which there were more at the end.
    """
    rss, owners = growth(over)
    seconds = float(over.times[-1] - over.times[0]) if len(over.times) else 0.0
    target = "PID" if pid is None else str(pid)
    verdict = _verdict(over, seconds, target, loaders)
    return OwnersGrowth(seconds, len(over.times), rss, owners, verdict)


def _verdict(over: OwnersOverTime, seconds: float, pid: str, loaders: Sequence[Grown]) -> WhereVerdict:
    if seconds < _SHORTEST or len(over.times) < _FEWEST_LOOKS:
        looks = f"{len(over.times)} looks in {format_duration(seconds)} are too few"
        why = "one look is too few" if len(over.times) == 1 else looks
        return _open(why, pid, max(_SHORTEST * 3, seconds))
    found = standings(over)
    if found is None:
        return _open("the looks are too far apart", pid, seconds * 2)
    growing = [one for one in found if one.state == "grows"]
    if growing:
        return _blame(over, _cause(growing), found, pid, loaders)
    return _nobody(over, found, pid, seconds)


def _cause(growing: Sequence[Standing]) -> Standing:
    """Threads and classes grow by count and draw other memory with them; else who surely grows most."""
    whole = sum(max(one.rss.rate.estimate, 0.0) for one in growing)
    for kind in ("threads", "metaspace"):
        for one in growing:
            if one.kind == kind and (kind == "threads" or one.trend.rate.estimate >= _CAUSE * whole):
                return one
    return max(growing, key=lambda one: one.trend.rate.low)


def _blame(
    over: OwnersOverTime, one: Standing, found: Sequence[Standing], pid: str, loaders: Sequence[Grown]
) -> WhereVerdict:
    span = format_duration(one.trend.seconds)
    if one.kind == "threads":
        named = one.grown[0]
        why = (
            f"the threads {named.name} grew from {named.before:.0f} to {named.after:.0f}, "
            f"{_count_rate(one.trend.rate)} over the last {span}"
        )
    else:
        why = (
            f"{_NAMES[one.kind]} grew by {_rate(one.trend.rate)} over the last {span}, and did not slow down"
        )
    others = [
        _NAMES[other.kind].rstrip(",")
        for other in found
        if other.state == "grows" and other is not one and other.kind != "threads"
    ]
    if others:
        why += f"; {_and(others)} grew as well"
    grown = tuple(loaders) if one.kind == "metaspace" else one.grown
    if grown and one.kind != "threads":
        why += f"; {_named(grown[0])}"
    allocator = next((name.removeprefix(ALLOCATOR) for name in over.gauges if name.startswith(ALLOCATOR)), "")
    if allocator and one.kind == "native-malloc":
        why += f"; {allocator} has it, and what of it is free but kept cannot be told"
    if allocator and one.kind == "native-mmap":
        why += f"; it may be {allocator}'s, or mapped by a library: the two cannot be told apart"
    if any(other.state == "unjudged" and other.kind == "java-heap" for other in found):
        why += "; the Java heap cannot be judged, too few collections of its old generation"
    return WhereVerdict(one.kind, why, _next(one.kind, pid, "direct-buffers" in over.names), grown)


def _nobody(over: OwnersOverTime, found: Sequence[Standing], pid: str, seconds: float) -> WhereVerdict:
    rss = float(over.rss[-1])
    largest = sorted(found, key=lambda one: -one.rss.gained.estimate)
    kept = next((one.bytes for one in found if one.kind == "allocator-retention"), 0.0)
    if kept >= _RETAINED * rss:
        why = (
            f"nothing is sure to grow, but {format_size(kept)} of {format_size(rss)} RSS is memory that was "
            "freed and that malloc keeps"
        )
        return WhereVerdict("allocator-retention", why, _next("allocator-retention", pid, False))
    for one in largest:
        if one.state == "unjudged":
            if one.kind == "native-mmap":
                why = f"memory that is nobody's grew by {_rate(one.rss.rate)}: it may be metaspace"
                return _open(why, pid, seconds)
            shown = "classes could be unloaded" if one.kind == "metaspace" else "it is no garbage"
            why = (
                f"{_NAMES[one.kind]} grew by {_rate(one.rss.rate)}, but too few collections of the old "
                f"generation have shown whether {shown}".replace(", as collections leave it,", "")
            )
            return replace(
                _open(why, pid, seconds), next=(f"jcmd {pid} GC.run", f"offheap where {pid} --watch")
            )
    for one in largest:
        if one.state == "open":
            why = f"{_NAMES[one.kind]} grew by {_rate(one.trend.rate)}: too uncertain"
            return _open(why, pid, seconds_needed(one.trend))
    for one in largest:
        # Growth that fades is a start-up, over once what is left of it is small.
        if one.state == "slows" and one.trend.last * one.trend.seconds / 2 >= MATERIAL * rss:
            why = (
                f"{_NAMES[one.kind]} grew, but ever slower, as in a warm-up: {_rate(one.trend.rate)} at last"
            )
            return _open(why, pid, seconds * 2)
    most = _most(found)
    worst = max(most, key=lambda one: most[one], default=None)
    excluded = most[worst] if worst else 0.0
    span = format_duration(seconds * 2 / 3)
    if worst and excluded > DEFAULT_LIMIT:
        name = _NAMES[worst.kind].rstrip(",")
        why = (
            f"over the last {span} {name} may have grown by {per_minute(excluded)}: "
            f"it takes longer to exclude {per_minute(DEFAULT_LIMIT)}"
        )
        return replace(_open(why, pid, _to_exclude(excluded, seconds)), excluded=excluded)
    why = f"no owner grew by more than {per_minute(excluded)} over the last {span}"
    for one in found:
        if one.kind == "allocator-retention" and one.trend.gained.estimate >= MATERIAL * rss:
            why += f", but for {_rate(one.trend.rate)} that malloc keeps free, too little to tell from chance"
    return WhereVerdict("stable", why, (), excluded=excluded)


def _most(found: Sequence[Standing]) -> dict[Standing, float]:
    """The upper end of each owner's growth, bytes a second.

    Free memory that malloc keeps is nobody's: it wanders, and has a verdict of its own.
    """
    return {one: _upper_end(one) for one in found if one.kind != "allocator-retention"}


def _upper_end(one: Standing) -> float:
    trend = one.rss if one.kind == "threads" else one.trend  # threads are counted
    # Of what fades the last third tells, and the rate's error.
    rate = trend.last if one.state == "slows" else trend.rate.estimate
    return max(rate, 0.0) + trend.rate.high - trend.rate.estimate


def _to_exclude(excluded: float, seconds: float) -> float:
    """How long a watch has to be until what may be grown falls to the limit, or grows for sure.

    The error of a slope falls with the time to the power of 3/2.  Between twice and ten times as long.
    """
    return seconds * min(max(math.pow(excluded / DEFAULT_LIMIT, 2 / 3), 2.0), 10.0)


def _open(why: str, pid: str, seconds: float) -> WhereVerdict:
    seconds = round_up_seconds(seconds)
    watch = f"offheap where {pid} --watch {round(seconds)}s"
    return WhereVerdict("cannot tell yet", why, (watch,), needs_seconds=seconds)


def _next(kind: Kind, pid: str, split: bool) -> tuple[str, ...]:
    attach = f"offheap attach {pid} --duration 10m"
    if kind == "java-heap":
        return (f"jcmd {pid} GC.class_histogram", f"jcmd {pid} GC.heap_dump heap.hprof")
    if kind == "metaspace":
        return (f"jcmd {pid} VM.classloader_stats", f"jcmd {pid} VM.classloaders")
    if kind == "code-cache":
        return (f"jcmd {pid} Compiler.codecache", f"jcmd {pid} Compiler.codelist")
    if kind == "threads":
        return (f"jcmd {pid} Thread.print",)
    if kind == "allocator-retention":
        return (
            f"jcmd {pid} System.trim_native_heap",
            "MALLOC_ARENA_MAX=2 in the environment of its next start",
        )
    if kind == "native-malloc" and not split:
        return (attach, "-XX:NativeMemoryTracking=summary at its next start: tells direct buffers apart")
    return (attach,)


def _named(one: Grown) -> str:
    if one.unit == "bytes":
        return f"{one.name}: from {format_size(one.before)} to {format_size(one.after)}"
    what = "class loaders of class" if one.unit == "loaders" else "classes loaded by"
    return f"{what} {one.name}: from {one.before:.0f} to {one.after:.0f}"


def _rate(rate: Estimate) -> str:
    estimate, low, high = map(PER_MINUTE.format, (rate.estimate, rate.low, rate.high))
    return f"{estimate} (95 %: {low} to {high})"


def _count_rate(rate: Estimate) -> str:
    per, unit = (60, "a minute") if rate.estimate * 60 >= 1 else (3600, "an hour")
    return f"{rate.estimate * per:.1f} (95 %: {rate.low * per:.1f} to {rate.high * per:.1f}) {unit}"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
