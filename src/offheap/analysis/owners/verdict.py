"""The verdict of `where`: the growing owner in one word, the reason, the next commands (docs/where.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from offheap.analysis.owners import heap_collections, warm_up
from offheap.analysis.owners.growth import (
    ALLOCATOR,
    DIRECT_BUFFERS,
    FILE_SPACE,
    Candidate,
    Rise,
    growth,
    material,
    nobodys_rise,
    standings,
)
from offheap.analysis.owners.results import Grown, Kind, OwnersGrowth, WhereVerdict
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.statistics.trend import JUDGED, Trend, seconds_needed, times_longer
from offheap.analysis.verdicts.power import DEFAULT_LIMIT
from offheap.quantities import PER_SECOND, format_duration, format_size, round_up_seconds
from offheap.recording.model import OwnersOverTime

# Seconds: ten readings at the shortest period between two, which is one second.
_SHORTEST = 10.0
# Eight at an even pace leave five in the last two thirds, which `trend` requires; a minute has as
# few as ten on a busy machine, where a reading takes seconds.
FEWEST_READINGS = 8
# Of RSS: a convention.  A return of less leaves more than three quarters of the process's memory.
_RETAINED = 0.25
# The verdict states the largest upper end of ten owners' 95 % intervals.  At 1.3 times its distance (99 % for
# each) no owner exceeds it, at 95 %.
_SURER = 1.3
_BLOCK = 64 << 10  # bytes: a leak in larger blocks may be faster than the excluded rate
_MAY_BE_DUE = 3  # blocks: with so many expected, none comes with a probability of 5 % (e^-3)
_OF_A_HALF = 2.0**1.5  # the error of a slope over half of the time
_NATIVE: tuple[Kind, ...] = ("native-malloc", "direct-buffers", "native-mmap")
# States of growth that is certain, and that may stop.
_MAY_STOP = ("uncollected", "unjudged", "warming", "filling")
# Least share of all growth: new classes also need Java objects and the JVM's malloc, a thread buffers.
_CAUSE = 0.1
_A_THREAD = 1.0 * (1 << 20)  # bytes of RSS: the touched stack, the arena, and the JVM's data of the thread

# The least length of the next watch, in seconds: after too few readings twenty of them in the judged two
# thirds, after a warm-up sixty in all, the default of a watch.
_FIRST_WATCH, _AFTER_WARM_UP = 30.0, 60.0
_LEAST_WAIT = 1.0  # seconds until a warm-up is over: `sleep 0` is no command
# The length of the next watch, in times of this one.  At twice the length a slope has 1/2.8 of the error; at
# five times the length five times less growth counts.
_LONGER, _MUCH_LONGER = 2.0, 5.0
_LONGEST = 10.0  # times this watch: no forecast goes further

JAVA_HEAP = "--java-heap"  # the option that records Java objects
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

    `pid` goes into the commands to run next, "PID" without it; `loaders`: classes of class loaders with
    more loaders at the end.
    """
    rss, owners = growth(over)
    seconds = float(over.times[-1] - over.times[0]) if len(over.times) else 0.0
    target = "PID" if pid is None else str(pid)
    verdict = _verdict(over, seconds, target, loaders)
    return OwnersGrowth(seconds, len(over.times), rss, owners, verdict)


def _verdict(over: OwnersOverTime, seconds: float, pid: str, loaders: Sequence[Grown]) -> WhereVerdict:
    if seconds < _SHORTEST or len(over.times) < FEWEST_READINGS:
        readings = f"{len(over.times)} readings in {format_duration(seconds)} are too few"
        why = "one reading is too few" if len(over.times) == 1 else readings
        return _open(
            _with_rise(why, over), pid, max(_FIRST_WATCH, seconds * _times_for_enough(len(over.times)))
        )
    found = standings(over, loaders)
    if found is None:
        return _open(_with_rise("the readings are too far apart", over), pid, seconds * _LONGER)
    growing = [one for one in found if one.state == "grows"]
    if not growing:
        return _nobody(over, found, pid, seconds)
    cause = _cause(growing)
    doubt = _in_doubt(cause, found)
    return _undecided(over, doubt, pid, seconds) if doubt else _blame(over, cause, found, pid, loaders)


