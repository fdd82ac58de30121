"""Which memory of Java objects has been through a garbage collection.

A Java object that nobody needs keeps its memory until it is collected (direct and mapped buffers,
Inflater, Deflater), and until then its blocks look like those of a leak.  What was born before a
collection and is alive at the end went through it: its objects were in use, or had become old before
they were dropped, and wait for a collection of the old generation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.estimates import Floats
from offheap.recording.model import Recording

_FEWEST = 5  # sampled blocks
_CLOCK_SECONDS = 0.1  # by which the JVM's clock and ours may differ
_SHARE = 0.1  # of a site's sampled live blocks: not only what it took at the start, and keeps

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
    over, live = recording.owners, recording.live
    counts, old = over.gauges.get("collections"), over.gauges.get("old-collections")
    if counts is None or old is None or np.isfinite(counts).sum() < 2:
        return None
    of_block = of_stack[live["stack"]]
    blocks = np.bincount(of_block, minlength=sites)

    def through(until: float) -> Bools:
        before = np.bincount(of_block[live["birth"] < until], minlength=sites)
        enough: Bools = (before >= _FEWEST) & (before >= _SHARE * blocks)
        return enough

    (count, last), (count_old, last_old) = _ran(over.times, counts), _ran(over.times, old)
    since = over.gauges.get("since-young-collection")
    if since is not None and count:
        began = over.times - since - _CLOCK_SECONDS
        last = max(
            last, float(np.max(began, where=np.isfinite(began) & (began > over.times[0]), initial=last))
        )
    return Survival(count, count_old, through(last), through(last_old))


def _ran(times: Floats, counts: Floats) -> tuple[int, float]:
    """How many collections there were, and the time before which all that was born met one of them."""
    known = np.isfinite(counts)
    times, counts = times[known], counts[known]
    # Between two looks: it is not known when, so it was as soon as the first of them was over.
    rises = np.flatnonzero(np.diff(counts) > 0)
    return (int(counts[-1] - counts[0]), float(times[rises[-1]])) if len(rises) else (0, -np.inf)
