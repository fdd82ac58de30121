"""What survived each collection, beside the heap in use after it."""

from __future__ import annotations

import numpy as np

from offheap.analysis.java_heap.results import AfterCollection
from offheap.analysis.java_heap.settled.last_collection import Ran, reading_after
from offheap.analysis.java_heap.settled.settled_history import first_after, live_after
from offheap.analysis.sites.grouping import Grouping
from offheap.analysis.statistics import estimates
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.verdicts.survival import CLOCK_SECONDS
from offheap.recording.model import Recording

MOST = 500  # points: more than a chart can show, and each costs a pass over all stacks


def after_collections(
    recording: Recording, java: Recording, known: Ran, survivors: Estimate
) -> tuple[AfterCollection, ...]:
    """One for each snapshot that follows a collection, by time; the last has the survivors themselves."""
    if not known.kinds:
        return ()
    stacks = len(java.stack_kinds)
    together = Grouping(np.zeros(stacks, np.int64), [list(range(stacks))])
    snapshots, begun = first_after(java, known, known.last)
    if len(begun) > MOST:
        chosen = np.unique(np.linspace(0, len(begun) - 1, MOST).astype(np.int64))
        snapshots, begun = snapshots[chosen], begun[chosen]
    found = []
    if len(begun):
        (live, variance), _ = live_after(java, together, snapshots, begun, ("bytes", "bytes_variance"))
        ones = np.ones(len(begun))
        # Only the variance of the sums is known, so no part counts as certain.
        many = estimates.of_many_sums(0 * ones, live[0], variance[0], ones)
        found = [(float(time), many.at(place)) for place, time in enumerate(begun.tolist())]
    found.append((known.last, survivors))
    in_use = recording.heap
    result = []
    for time, live_bytes in found:
        row = int(np.searchsorted(known.until, time, "right")) - 1
        ended = float(known.ended[row])
        after = reading_after(in_use.times, ended)
        told = after >= 0 and in_use.times[after] >= ended - CLOCK_SECONDS
        heap = float(in_use.bytes[after]) if told else None
        result.append(AfterCollection(time, known.kinds[row], live_bytes, heap))
    return tuple(result)