def _times_for_enough(readings: int) -> float:
    """How many times as long such a watch takes until its readings are enough, at the same pace."""
    return min(max(FEWEST_READINGS / max(readings - 1, 1), 1.0), _MUCH_LONGER)


def _with_rise(why: str, over: OwnersOverTime) -> str:
    rise = nobodys_rise(over) if len(over.times) else None
    return f"{why}; {rose(rise)}" if rise else why


def rose(rise: Rise) -> str:
    """What a few readings show of memory without a known owner."""
    course = f"at each of the last {rise.readings} readings, by {format_size(rise.gained)}"
    return f"{_NAMES['native-mmap']} rose {course} in {format_duration(rise.seconds)}"


def _in_doubt(cause: Candidate, found: Sequence[Candidate]) -> Candidate | None:
    """The candidate that grew by more than `cause`, but whose growth may fade or be garbage.

    malloc's free memory follows its blocks: it is not to blame while the blocks are in doubt.
    """
    needed = _needed(cause)
    least = cause.trend.rate.estimate if needed is None else needed / _CAUSE
    for one in sorted(found, key=lambda one: -one.trend.rate.estimate):
        if one.kind in _NATIVE and one.state not in ("grows", "flat"):
            rate = one.trend.rate
            if (rate.estimate if cause.kind == "allocator-retention" else rate.low) > least:
                return one
    return None


def _cause(growing: Sequence[Candidate]) -> Candidate:
    """Threads and classes, which need up to ten times their own memory; else the largest certain growth.

    NIO keeps a direct buffer for each thread that writes from the heap: if these buffers grow by more than
    the threads' stacks, the buffers are the cause.
    """
    whole = sum(max(one.rss.rate.estimate, 0.0) for one in growing)
    stacks = sum(one.rss.rate.estimate for one in growing if one.kind == "threads")
    for one in growing:
        if one.kind == "direct-buffers" and 0 < stacks < one.rss.rate.low:
            return one
    for kind in ("threads", "metaspace"):
        for one in growing:
            needed = _needed(one)
            if one.kind == kind and needed is not None and needed >= _CAUSE * whole:
                return one
    # Threads are counted: their number does not compare with bytes.
    return max(growing, key=lambda one: _needed(one) or one.trend.rate.low)


def _needed(one: Candidate) -> float | None:
    """Bytes a second that new threads or classes need themselves; None for other candidates."""
    if one.kind == "threads":
        return max(one.rss.rate.estimate, one.trend.rate.estimate * _A_THREAD if one.grown else 0.0)
    return one.trend.rate.estimate if one.kind == "metaspace" else None


def _blame(
    over: OwnersOverTime, one: Candidate, found: Sequence[Candidate], pid: str, loaders: Sequence[Grown]
) -> WhereVerdict:
    span = format_duration(one.trend.seconds)
    threads = next((other for other in found if other.kind == "threads" and other.grown), None)
    if one.kind == "threads":
        why = _more_threads(one, span)
    else:
        name = _name(over, one)
        why = f"{name} grew by {_rate(one.trend.rate)} over the last {span}, and did not slow down"
    others = [
        _name(over, other).rstrip(",")
        for other in found
        if other.state == "grows" and other is not one and other.kind != "threads"
    ]
    if others:
        why += f"; {_and(others)} grew as well"
    grown = tuple(loaders) if one.kind == "metaspace" else one.grown
    if grown and one.kind != "threads":
        why += f"; {_named(grown[0])}"
    if one.kind == "direct-buffers":
        why += _buffers(over)
        if threads and threads.state == "grows":
            why += (
                f"; {_more_threads(threads, span)}: NIO keeps a direct buffer for each thread that writes "
                "from the Java heap (-Djdk.nio.maxCachedBufferSize bounds it)"
            )
    elif threads and threads.state == "grows" and threads is not one:
        why += f"; {_more_threads(threads, span)}, which needs less"
    if one.collections:
        # Some collectors count each pause, so the number is not that of collections.
        times = "a collection" if one.collections == 1 else "collections"
        why += f"; {times} ran meanwhile and did not free it"
        if heap_collections.ran(over, "old-collections") == 0:
            why += ", none of them of the old generation"
    allocator = next((name.removeprefix(ALLOCATOR) for name in over.gauges if name.startswith(ALLOCATOR)), "")
    if allocator and one.kind == "native-malloc":
        why += f"; {allocator} has it, and does not tell how much of it is free but kept"
    if allocator and one.kind == "native-mmap":
        why += f"; it may be {allocator}'s, or mapped by a library: the two cannot be told apart"
    steps = (f"offheap where {pid} -v",) if one.libraries else _next(one.kind, pid, _split(over))
    return WhereVerdict(one.kind, why, steps, grown)


