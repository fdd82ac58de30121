"""A quantity in the page's JSON, which has no word for an infinite number."""

from __future__ import annotations

import math

from offheap.analysis.statistics.estimate import Estimate


def estimate(value: Estimate) -> dict[str, float | None]:
    return {name: _finite(getattr(value, name)) for name in ("estimate", "low", "high")}


def _finite(number: float) -> float | None:
    return float(f"{number:.6g}") if math.isfinite(number) else None
