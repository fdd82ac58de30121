"""offheap.diff/1: docs/json.md describes it."""

from __future__ import annotations

from typing import Any

from offheap.analysis.diff.results import Change, Diff, Difference, Growth, GrowthChange, Side
from offheap.report.json import schemas

_ORDER: tuple[Change, ...] = ("new", "grown", "shrunk", "gone")
_GROWS: tuple[GrowthChange, ...] = ("leaks", "leaks no more", "faster", "slower")


def diff_json(diff: Diff, java: Diff | None = None) -> dict[str, Any]:
    """offheap.diff/1; `java`: of the Java heaps, None unless both recordings have Java objects."""
    return {
        "schema": "offheap.diff/1",
        "old": _side_value(diff.old),
        "new": _side_value(diff.new),
        "per": diff.unit or None,
        **_changes(diff),
        "java_heap": _changes(java) if java else None,
    }


def _changes(diff: Diff) -> dict[str, Any]:
    return {
        "live_bytes": _difference(diff.live_bytes),
        "malloc_bytes": _difference(diff.malloc),
        "mapped_bytes": _difference(diff.mapped),
        "grows": {kind: diff.grows.get(kind, 0) for kind in _GROWS},
        "changed": {change: diff.changed.get(change, 0) for change in _ORDER},
        "within_chance": diff.by_chance,
        "sites": [
            {
                "rank": site.rank,
                "change": site.change,
                "significant": site.significant,
                "kind": site.kind,
                "live_bytes": _difference(site.live_bytes),
                "live_blocks": _difference(site.live_blocks),
                "allocated_bytes": _difference(site.allocated_bytes),
                "growth": _growth(site.growth),
                "blamed": schemas.frame(site.blamed),
                "stack": [schemas.frame(frame) for frame in site.stack],
            }
            for site in diff.sites
        ],
        "functions": [
            {
                "rank": function.rank,
                "change": function.change,
                "significant": function.significant,
                "function": schemas.frame(function.function),
                "others": function.others,
                "live_bytes": _difference(function.live_bytes),
            }
            for function in diff.functions
        ],
    }


def _side_value(side: Side) -> dict[str, Any]:
    return {"time": side.time, "seconds": round(side.seconds, 3), "recording": schemas.recording(side.info)}


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "old": schemas.quantity(difference.old, 3),
        "new": schemas.quantity(difference.new, 3),
        "change": schemas.quantity(difference.change, 3),
    }


def _growth(growth: Growth | None) -> dict[str, Any] | None:
    if growth is None:
        return None
    return {
        "change": growth.change or None,
        "verdicts": {"old": growth.old, "new": growth.new},
        "bytes": _difference(growth.rate),
    }