def _nobody(over: OwnersOverTime, found: Sequence[Candidate], pid: str, seconds: float) -> WhereVerdict:
    rss = float(over.rss[-1])
    most = _most(found)
    kept = next((one.bytes for one in found if one.kind == "allocator-retention"), 0.0)
    native = [one for one in found if one.kind in _NATIVE]
    if kept >= _RETAINED * rss and not any(
        one.state in _MAY_STOP or most.get(one, 0.0) * one.trend.seconds >= kept for one in native
    ):
        why = (
            f"nothing is sure to grow, but {format_size(kept)} of {format_size(rss)} RSS is memory that was "
            "freed and that malloc keeps"
        )
        return WhereVerdict("allocator-retention", why, _next("allocator-retention", pid, False))
    # Certain growth comes first: the owner with the most of it.  What malloc keeps follows its blocks.
    states = ("uncollected", "unjudged", "warming", "filling", "reading", "open", "slows")
    for kept_free, state in product((False, True), states):
        for one in sorted(found, key=lambda one: -one.rss.gained.estimate):
            if one.state != state or (one.kind == "allocator-retention") != kept_free:
                continue
            # Growth that fades is a start-up, which is over when the rest is small.
            if state != "slows" or one.trend.gained_last >= material(one.kind, rss):
                return _undecided(over, one, pid, seconds)
    worst = max(most, key=lambda one: most[one], default=None)
    judged = seconds * JUDGED
    excluded = max(most[worst] if worst else 0.0, _MAY_BE_DUE * _BLOCK / judged)
    span = format_duration(judged)
    if worst and worst.kind != "threads" and worst.trend.rate.low > DEFAULT_LIMIT:
        least = material(worst.kind, rss)
        why = (
            f"{_name(over, worst)} grew by {_rate(worst.trend.rate)} over the last {span}, which is too "
            f"little so far in a process of {format_size(rss)}: growth counts from {format_size(least)} on"
        )
        return replace(_open(why, pid, least / worst.trend.rate.low / JUDGED), excluded=excluded)
    if worst and excluded > DEFAULT_LIMIT:
        why = (
            f"over the last {span} {_name(over, worst).rstrip(',')} may have grown by "
            f"{PER_SECOND.format(excluded)}: it takes longer to exclude {PER_SECOND.format(DEFAULT_LIMIT)}"
        )
        return replace(_open(why, pid, _to_exclude(excluded, seconds)), excluded=excluded)
    why = f"nothing above {PER_SECOND.format(excluded)}: no owner grew by more over the last {span}"
    slow = [one for one in most if one.state == "flat" and one.trend.grows and one.kind != "threads"]
    commands: tuple[str, ...] = ()
    if slow:
        # Too little growth for a verdict, although it may go on for days.
        one = max(slow, key=lambda one: one.trend.rate.low)
        longer = "which a longer watch can tell from a start-up"
        why += f"; {_name(over, one)} grew by {_rate(one.trend.rate)}, {longer}"
        commands = (where_command(pid, round_up_seconds(seconds * _MUCH_LONGER)),)
    for one in found:
        if one.kind == "allocator-retention" and one.trend.gained.estimate >= material("native-malloc", rss):
            why += f", but for {_rate(one.trend.rate)} that malloc keeps free, too little to tell from chance"
    rose = None if warm_up.is_young(over) else _rose_before(over, most, rss)
    if rose:
        why += f"; {rose} in the {format_duration(seconds - judged)} before, which a longer watch can judge"
        commands = (where_command(pid, round_up_seconds(seconds * _MUCH_LONGER)),)
    return WhereVerdict("stable", why, commands, excluded=excluded)


