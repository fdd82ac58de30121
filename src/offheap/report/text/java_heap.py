"""The words on the Java heap that every report shares: its books, its classes, how it was recorded."""

from __future__ import annotations

from offheap.analysis.java_heap.results import ClassTotal, JavaHeapReport, Totals
from offheap.quantities import format_count, format_duration, format_size
from offheap.recording.model import JavaHeap
from offheap.report.text import wording

# Rows of the class histogram, unless another number is requested: they fit beside a stack on a screen.
CLASSES = 5

_STATES = {
    "requested": "requested, and no JVM came",
    "taken": "not followed: another agent holds the JVM's allocation sampler",
    "unavailable": "not followed: this JVM has no allocation sampler (HotSpot of JDK 11 and later has one)",
}


def live(report: JavaHeapReport) -> str:
    """The survivors beside the heap in use after the last collection; "" where none is known to have run."""
    if report.undecided:
        return ""
    books = report.books
    held = _totals(report.survivors)
    if books is None:
        return f"{held} survived the last collection"
    heap = f"{format_size(books.heap_bytes)} in use after the last collection"
    if report.scaled is not None:
        return f"{held}, scaled by {report.scaled:.2f} to the {heap} ({books.heap_source})"
    share = wording.amount(books.explained, lambda part: f"{part:.0%}")
    return f"{held} of {heap}, explained {share} ({books.heap_source})"


def books(report: JavaHeapReport) -> str:
    """Why the survivors are not the whole heap, or that both disagree; "" if they agree."""
    found = report.books
    if found is None or not found.why:
        return ""
    return found.why if found.agrees else f"DISAGREES: {found.why}"


def uncollected(report: JavaHeapReport) -> str:
    """Objects younger than the last collection, which may be live or not; "" without such objects."""
    if not report.uncollected.bytes.high:
        return ""
    return f"{_totals(report.uncollected)} not yet collected: not known to be live"


def class_figures(one: ClassTotal) -> tuple[str, str, str]:
    """Live bytes, live objects, bytes not yet collected."""
    return (
        wording.size(one.live_bytes),
        format_count(one.live_objects.estimate),
        format_size(one.uncollected_bytes.estimate),
    )


def followed(heap: JavaHeap, seconds: float) -> str:
    """How Java objects were sampled and followed in so many seconds, or why they were not."""
    if heap.state != "followed":
        return _STATES[heap.state]
    thinned = f", thinned {wording.plural(heap.thinned, 'time')}" if heap.thinned else ""
    return (
        f"sampled every {format_size(heap.interval_bytes)} at last; {heap.followed:,} objects followed of "
        f"{heap.most:,} at most{thinned}; {wording.plural(heap.collections, 'pause')} of collections seen; "
        f"samples took {format_duration(heap.spent_seconds)} of CPU "
        f"({heap.spent_seconds / seconds:.2%} of one CPU)"
    )


def _totals(totals: Totals) -> str:
    return wording.in_blocks(totals.bytes, totals.objects, "objects")
