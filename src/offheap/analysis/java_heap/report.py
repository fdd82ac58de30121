"""What the Java objects of a recording say, in one value."""

from __future__ import annotations

from offheap.analysis.java_heap.books import books
from offheap.analysis.java_heap.classes import classes, totals
from offheap.analysis.java_heap.java_ranking import java_ranking, without_objects
from offheap.analysis.java_heap.over_time import after_collections
from offheap.analysis.java_heap.results import JavaHeapReport
from offheap.analysis.java_heap.settled.last_collection import Ran, lacking, ran
from offheap.quantities import format_count, format_duration, format_size
from offheap.recording.model import JavaHeap, Recording

_FROM_THE_START = 3.0  # seconds of a process's life: a recording that begins later knows no older object
_STATES = {
    "requested": "no JVM was met: no Java object was followed",
    "taken": "Java objects were not followed: another agent holds the JVM's allocation sampler",
    "unavailable": (
        "Java objects were not followed: this JVM has no allocation sampler (HotSpot has one from JDK 11 on)"
    ),
}


def report(recording: Recording) -> JavaHeapReport | None:
    """None: the recording does not follow Java objects."""
    heap = recording.info.java_heap
    if heap is None:
        return None
    java = recording.java or without_objects(recording)
    known = ran(recording)
    ranked = java_ranking(recording)
    live = java.live["birth"] < known.last
    survivors = totals(java, live)
    return JavaHeapReport(
        state=heap.state,
        suspects=ranked,
        survivors=survivors,
        uncollected=totals(java, ~live),
        books=books(recording, survivors.bytes, known),
        classes=classes(java, live),
        after_collections=after_collections(recording, java, known, survivors.bytes),
        coverage=_coverage(recording, heap, known),
        undecided=undecided(recording),
    )


def undecided(recording: Recording) -> str:
    """Why no verdict on Java objects is possible, and what makes one possible; "" if verdicts are."""
    heap = recording.info.java_heap
    if heap is None:
        return "cannot tell: Java objects were not followed (--java-heap)"
    if heap.state != "followed":
        return f"cannot tell: {_STATES[heap.state]}"
    if why := lacking(recording):
        return f"cannot tell yet: {why}; offheap attach --gc asks for a collection"
    return ""


def _coverage(recording: Recording, heap: JavaHeap, known: Ran) -> tuple[str, ...]:
    if heap.state != "followed":
        return (_STATES[heap.state],)
    said = []
    if recording.info.process_age > _FROM_THE_START:
        said.append("objects that are older than the recording are not known")
    if heap.thinned:
        times = "once" if heap.thinned == 1 else f"{heap.thinned} times"
        said.append(
            f"followed objects were thinned at random {times}, since {format_count(heap.most)} can be "
            f"followed: estimates stay unbiased, at one sample each {format_size(heap.interval_bytes)} now"
        )
    if lost := recording.info.lost.get("lost_objects", 0):
        said.append(f"{format_count(lost)} sampled objects found no place: live bytes are too low")
    if why := lacking(recording):
        said.append(f"which objects are live is not known: {why}")
    elif not known.kinds:
        said.append("the kinds of collections are not known: garbage of the old generation may count as live")
    elif (known.last_whole or 0) <= 0:
        said.append("no collection of the whole heap ran: garbage of the old generation counts as live")
    elif not known.whole_lately:
        since = format_duration(known.last - (known.last_whole or 0.0))
        said.append(
            f"no collection of the whole heap ran in the last {since}: later garbage of the old generation "
            "counts as live"
        )
    if lacks_counters(recording):
        said.append(
            "the heap in use is not known, so nothing is compared with it: the recording has no performance "
            "counters of the JVM, as with -XX:-UsePerfData"
        )
    return tuple(said)


def lacks_counters(recording: Recording) -> bool:
    """Whether collections ran of which the JVM told nobody: the probe saw them, and the recorder did not."""
    told = recording.collections is not None or len(recording.heap.times) > 0
    return len(ran(recording).until) > 0 and not told and not recording.info.imported
