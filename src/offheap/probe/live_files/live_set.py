"""The live set as numbers: rows of the live file to model.LIVE, and sums per stack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.probe import contract
from offheap.recording.model import LIVE

Rows = NDArray[Any]
Floats = NDArray[np.float64]


def inclusion_probability(
    sizes: NDArray[np.uint64], codes: NDArray[np.integer[Any]], intervals: NDArray[np.uint64]
) -> Floats:
    """The probability of a block of s bytes under a mean interval T: 1 - exp(-s/T); 1 without sampling."""
    mean = intervals[codes].astype(np.float64)
    exact = mean == 0
    probability = -np.expm1(-np.maximum(sizes, 1).astype(np.float64) / np.where(exact, 1.0, mean))
    probability[exact] = 1.0
    return probability


def interval_codes(values: Rows) -> NDArray[np.intp]:
    """The interval codes of contract.VALUE rows."""
    codes = (values["block"] >> np.uint64(contract.VALUE_INTERVAL_SHIFT)) & np.uint64(0xFF)
    numbers: NDArray[np.intp] = codes.astype(np.intp)
    return numbers


def live_blocks(values: Rows, intervals: NDArray[np.uint64], tick_seconds: float) -> Rows:
    """model.LIVE of contract.VALUE rows."""
    block = values["block"]
    live = np.empty(len(values), LIVE)
    live["stack"] = values["stack"]
    live["thread"] = block >> np.uint64(contract.VALUE_THREAD_SHIFT)
    live["size"] = block & np.uint64(contract.VALUE_SIZE_MASK)
    live["birth"] = values["birth"] * tick_seconds
    live["probability"] = inclusion_probability(live["size"], interval_codes(values), intervals)
    return live


def live_ranges(rows: Rows, intervals: NDArray[np.uint64], tick_seconds: float) -> Rows:
    """model.LIVE of contract.RANGE rows; the rest after a partial munmap has the probability of the whole."""
    rows = rows[(rows["start"] != 0) & (rows["end"] > rows["start"])]
    live = np.empty(len(rows), LIVE)
    live["stack"] = rows["stack"]
    live["thread"] = rows["thread"]
    live["size"] = rows["end"] - rows["start"]
    live["birth"] = rows["birth"] * tick_seconds
    codes = rows["interval"].astype(np.intp)
    live["probability"] = inclusion_probability(rows["length_at_birth"], codes, intervals)
    return live


def concatenate(parts: Sequence[Rows]) -> Rows:
    """One array of model.LIVE."""
    return np.concatenate(parts) if parts else np.zeros(0, LIVE)


@dataclass(frozen=True)
class StackSums:
    """Horvitz-Thompson totals by stack number, and their variance estimates."""

    blocks: Floats
    bytes: Floats
    blocks_variance: Floats
    bytes_variance: Floats


def sums_by_stack(live: Rows, stacks: int) -> StackSums:
    """Sums of 1/p, s/p, (1-p)/p^2 and s^2 (1-p)/p^2 over model.LIVE rows of stacks [0, `stacks`)."""
    stack = np.where(live["stack"] < stacks, live["stack"], 0)
    size = live["size"].astype(np.float64)
    weight = 1.0 / live["probability"]
    spread = (1.0 - live["probability"]) * weight * weight

    def total(values: Floats) -> Floats:
        return np.bincount(stack, values, minlength=stacks).astype(np.float64, copy=False)

    return StackSums(total(weight), total(size * weight), total(spread), total(size * size * spread))
