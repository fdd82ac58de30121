"""The Java heap's growth by class, as `histogram` in offheap.where/1."""

from __future__ import annotations

from dataclasses import asdict

from offheap.analysis.owners.heap_growth import HeapGrowth
from offheap.report.json.schemas import Value


def heap_growth_json(found: HeapGrowth) -> Value:
    """All classes that grew."""
    return {
        "seconds": round(found.seconds, 3),
        "live_bytes": found.live,
        "growth_bytes": found.growth,
        "classes": [asdict(one) for one in found.classes],
        "direct_buffers": asdict(found.direct),
        "native_holders": [asdict(one) for one in found.holders],
        "pause_seconds": round(found.pause, 3),
        "heap_dump_next": found.dump,
        "why": found.why,
    }