def _rose_before(over: OwnersOverTime, found: Iterable[Candidate], rss: float) -> str | None:
    """The native owner that rose most in the first third: one step of a leak in steps, or of a cache."""
    native = [one for one in found if one.kind in _NATIVE]
    one = max(native, key=lambda one: one.trend.levels[0] - one.trend.first, default=None)
    if one is None or (gained := one.trend.levels[0] - one.trend.first) < material(one.kind, rss):
        return None
    return f"{_name(over, one)} rose by {format_size(gained)}"


def _undecided(over: OwnersOverTime, one: Candidate, pid: str, seconds: float) -> WhereVerdict:
    """The reason why no owner is to blame although this one may grow, and how to decide."""
    name = _name(over, one)
    grew = f"{name} grew by {_rate(one.trend.rate)}"
    if one.state == "uncollected":
        if one.collections:
            why = "and the collections that ran freed much of it: more of them have to show what stays"
        else:
            why = "but no collection of the Java heap ran that could have freed what Java objects hold of it"
        # The time for some more collections, at their present rate.
        longer = heap_collections.FEWEST_COLLECTIONS / one.collections if one.collections else _LONGER
        return _collecting(
            _open(f"{grew}, {why}", pid, seconds * max(longer, _LONGER)), pid, "half-way through it"
        )
    # The pages of the Java heap show growth and garbage alike, however long the watch.
    if one.state == "unjudged" or (one.kind == "java-heap" and one.state == "open" and one.trend is one.rss):
        name = name.replace(", as collections leave it,", "")
        grew = _grew(name, one.rss)
        if one.kind == "native-mmap":
            return _open(
                f"memory without a known owner grew by {_rate(one.rss.rate)}: it may be metaspace",
                pid,
                seconds,
            )
        shown = "classes could be unloaded" if one.kind == "metaspace" else "it is no garbage"
        why = f"{grew}, but too few collections of the old generation have shown whether {shown}"
        times = f"{heap_collections.FEWEST_COLLECTIONS} times, spread over it"
        return _collecting(_open(why, pid, seconds), pid, times)
    if one.state == "warming":
        old = warm_up.age(over) or 0.0
        wait = round_up_seconds(max(warm_up.WARM_UP - old, _LEAST_WAIT))
        again = max(round_up_seconds(seconds), _AFTER_WARM_UP)
        why = (
            f"still warming up, the process is {format_duration(old)} old: {grew}, as in any JVM that loads "
            f"and compiles its classes; look again from an age of {format_duration(warm_up.WARM_UP)}"
        )
        later = f"sleep {round(wait)}; {where_command(pid, again)}"
        return WhereVerdict("cannot tell yet", why, (later,), needs_seconds=wait + again)
    if one.state == "filling":
        so_old = format_duration(warm_up.age(over) or 0.0)
        why = f"{grew}, but the process is {so_old} old, and a cache that fills would look the same"
        return _open(why, pid, warm_up.FILLS)
    if one.state == "reading":
        return _read_in(over, one, grew, pid, seconds)
    if one.state == "slows":
        return _open(
            f"{name} grew, but ever slower, as in a warm-up: {_rate(one.trend.rate)} at last",
            pid,
            seconds * _LONGER,
        )
    return _open(f"{_grew(name, one.trend)}: too uncertain", pid, seconds_needed(one.trend))


def _grew(name: str, trend: Trend) -> str:
    if trend.rate.low > 0:
        return f"{name} grew by {_rate(trend.rate)}"
    most = PER_SECOND.format(max(trend.rate.high, 0.0))
    return f"{name} may have grown by up to {most} over the last {format_duration(trend.seconds)}"


def _read_in(over: OwnersOverTime, one: Candidate, grew: str, pid: str, seconds: float) -> WhereVerdict:
    """Mapped files that are read for the first time: their growth ends where all of them is in memory."""
    left = max(float(np.nanmax(over.gauges[FILE_SPACE])) - one.bytes, 0.0)
    named = f"; {_named(one.grown[0])}" if one.grown else ""
    why = (
        f"{grew}, but no more files were mapped: pages that are read for the first time, at most "
        f"{format_size(left)} more{named}"
    )
    # Then the first third of the watch reads the rest.
    longer = left / max(one.trend.rate.estimate, 1.0) / (1 - JUDGED)
    return _open(why, pid, min(max(longer, seconds), seconds * _LONGEST))


