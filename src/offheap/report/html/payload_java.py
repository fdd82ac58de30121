"""The Java heap in the page's JSON: web/src/payload/payload.ts names every field."""

from __future__ import annotations

from typing import Any

from offheap.analysis.java_heap.answer import answer as java_answer
from offheap.analysis.page.recording_page import JavaHeapOnPage
from offheap.report.html.estimates import estimate
from offheap.report.text import java_heap as words

MOST_CLASSES = 12  # as high as the chart beside them


def java_heap(heap: JavaHeapOnPage) -> dict[str, Any]:
    """All but the suspects."""
    report = heap.report
    classes, live = report.classes[:MOST_CLASSES], words.live(report)
    after = report.after_collections
    return {
        "followed": report.state == "followed",
        "kind": heap.kind,
        "answer": java_answer(report),
        "compared": heap.compared,
        "live": estimate(report.survivors.bytes),
        "heap_bytes": round(report.books.heap_bytes) if report.books else None,
        "books": [
            text
            for text in (live and f"live: {live}", words.books(report), words.uncollected(report))
            if text
        ],
        "coverage": list(report.coverage),
        "classes": {
            "name": [one.name for one in classes],
            "live_bytes": [estimate(one.live_bytes) for one in classes],
            "live_objects": [round(one.live_objects.estimate) for one in classes],
            "uncollected_bytes": [round(one.uncollected_bytes.estimate) for one in classes],
        },
        "class_count": len(report.classes),
        "after_collections": {
            "time": [round(one.seconds, 3) for one in after],
            "kind": [one.kind for one in after],
            "live_bytes": [round(one.live_bytes.estimate) for one in after],
            "heap_bytes": [None if one.heap_bytes is None else round(one.heap_bytes) for one in after],
        },
    }
