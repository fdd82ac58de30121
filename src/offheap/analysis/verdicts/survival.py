"""Tells which memory below Java has been through a garbage collection.

An unreachable Java object keeps its memory until a collection, after which a Cleaner, a finalizer or a
PhantomReference of any class frees it.  Until then its blocks look like those of a leak.  Blocks that were
born before a collection and are alive at the end survived it: their objects were in use, or became old before
the program dropped them and wait for a collection of the old generation; or no object owns the blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.statistics.estimates import Floats
from offheap.analysis.verdicts.promotion import keeps_young_garbage, of_promoted
from offheap.recording.model import G1, CollectionKind, Collections, Recording

_FEWEST = 5  # sampled blocks
CLOCK_SECONDS = 0.1  # by which the JVM's clock and the recorder's may differ
_SHARE = 0.1  # of a site's sampled live blocks: more than the blocks that it took at the start and keeps
# The collector only finds unreachable objects: threads that run after it free their memory.
SETTLE_SECONDS = 1.0

_PAUSES_OF_G1 = 2  # of a cycle at most: remark and cleanup

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Survival:
    """Collections during a recording, and by site whether its live blocks have been through them.

    count, count_old  collections of any kind; of the old generation or of the whole heap
    any, old          by site, for the same two kinds
    """

    count: int
    count_old: int
    any: Bools
    old: Bools


def survival(recording: Recording, of_stack: NDArray[np.int64], sites: int) -> Survival | None:
    """None without counts: a bare live file, a JVM without hsperfdata, fewer than two readings.

    `of_stack`: the number of each stack's site.
    """
    ran, live = collections(recording), recording.live
    if ran is None:
        return None
    of_block = of_stack[live["stack"]]
    blocks = np.bincount(of_block, minlength=sites)

    def through(until: float) -> Bools:
        before = np.bincount(of_block[live["birth"] < until], minlength=sites)
        enough: Bools = (before >= _FEWEST) & (before >= _SHARE * blocks)
        return enough

    seen, old = passed(ran, end_of(recording)), whole(ran)
    return Survival(
        count=int(ran.counts.sum()),
        count_old=int(ran.counts[old].sum()),
        any=through(float(seen.max(initial=-np.inf))),
        old=through(float(seen[old].max(initial=-np.inf))),
    )


def end_of(recording: Recording) -> float:
    """Time of the live set, in seconds since the start."""
    return recording.info.live_time or recording.info.duration_seconds


def whole(ran: Collections) -> Bools:
    """Which of these collections include the old generation."""
    return np.array([kind != "young" for kind in ran.kinds], np.bool_)


def passed(ran: Collections, end: float) -> Floats:
    """By row, the time before which a block is born that met the collection by the end; -inf: none has.

    The frees come soon after a collection: one that ended just before the end shows nothing yet.  A
    concurrent cycle finds the objects that were unreachable at its begin.
    """
    begun = ran.begun.copy()
    for row in np.flatnonzero([kind == "concurrent" for kind in ran.kinds]).tolist():
        begun[row] = _marking(ran, row)
    return np.where(ran.ended <= end - SETTLE_SECONDS, begun - CLOCK_SECONDS, -np.inf)


def _marking(ran: Collections, row: int) -> float:
    """The earliest time at which a cycle began to mark; -inf: before all that is known.

    G1 tells the pauses alone.  It begins to mark with a young collection after the cycle before, and what
    becomes old while it marks stays.  If the collector is not known, the young collection before the pause.
    """
    young = np.sort(ran.begun[[kind == "young" for kind in ran.kinds]])
    young = young[young <= ran.begun[row]]
    if ran.collector != G1:
        return float(young[-1]) if len(young) and not ran.collector else float(ran.begun[row])
    concurrent = np.flatnonzero([kind == "concurrent" for kind in ran.kinds])
    order = concurrent[np.argsort(ran.begun[concurrent], kind="stable")]
    place = int(np.flatnonzero(order == row)[0])
    # The begin is after the last pause that is not of this cycle.
    since = np.cumsum(ran.counts[order[: place + 1]][::-1])[::-1] - ran.counts[order[: place + 1]]
    others = order[: place + 1][since >= _PAUSES_OF_G1]
    if not len(others):
        return -np.inf
    after = young[young > ran.begun[others[-1]]]
    return float(after[0] if len(after) else ran.begun[others[-1]])


def collections(recording: Recording) -> Collections | None:
    """The collections that the recorder followed; else those between two readings of the JVM's counters.

    With generational ZGC, only the collections that free what they find dead.
    """
    found = recording.collections or _between_readings(recording)
    if found is None or not keeps_young_garbage(recording):
        return found
    return of_promoted(found, causes_known=recording.collections is not None)


def _between_readings(recording: Recording) -> Collections | None:
    over = recording.owners
    every, old = over.gauges.get("collections"), over.gauges.get("old-collections")
    if every is None or old is None:
        return None
    known = np.isfinite(every) & np.isfinite(old)
    if known.sum() < 2:
        return None
    times, since = over.times[known], over.gauges.get("since-young-collection")
    ago = since[known] if since is not None else np.full(len(times), np.nan)
    rows: list[tuple[CollectionKind, float, float, int]] = []
    more = np.diff(every[known]), np.diff(old[known])
    for reading, (new, new_old) in enumerate(zip(*more, strict=True)):
        before, now = float(times[reading]), float(times[reading + 1])
        if new_old > 0:
            # The time is unknown; the earliest possible one is right after the reading before.
            rows.append(("full", before + CLOCK_SECONDS, now, int(new_old)))
        if new > new_old:
            began = now - float(ago[reading + 1])
            rows.append(
                ("young", max(before + CLOCK_SECONDS, began if began < now else 0.0), now, int(new - new_old))
            )
    kinds, begun, ended, counts = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Collections(
        since=float(times[0]),
        kinds=kinds,
        begun=np.array(begun, np.float64),
        ended=np.array(ended, np.float64),
        counts=np.array(counts, np.int64),
    )
