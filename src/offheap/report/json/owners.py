"""What readings over time, or a recording, add to offheap.where/1: docs/json.md describes it."""

from __future__ import annotations

import math

from offheap.analysis.owners.accounts import TITLES
from offheap.analysis.owners.results import OwnersGrowth, WhereVerdict
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.verdicts.power import DEFAULT_LIMIT, PROBABILITY
from offheap.recording.model import Info, OwnersOverTime
from offheap.report.json.schemas import Value


def recorded(info: Info, found: OwnersGrowth) -> Value:
    """The owners of a recording as of its last reading, in the form of one inspection of a process."""
    unattributed = next((one.bytes for one in found.owners if one.owner == "unattributed"), 0.0)
    return {
        "schema": "offheap.where/1",
        "pid": info.pid,
        "name": info.main_class,
        "java_version": info.java_version or None,
        "rss_bytes": round(found.rss.bytes),
        "owners": [
            {"owner": one.owner, "title": _title(one.owner), "bytes": round(one.bytes), "detail": []}
            for one in found.owners
            if one.owner != "unattributed" and one.bytes
        ],
        "unattributed_bytes": round(unattributed),
    }


def with_growth(document: Value, found: OwnersGrowth, over: OwnersOverTime, ended: str) -> Value:
    """The same document with growth, verdict and every reading."""
    growth = {one.owner: _estimate(one.growth) for one in found.owners}
    owners = [
        {**owner, "growth_bytes_per_second": growth.get(owner["owner"])} for owner in document["owners"]
    ]
    return {
        **document,
        "owners": owners,
        "growth_bytes_per_second": _estimate(found.rss.growth),
        "unattributed_growth_bytes_per_second": growth.get("unattributed"),
        "verdict": _verdict(found.verdict),
        "watch": {
            "seconds": round(found.seconds, 3),
            "looks": found.readings,
            "ended": ended,
            "times": [round(float(time), 3) for time in over.times],
            "rss_bytes": [round(float(size)) for size in over.rss],
            "owners": {
                name: [round(float(b)) for b in over.bytes[:, at]] for at, name in enumerate(over.names)
            },
            "gauges": {
                name: [float(value) if math.isfinite(value) else None for value in values]
                for name, values in over.gauges.items()
            },
        },
    }


def _verdict(verdict: WhereVerdict) -> Value:
    return {
        "kind": verdict.kind,
        "why": verdict.why,
        "next": list(verdict.next),
        "needs_seconds": verdict.needs_seconds,
        "power": None
        if verdict.excluded is None
        else {
            "bytes_per_second": round(verdict.excluded, 3) if math.isfinite(verdict.excluded) else None,
            "limit_bytes_per_second": round(DEFAULT_LIMIT, 3),
            "probability": PROBABILITY,
        },
        "grown": [
            {"name": one.name, "unit": one.unit, "before": one.before, "after": one.after}
            for one in verdict.grown
        ],
    }


def _estimate(one: Estimate | None) -> Value | None:
    if one is None:
        return None
    return {
        "estimate": round(one.estimate, 1),
        "low": round(one.low, 1) if math.isfinite(one.low) else None,
        "high": round(one.high, 1) if math.isfinite(one.high) else None,
    }


def _title(owner: str) -> str:
    return next((title for name, title in TITLES.items() if name == owner), owner)
