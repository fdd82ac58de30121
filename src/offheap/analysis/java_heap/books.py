"""Whether the books close: the survivors of the last collection beside the heap in use after it.

The JVM counts the heap in use after each collection (the table `heap`, docs/recording-format.md).
These are two independent estimates of one quantity: if they disagree, one of them is wrong.

The estimate may be lower.  A recording does not know objects from before its start.  The heap in use also has
memory that no sample finds: objects that are younger than the start of the collection, the rest of regions
and buffers that HotSpot fills with dummy arrays, archived objects, mirrors and interned strings that HotSpot
itself makes.  ZGC counts last as it begins to move objects: with the garbage beside them, and with all of
each page (zServiceability.cpp, JDK 11 to 25).  Shenandoah, and G1 after a concurrent cycle, free the regions
that they choose; garbage in the others is in use and at no followed object.  Generational ZGC judges only
objects that were old at its last collection of the old generation; younger ones are in use as well.
"""

from __future__ import annotations

import numpy as np

from offheap.analysis.java_heap.results import Books
from offheap.analysis.java_heap.settled.last_collection import Ran, heap_after
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.verdicts.promotion import keeps_young_garbage, options_of
from offheap.quantities import format_size
from offheap.recording.model import G1, Recording

SOURCE = "hsperfdata"
# Bytes of the JVM's own objects after its start: archived ones, mirrors, interned strings, those of class
# loading before any agent listens.  `jcmd GC.class_histogram` of an idle JVM 17 or 25 has 1 to 3 MiB of them.
_OF_THE_JVM = 8 << 20
# Share of the heap in use that is no object of the program: dummy arrays and the rest of regions.
_FILLERS = 0.1
# Bytes by which an estimate may exceed the heap in use.  Alignment and headers count alike in
# both; the JVM counts some regions as a whole (G1: 1 to 4 MiB each in most heaps).
_ROUNDING = 4 << 20
# Share of the heap in use: with less at survivors, garbage may be as much as all other memory of the heap.
_WELL_EXPLAINED = 0.7
# Seconds of a process's life: a recording that begins then knows nearly all its objects.
_FROM_THE_START = 3.0


def books(recording: Recording, estimate: Estimate, known: Ran) -> Books | None:
    """None: no collection ran, or the JVM does not tell the heap in use after it."""
    after = heap_after(recording, float(known.ended[known.until.argmax()])) if len(known.until) else None
    if after is None:
        return None
    heap, seconds = after
    explained = Estimate(estimate.estimate / heap, estimate.low / heap, estimate.high / heap)
    agrees, why = _compare(recording, estimate, heap)
    return Books(heap, SOURCE, seconds, estimate, explained, agrees, why)


def _compare(recording: Recording, estimate: Estimate, heap: float) -> tuple[bool, str]:
    if estimate.low > heap + _ROUNDING:
        more = format_size(estimate.low - heap)
        return False, f"the estimate is above the heap in use, by {more} at least: one of them is wrong"
    if recording.info.process_age > _FROM_THE_START:
        if estimate.high >= heap:
            return True, "the estimate is that within its interval"
        return True, "the rest is older than the recording, or the JVM's own"
    if estimate.high >= heap * (1 - _FILLERS) - _OF_THE_JVM:
        return True, "the rest is the JVM's own, or within the interval"
    if keeps_young_garbage(recording):
        return True, "the rest is too young to be judged, the JVM's own, or garbage beside objects in use"
    if garbage := _counted_garbage(recording):
        return True, f"the rest is the JVM's own, or garbage {garbage}"
    less = format_size(heap - estimate.high)
    return False, f"{less} of the heap in use at least is at no sampled object, more than the JVM's own"


def mostly_garbage(recording: Recording, found: Books) -> str:
    """Where the garbage is that may be much of the heap in use, as the estimate leaves it; else ""."""
    little = recording.info.after_collection or found.explained.high >= _WELL_EXPLAINED
    return "" if little else _counted_garbage(recording)


def _counted_garbage(recording: Recording) -> str:
    """Where the garbage is that the heap in use may have beside the survivors; "" if it has little."""
    options, known = options_of(recording.info), recording.collections
    if "-XX:+UseZGC" in options:
        return "beside objects that ZGC had yet to move"
    if "-XX:+UseShenandoahGC" in options:
        return "in regions that Shenandoah did not choose"
    if known is not None and known.collector == G1:
        order = np.argsort(known.ended, kind="stable")
        whole = [kind for kind in (known.kinds[row] for row in order.tolist()) if kind != "young"]
        if whole and whole[-1] == "concurrent":
            return "in regions that G1 had yet to choose"
    return ""
