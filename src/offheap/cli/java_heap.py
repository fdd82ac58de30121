"""The Java heap of a recording, for the commands that show it beside native memory."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from offheap.errors import UserError

if TYPE_CHECKING:
    from offheap.analysis.java_heap.results import JavaHeapReport
    from offheap.recording.model import Recording


def add_java_heap(parser: argparse.ArgumentParser) -> None:
    """Adds the option that scales Java objects to the heap in use."""
    parser.add_argument(
        "--scale-to-heap",
        action="store_true",
        help="multiply the figures of Java objects so that they sum to the heap in use after a collection",
    )


def java_survivors(recording: Recording) -> Recording | None:
    """The Java objects that survived the last collection; None where none were followed."""
    if recording.java is None:
        return None
    from offheap.analysis.java_heap.settled.last_collection import as_of, ran

    return as_of(recording.java, ran(recording).last)


def java_heap(recording: Recording, scale: bool = False) -> JavaHeapReport | None:
    """None where Java objects were not requested, which is an error with `scale`."""
    if recording.info.java_heap is None:
        if scale:
            raise UserError(
                "--scale-to-heap: the recording has no Java objects",
                "record with --java-heap, or leave it out",
            )
        return None
    from offheap.analysis.java_heap.books import mostly_garbage
    from offheap.analysis.java_heap.report import lacks_counters, report
    from offheap.analysis.java_heap.scaled import scaled

    found = report(recording)
    if found is None or not scale:
        return found
    if found.books is None:
        mend = "record until a collection has run (--gc)"
        if lacks_counters(recording):
            mend = "record a JVM that has performance counters (no -XX:-UsePerfData)"
        raise UserError(
            "--scale-to-heap: the heap in use after a collection is not known", f"leave it out, or {mend}"
        )
    garbage = mostly_garbage(recording, found.books)
    if garbage:
        raise UserError(
            f"--scale-to-heap: much of the heap in use may be garbage {garbage}",
            "leave it out, or record with attach --gc",
        )
    return scaled(found)
