"""A growth alone, as tables of the evaluation show it."""

from __future__ import annotations

from offheap.quantities import rate_unit


def format_rate(bytes_per_second: float) -> str:
    """In the unit that reads best: `1.2 MiB/s`, `14.0 KiB/min`, `3.1 MiB/h`."""
    return rate_unit([bytes_per_second]).format(bytes_per_second)
