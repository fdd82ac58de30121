"""Which Java objects are known to be live: those that the last collection did not free.

An object that is older than a collection and is followed after it survived that collection.  Nothing is known
of younger objects.  A young collection frees no object of the old generation, so an object that survived
young collections only may be garbage that waits for a collection of the whole heap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from offheap.analysis.statistics.estimates import Floats
from offheap.analysis.verdicts.promotion import keeps_young_garbage, options_of
from offheap.analysis.verdicts.survival import CLOCK_SECONDS, collections, passed
from offheap.recording.model import CollectionKind, Info, JavaHeap, Recording

# Collectors that mark beside the program: each pause of a cycle is an event for the probe.
_MARK_BESIDE = {"-XX:+UseZGC", "-XX:+UseShenandoahGC"}
# Followed objects may take this much of the heap in use.  HotSpot's sampler errs by up to 16 % (JDK 11,
# arrays that do not fit into a TLAB).
_MOST_EXPLAINED = 1.25
# Bytes: the JVM counts regions as a whole, and objects die between the collection and the reading.
_ROUNDING = 8 << 20
_READ_SECONDS = 0.3  # from the end of a collection until the heap has been read, unless others follow at once
_STANDARD_ERRORS = 3.0  # chance exceeds them once in 700 recordings
# Share of the time until the last collection: an earlier one of the whole heap does not show whether later
# growth is garbage.  One at a random time makes leaks of 22 of 140 healthy programs of the simulation without
# this rule, of 4 with a half, and of none with two thirds.
_LATELY = 2 / 3


@dataclass(frozen=True, slots=True)
class Ran:
    """The collections whose dead objects the recording no longer has, by time.

    until  seconds since the start: objects that were born before this time met the collection
    ended  of the collection
    kinds  empty where they are not known
    """

    until: Floats
    ended: Floats
    kinds: tuple[CollectionKind, ...]

    @property
    def last(self) -> float:
        """The time before which survivors of the last collection are born; -inf: no collection ran."""
        return float(self.until.max(initial=-np.inf))

    @property
    def last_whole(self) -> float | None:
        """The same of collections of the whole heap; None: kinds are not known."""
        if len(self.until) and not self.kinds:
            return None
        old = np.array([kind != "young" for kind in self.kinds], np.bool_)
        return float(self.until[old].max(initial=-np.inf))

    @property
    def whole_lately(self) -> bool:
        """Whether the last collection of the whole heap is recent enough to show what grows.

        After an early one, garbage of the old generation has accumulated most of the time.  False if kinds
        are not known.
        """
        last = self.last_whole
        return last is not None and last > 0 and last >= _LATELY * self.last


def ran(recording: Recording) -> Ran:
    """`recording`: the whole one, whose Java objects are a part.

    None where the survivors contradict the heap in use: what the collector frees then stays followed.
    """
    found = _ran(recording)
    return Ran(np.zeros(0), np.zeros(0), ()) if _contradicted(recording, found) else found


def lacking(recording: Recording) -> str:
    """Why `ran` has no collection; "" if it has one."""
    if len(ran(recording).until):
        return ""
    if len(_ran(recording).until):
        return "followed objects take more than the JVM counts in use, so it is not known which are live"
    if keeps_young_garbage(recording) and recording.collections is not None and recording.collections.kinds:
        return (
            "no collection ran that frees followed objects (generational ZGC keeps them until they are old)"
        )
    return "no collection ran"


def heap_after(recording: Recording, ended: float) -> tuple[float, float] | None:
    """The heap in use after a collection, bytes, and when the JVM said so; None if it does not say."""
    in_use = recording.heap
    if not len(in_use.times):
        return None
    at = reading_after(in_use.times, ended)
    used = float(in_use.bytes[at])
    return (used, float(in_use.times[at])) if used > 0 else None


def reading_after(times: Floats, ended: float) -> int:
    """The first reading after the end of a collection; the last one where the recording ended with it.

    By the JVM's clock the reading may seem to come just before the end.  Just before it may also be the
    reading after an earlier collection: G1 has one of 506 MB 20 ms before a full one that leaves 24 MB.
    """
    after = int(np.searchsorted(times, ended, "left"))
    due = after < len(times) and times[after] <= ended + _READ_SECONDS
    if not due and after and times[after - 1] >= ended - CLOCK_SECONDS:
        after -= 1
    return min(after, len(times) - 1)


def _contradicted(recording: Recording, found: Ran) -> bool:
    if recording.java is None or not len(found.until):
        return False
    after = heap_after(recording, float(found.ended[found.until.argmax()]))
    if after is None:
        return False
    live = recording.java.live
    some = live[live["birth"] < found.last]
    size, probability = some["size"].astype(np.float64), some["probability"].astype(np.float64)
    error = math.sqrt(float((size**2 * (1 - probability) / probability**2).sum()))
    least = float((size / probability).sum()) - _STANDARD_ERRORS * error
    return least > after[0] * _MOST_EXPLAINED + _ROUNDING


def _ran(recording: Recording) -> Ran:
    heap = recording.info.java_heap or JavaHeap("requested")
    nothing = np.zeros(0)
    known = collections(recording)
    if known is not None:
        # A concurrent cycle finds the objects that were dead at its start, or at a time that `passed` knows.
        until = np.minimum(passed(known, np.inf), heap.swept)
        swept = (known.ended + CLOCK_SECONDS <= heap.swept) & (until > 0)
        if swept.any():
            order = np.flatnonzero(swept)[np.argsort(until[swept], kind="stable")]
            kinds = tuple(known.kinds[row] for row in order.tolist())
            return Ran(until[order], known.ended[order], kinds)
    # The probe sees pauses.  Those of collectors that mark beside the program say nothing of what is dead.
    if known is None and heap.collections and heap.collected > 0 and not _marks_beside(recording.info):
        one = np.array([heap.collected])
        return Ran(one, np.array([max(heap.swept, heap.collected)]), ())
    return Ran(nothing, nothing, ())


def _marks_beside(info: Info) -> bool:
    # ZGC on JDK 11, an experiment, counts no collections: the probe's count is all that is known.
    return bool(_MARK_BESIDE & options_of(info)) and not info.java_version.startswith("11.")


def as_of(java: Recording, until: float) -> Recording:
    """The Java objects that were born before a collection and survived it; `until`: its `Ran.until`.

    Its live set is that of the collection, so every analysis of it is as of that time.
    """
    info = replace(java.info, live_time=max(until, 0.0))
    return replace(java, info=info, live=java.live[java.live["birth"] < until])
