"""The Java heap in the documented JSON: the object under "java_heap" of several schemas."""

from __future__ import annotations

from itertools import islice
from typing import Any

from offheap.analysis.java_heap.answer import answer as java_answer
from offheap.analysis.java_heap.results import JavaHeapReport, Totals
from offheap.analysis.leaks.conclusion import conclude
from offheap.recording.model import JavaHeap
from offheap.report.json import schemas

Value = dict[str, Any]


def java_leaks(report: JavaHeapReport, classes: int | None = None, top: int | None = None) -> Value:
    """The key `java_heap` of offheap.leaks/1 and offheap.ticket/1."""
    listed = list(report.suspects if top is None else report.suspects.notable(top))
    return {
        **_head(report),
        "answer": java_answer(report),
        "undecided": report.undecided,
        "power": schemas.power(conclude(report.suspects)),
        "verdicts": schemas.verdicts(report.suspects.counts()),
        "classes": [
            {
                "name": one.name,
                "live_bytes": schemas.quantity(one.live_bytes),
                "live_objects": schemas.quantity(one.live_objects),
                "uncollected_bytes": schemas.quantity(one.uncollected_bytes),
            }
            for one in islice(report.classes, classes)
        ],
        "after_collections": [
            {
                "seconds": round(one.seconds, 3),
                "kind": one.kind,
                "live_bytes": schemas.quantity(one.live_bytes),
                "heap_bytes": None if one.heap_bytes is None else round(one.heap_bytes),
            }
            for one in report.after_collections
        ],
        "suspects": [
            {"class": one.object_class, **value}
            for one, value in zip(listed, schemas.suspects(listed), strict=True)
        ],
    }


def java_summary(report: JavaHeapReport, top: int | None = None) -> Value:
    """The key `java_heap` of offheap.summary/1."""
    return {
        **_head(report),
        "sites": [
            {
                "class": one.object_class,
                "share": round(report.share(one), 4),
                "live_bytes": schemas.quantity(one.site.live_bytes),
                "live_objects": schemas.quantity(one.site.live_blocks),
                "allocated_bytes": schemas.quantity(one.site.allocated_bytes),
                "allocated_objects": schemas.quantity(one.site.allocated_blocks),
                "blamed": schemas.frame(one.blamed),
                "threads": list(one.site.threads),
                "stack": schemas.stack(one.site),
            }
            for one in report.largest(top)
        ],
    }


def java_sampling(heap: JavaHeap | None) -> Value | None:
    """The key `java_heap` of offheap.stats/1; None where Java objects were not requested."""
    if heap is None:
        return None
    return {
        "state": heap.state,
        "interval_bytes": heap.interval_bytes,
        "followed": heap.followed,
        "most": heap.most,
        "thinned": heap.thinned,
        "collections": heap.collections,
        "spent_seconds": round(heap.spent_seconds, 6),
    }


def _head(report: JavaHeapReport) -> Value:
    books = report.books
    return {
        "state": report.state,
        "survivors": _totals(report.survivors),
        "uncollected": _totals(report.uncollected),
        "books": {
            "heap_bytes": round(books.heap_bytes),
            "heap_source": books.heap_source,
            "seconds": round(books.seconds, 3),
            "estimate": schemas.quantity(books.estimate),
            "explained": schemas.quantity(books.explained, 4),
            "agrees": books.agrees,
            "why": books.why,
        }
        if books
        else None,
        "scaled": None if report.scaled is None else round(report.scaled, 4),
        "coverage": list(report.coverage),
    }


def _totals(totals: Totals) -> Value:
    return {"bytes": schemas.quantity(totals.bytes), "objects": schemas.quantity(totals.objects)}
