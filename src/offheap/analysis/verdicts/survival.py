"""Which memory below Java has been through a garbage collection.

A Java object that nobody needs keeps its memory until it is collected, whatever frees it then: a Cleaner, a
finalizer, a PhantomReference of any class.  Until then its blocks look like those of a leak.  What was born
before a collection and is alive at the end went through it: its objects were in use, or had become old before
they were dropped, and wait for a collection of the old generation; or no object owns it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.statistics.estimates import Floats
from offheap.recording.model import CollectionKind, Collections, Recording

_FEWEST = 5  # sampled blocks
CLOCK_SECONDS = 0.1  # by which the JVM's clock and ours may differ
_SHARE = 0.1  # of a site's sampled live blocks: not only what it took at the start, and keeps
# The collector only finds what is unreachable: the memory is freed by threads that run after it.
SETTLE_SECONDS = 1.0

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Survival:
    """Collections while a recording ran, and by site whether its live blocks have been through them.

    count, count_old  collections of any kind; of the old generation or of the whole heap
    any, old          by site
    """

    count: int
    count_old: int
    any: Bools
    old: Bools


def survival(recording: Recording, of_stack: NDArray[np.int64], sites: int) -> Survival | None:
    """None where nobody counted: a bare live file, a JVM without hsperfdata, fewer than two looks.

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
    """When the live set was taken, seconds since the start."""
    return recording.info.live_time or recording.info.duration_seconds


def whole(ran: Collections) -> Bools:
    """Which of them go over the old generation, too."""
    return np.array([kind != "young" for kind in ran.kinds], np.bool_)


def passed(ran: Collections, end: float) -> Floats:
    """By row, the time before which a block must have been born to have met it; -inf: none has, by the end.

    What it frees is freed soon after: of one that ended just before the end nothing is known yet.  A cycle
    beside the program finds what was unreachable when it began, which G1 does with a young collection.
    """
    begun = ran.begun.copy()
    young = np.array([kind == "young" for kind in ran.kinds], np.bool_)
    starts = np.sort(ran.begun[young])
    for row, kind in enumerate(ran.kinds):
        before = np.searchsorted(starts, ran.begun[row])
        if kind == "concurrent" and before:
            begun[row] = starts[before - 1]
    return np.where(ran.ended <= end - SETTLE_SECONDS, begun - CLOCK_SECONDS, -np.inf)


def collections(recording: Recording) -> Collections | None:
    """As the recorder followed them, else as the looks at the JVM's counters tell: between which two."""
    return recording.collections or _between_looks(recording)


def _between_looks(recording: Recording) -> Collections | None:
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
    for look, (new, new_old) in enumerate(zip(*more, strict=True)):
        before, now = float(times[look]), float(times[look + 1])
        if new_old > 0:
            # It is not known when, so it was as soon as the look before was over.
            rows.append(("full", before + CLOCK_SECONDS, now, int(new_old)))
        if new > new_old:
            began = now - float(ago[look + 1])
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
