"""malloc's memory from inside, as `malloc` in offheap.where/1: docs/json.md describes it."""

from __future__ import annotations

from dataclasses import asdict

from offheap.analysis.native_heap.block_sizes import known_as
from offheap.analysis.native_heap.results import BlockSize, NativeHeap, Trimmed, Use
from offheap.report.json.schemas import Value


def native_heap(heap: NativeHeap) -> Value:
    """All sizes and arenas."""
    return {
        "told_apart": heap.told_apart,
        "coverage": round(heap.coverage, 4),
        "estimated": heap.estimated,
        "external": _use(heap.external),
        "jvm": [
            {"name": tagged.name, **_use(tagged.use), "asked_bytes": tagged.asked} for tagged in heap.tags
        ],
        "sizes": [_size(size) for size in heap.sizes],
        "free_resident_bytes": heap.free_resident,
        "trimmable_bytes": heap.trimmable,
        "remedies": [asdict(remedy) for remedy in heap.remedies],
        "arenas": [
            {
                "address": f"{arena.address:#x}" if arena.address else None,
                "heaps": arena.heaps,
                **{f"{name}_bytes": value for name, value in asdict(arena).items() if name not in _NO_BYTES},
            }
            for arena in heap.arenas
        ],
    }


_NO_BYTES = ("address", "heaps")


def _use(use: Use) -> dict[str, int]:
    return {"blocks": use.blocks, "bytes": use.bytes, "resident_bytes": use.resident}


def _size(size: BlockSize) -> Value:
    return {
        "chunk_bytes": size.size,
        "asked_least": size.least,
        "asked_most": size.most,
        "blocks": size.blocks,
        "bytes": size.bytes,
        "resident_bytes": size.resident,
        "known_as": known_as(size) or None,
    }


def trim(trimmed: Trimmed) -> Value:
    """offheap.trim/1."""
    return {
        "schema": "offheap.trim/1",
        "pid": trimmed.pid,
        "name": trimmed.name,
        "how": trimmed.how,
        "seconds": round(trimmed.seconds, 3),
        "before": _kept(trimmed.rss_before, trimmed.before),
        "after": _kept(trimmed.rss_after, trimmed.after),
    }


def _kept(rss: int, heap: NativeHeap | None) -> Value:
    return {
        "rss_bytes": rss,
        "free_resident_bytes": heap.free_resident if heap else None,
        "trimmable_bytes": heap.trimmable if heap else None,
    }
