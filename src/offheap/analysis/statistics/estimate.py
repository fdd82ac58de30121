"""A quantity with its 95 % interval."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A quantity with its 95 % interval; low == estimate == high when it is exact."""

    estimate: float
    low: float
    high: float