def _name(over: OwnersOverTime, one: Candidate) -> str:
    if one.libraries:
        return "memory of shared libraries and jars"
    return "direct buffers" if one.kind == "direct-buffers" and not _split(over) else _NAMES[one.kind]


def _split(over: OwnersOverTime) -> bool:
    """Whether Native Memory Tracking separates the JVM's malloc from others'."""
    return "jvm-malloc" in over.names


def _buffers(over: OwnersOverTime) -> str:
    """The JDK's count of direct buffers."""
    counts = over.gauges.get(DIRECT_BUFFERS)
    known = counts[np.isfinite(counts)] if counts is not None else np.zeros(0)
    return (
        f"; the JDK counts {known[0]:,.0f} buffers at first and {known[-1]:,.0f} at last"
        if len(known)
        else ""
    )


def _more_threads(one: Candidate, span: str) -> str:
    named = one.grown[0]
    return (
        f"the threads {named.name} grew from {named.before:.0f} to {named.after:.0f}, "
        f"{_count_rate(one.trend.rate)} over the last {span}"
    )


def _most(found: Sequence[Candidate]) -> dict[Candidate, float]:
    """The upper end of each owner's growth, bytes a second.

    malloc's free memory has no owner: it varies, and has its own verdict.
    """
    return {one: _upper_end(one) for one in found if one.kind != "allocator-retention"}


def _upper_end(one: Candidate) -> float:
    trend = one.rss if one.kind == "threads" else one.trend  # threads are counted
    reach = _SURER * (trend.rate.high - trend.rate.estimate)
    upper = max(trend.rate.estimate, 0.0) + reach
    # The last half bounds growth that fades; its error is larger.
    return min(upper, max(trend.last, 0.0) + _OF_A_HALF * reach) if one.state == "slows" else upper


def _to_exclude(excluded: float, seconds: float) -> float:
    """The time of readings after which the possible growth falls to the limit, or is certain."""
    return seconds * times_longer(excluded / DEFAULT_LIMIT)


def _open(why: str, pid: str, seconds: float) -> WhereVerdict:
    seconds = round_up_seconds(seconds)
    return WhereVerdict("cannot tell yet", why, (where_command(pid, seconds),), needs_seconds=seconds)


def _collecting(found: WhereVerdict, pid: str, when: str) -> WhereVerdict:
    """The same readings with collections in between: earlier collections show nothing about this growth."""
    return replace(found, next=(*found.next, f"jcmd {pid} GC.run {when}"))


def where_command(pid: str, seconds: float) -> str:
    return f"offheap where {pid} --watch {round(seconds)}s"


def _next(kind: Kind, pid: str, split: bool) -> tuple[str, ...]:
    attach = f"offheap attach {pid} --duration 10m"
    if kind == "java-heap":
        return (
            f"offheap attach {pid} {JAVA_HEAP} --duration 5m --gc",
            f"jcmd {pid} GC.class_histogram",
            f"jcmd {pid} GC.heap_dump heap.hprof",
        )
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
        return (
            attach,
            # JDK 25 no longer counts these: they are not part of -XX:MaxDirectMemorySize (JDK-8344882).
            "-XX:NativeMemoryTracking=summary at its next start: tells Unsafe, FFM, the buffers that NIO "
            "keeps for each thread (JDK 25 counts them nowhere else) and the JVM's own apart",
        )
    return (attach,)


def _named(one: Grown) -> str:
    if one.unit == "bytes":
        return f"{one.name}: from {format_size(one.before)} to {format_size(one.after)}"
    what = "class loaders of class" if one.unit == "loaders" else "classes loaded by"
    return f"{what} {one.name}: from {one.before:.0f} to {one.after:.0f}"


def _rate(rate: Estimate) -> str:
    estimate, low, high = map(PER_SECOND.format, (rate.estimate, rate.low, rate.high))
    return f"{estimate} (95 %: {low} to {high})"


def _count_rate(rate: Estimate) -> str:
    per, unit = (60, "a minute") if rate.estimate * 60 >= 1 else (3600, "an hour")
    return f"{rate.estimate * per:.1f} (95 %: {rate.low * per:.1f} to {rate.high * per:.1f}) {unit}"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
