"""The stacks over time, in the page's JSON: small whole numbers, which pack well.

Levels of every stack and quantity are multiples of a power of two, of which the stack's highest level
has no more than 4096; what is written is that power's exponent and, cell by cell, the step from the cell
before.  A level is off by less than one part in 4096 of the stack's highest, or by half a byte.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.totals.downsampled_series import DownsampledSeries

_LEVELS = 4096
_QUANTITIES = ("live_bytes", "live_blocks", "allocated_bytes", "allocated_blocks")


def series(found: DownsampledSeries, place: NDArray[np.int64]) -> dict[str, Any]:
    """`place`: the page's number of every stack, -1 for those left out; web/src/model/series.ts reads it."""
    kept = place[found.stack] >= 0
    stack, time = place[found.stack[kept]], found.time[kept]
    first = np.diff(stack, prepend=-1) != 0
    count = int(place.max(initial=-1)) + 1
    result: dict[str, Any] = {
        "time": [round(float(each), 3) for each in found.times],
        "cells": np.bincount(stack, minlength=count).tolist(),
        "at": _steps(time, first).tolist(),
    }
    for name in _QUANTITIES:
        levels = getattr(found, name)[kept]
        highest = np.zeros(count)
        np.maximum.at(highest, stack, levels)
        exponent = np.ceil(np.log2(np.maximum(highest / _LEVELS, 1.0))).astype(np.int64)
        whole = np.rint(levels / 2.0 ** exponent[stack]).astype(np.int64)
        result[name] = {"exponent": exponent.tolist(), "steps": _steps(whole, first).tolist()}
    return result


def _steps(values: NDArray[np.int64], first: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.where(first, values, np.diff(values, prepend=0))
