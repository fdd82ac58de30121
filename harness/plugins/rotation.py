"""Cells of a matrix that take turns by the day: every row has one each day, and in time all."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

import pytest
from _pytest.mark import ParameterSet


def by_day(rows: Sequence[object], columns: Iterable[object]) -> list[ParameterSet]:
    """(row, column) for parametrize: one column for each row today, the others marked slow."""
    names = list(columns)
    day = datetime.date.today().toordinal()
    return [
        pytest.param(row, name, marks=[] if (at + number - day) % len(names) == 0 else [pytest.mark.slow])
        for at, row in enumerate(rows)
        for number, name in enumerate(names)
    ]


def one_by_day(values: Sequence[object]) -> list[ParameterSet]:
    """All for parametrize: today's as it is, the others marked slow."""
    today = datetime.date.today().toordinal() % len(values)
    return [
        pytest.param(value, marks=[] if at == today else [pytest.mark.slow])
        for at, value in enumerate(values)
    ]


def with_slow(always: Sequence[object], others: Sequence[object]) -> list[ParameterSet]:
    """All for parametrize: `always` as they are, the others marked slow."""
    return [*map(pytest.param, always), *(pytest.param(value, marks=pytest.mark.slow) for value in others)]
