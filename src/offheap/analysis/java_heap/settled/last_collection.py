"""Which Java objects are known to be live: those that the last collection did not free.

An object that is older than a collection and is followed after it survived that collection.  Nothing is known
of younger objects.  A young collection frees no object of the old generation, so an object that survived
young collections only may be garbage that waits for a collection of the whole heap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from offheap.analysis.statistics.estimates import Floats
from offheap.analysis.verdicts.survival import CLOCK_SECONDS, collections, passed
from offheap.recording.model import CollectionKind, Collections, Info, JavaHeap, Recording


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


def ran(recording: Recording) -> Ran:
    """`recording`: the whole one, whose Java objects are a part."""
    heap = recording.info.java_heap or JavaHeap("requested")
    nothing = np.zeros(0)
    known = collections(recording)
    if known is not None and _keeps_young_garbage(recording.info):
        known = _without_young(known)
    if known is not None:
        # A concurrent cycle finds the objects that were dead at its start, or at a time that `passed` knows.
        until = np.minimum(passed(known, np.inf), heap.swept)
        swept = (known.ended <= heap.swept + CLOCK_SECONDS) & (until > 0)
        if swept.any():
            order = np.flatnonzero(swept)[np.argsort(until[swept], kind="stable")]
            kinds = tuple(known.kinds[row] for row in order.tolist())
            return Ran(until[order], known.ended[order], kinds)
    if heap.collections and heap.collected > 0:
        one = np.array([heap.collected])
        return Ran(one, np.array([max(heap.swept, heap.collected)]), ())
    return Ran(nothing, nothing, ())


def _keeps_young_garbage(info: Info) -> bool:
    """Whether young collections free nothing that the probe follows.

    Generational ZGC keeps what a weak reference leads to until it collects the old generation (JDK-8375615).
    JDK 21 and 22 need a flag for it, 23 has a flag against it, and 24 has no other ZGC.
    """
    flags = info.jvm_flags
    if "-XX:+UseZGC" not in flags or "-XX:-ZGenerational" in flags:
        return False
    major = info.java_version.partition(".")[0]
    return "-XX:+ZGenerational" in flags or (major.isdecimal() and int(major) >= 23)


def _without_young(known: Collections) -> Collections:
    old = np.array([kind != "young" for kind in known.kinds], np.bool_)
    return Collections(
        since=known.since,
        kinds=tuple(kind for kind in known.kinds if kind != "young"),
        begun=known.begun[old],
        ended=known.ended[old],
        counts=known.counts[old],
    )


def as_of(java: Recording, until: float) -> Recording:
    """The Java objects that were born before a collection and survived it; `until`: its `Ran.until`.

    Its live set is that of the collection, so every analysis of it is as of that time.
    """
    info = replace(java.info, live_time=max(until, 0.0))
    return replace(java, info=info, live=java.live[java.live["birth"] < until])
