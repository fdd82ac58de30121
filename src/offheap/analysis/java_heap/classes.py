"""What is live, and what is not collected yet, by class."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.java_heap.results import ClassTotal, Totals
from offheap.analysis.sites.sites import holdings
from offheap.analysis.stacks.frames import class_of
from offheap.analysis.statistics.estimates import Estimates
from offheap.recording.model import Recording

_UNKNOWN = "unknown class"


def totals(java: Recording, chosen: NDArray[np.bool_]) -> Totals:
    """Bytes and number of the objects that these sampled ones stand for."""
    held = _held(java, chosen, np.zeros(len(java.stack_kinds), np.int64), 1)
    return Totals(held[0].at(0), held[1].at(0))


def classes(java: Recording, live: NDArray[np.bool_]) -> tuple[ClassTotal, ...]:
    """Most live bytes first, then most that is not collected; `live`: by row of `java.live`."""
    numbers: dict[str, int] = {}
    of_stack = np.zeros(len(java.stack_kinds), np.int64)
    for stack in np.unique(java.live["stack"]).tolist():
        name = class_of(java.stack(stack)) or _UNKNOWN
        of_stack[stack] = numbers.setdefault(name, len(numbers))
    count = len(numbers)
    in_bytes, objects = _held(java, live, of_stack, count)
    younger, _ = _held(java, ~live, of_stack, count)
    found = [
        ClassTotal(name, in_bytes.at(number), objects.at(number), younger.at(number))
        for name, number in numbers.items()
    ]
    found.sort(key=lambda one: (-one.live_bytes.estimate, -one.uncollected_bytes.estimate, one.name))
    return tuple(found)


def _held(
    java: Recording, chosen: NDArray[np.bool_], of_stack: NDArray[np.int64], count: int
) -> tuple[Estimates, Estimates]:
    rows = java.live[chosen]
    group = of_stack[rows["stack"]]
    order = np.argsort(group, kind="stable")
    rows, group = rows[order], group[order]
    sizes = rows["size"].astype(np.float64)
    stacks, probabilities = rows["stack"].astype(np.int64), np.ascontiguousarray(rows["probability"])
    return holdings(group, stacks, sizes, probabilities, count, error=java.info.weight_error)
