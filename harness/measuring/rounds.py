"""Variants of one measurement in alternation, so that other load on the machine affects all alike."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress

from offheap.analysis.statistics import student

Variant = TypeVar("Variant")


@dataclass(frozen=True)
class Cost:
    """The least and the median of one variant's rounds, in the unit of the measurement."""

    least: float
    median: float

    def __str__(self) -> str:
        digits = 1 if self.least < 100 else 0
        return f"{self.least:,.{digits}f} ({self.median:,.{digits}f})"


@dataclass(frozen=True)
class Ratio:
    """A mean ratio with its 95 % interval; NaN at both ends if one round is all there was."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isnan(self.low):
            return f"{self.mean - 1:+.1%}"
        return f"{self.mean - 1:+.1%} ({self.low - 1:+.1%} to {self.high - 1:+.1%})"


def paired(own: Sequence[float], base: Sequence[float]) -> Ratio:
    """The geometric mean of the rounds' ratios, with Student's t of their logarithms."""
    logarithms = [math.log(a / b) for a, b in zip(own, base, strict=True)]
    mean, count = statistics.mean(logarithms), len(logarithms)
    half = math.nan
    if count > 1:
        half = student.quantile(count - 1) * statistics.stdev(logarithms) / math.sqrt(count)
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def turns(variants: Sequence[Variant], rounds: int) -> Iterator[tuple[int, Variant]]:
    """(index, variant): every round has every variant, each time beginning with another one."""
    for turn in range(rounds):
        for i in range(len(variants)):
            index = (turn + i) % len(variants)
            yield index, variants[index]


def alternate(
    variants: Sequence[Variant], rounds: int, measure: Callable[[Variant], float | None]
) -> list[Cost | None]:
    """Each variant's cost; None for one whose measurement answered None once."""
    measured: list[list[float] | None] = [[] for _ in variants]
    with Progress(console=Console(stderr=True)) as bar:
        total = rounds * len(variants)
        for index, variant in bar.track(turns(variants, rounds), total=total, description="rounds"):
            results = measured[index]
            if results is None:
                continue
            figure = measure(variant)
            if figure is None:
                measured[index] = None
            else:
                results.append(figure)
    return [Cost(min(results), statistics.median(results)) if results else None for results in measured]
