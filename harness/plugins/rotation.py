"""Cells of a matrix that take turns by a seed: each row has one cell, and the seeds in turn have all.

OFFHEAP_SEED is the seed, 0 by default, so that the commit alone decides what runs. `make test-rotated` passes
the day. The header of the run states the seed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import pytest
from _pytest.mark import ParameterSet

VARIABLE = "OFFHEAP_SEED"
DEFAULT = 0


def seed() -> int:
    """The seed of this run."""
    text = os.environ.get(VARIABLE, str(DEFAULT))
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{VARIABLE}: {text!r} is not a whole number") from None


def pytest_report_header() -> str:
    return f"rotation: {VARIABLE}={seed()}"


def one_a_row(rows: Sequence[object], columns: Iterable[object]) -> list[ParameterSet]:
    """(row, column) for parametrize: one column for each row, the others marked slow."""
    names = list(columns)
    return [
        pytest.param(row, name, marks=[] if (at + number - seed()) % len(names) == 0 else [pytest.mark.slow])
        for at, row in enumerate(rows)
        for number, name in enumerate(names)
    ]


def one_of(values: Sequence[object]) -> list[ParameterSet]:
    """All values for parametrize: one as it is, the others marked slow."""
    chosen = seed() % len(values)
    return [
        pytest.param(value, marks=[] if at == chosen else [pytest.mark.slow])
        for at, value in enumerate(values)
    ]


def with_slow(always: Sequence[object], others: Sequence[object]) -> list[ParameterSet]:
    """All values for parametrize: `always` as they are, the others marked slow."""
    return [*map(pytest.param, always), *(pytest.param(value, marks=pytest.mark.slow) for value in others)]
