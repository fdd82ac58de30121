"""The 97.5 % quantile of Student's t, for the 95 % interval of a few values."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

# By degrees of freedom.
_TABLE = (math.inf, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)
TABULATED = len(
    _TABLE
)  # degrees of freedom from which the quantile is nearly that of the normal distribution
# The quantile of infinitely many degrees of freedom: that of the normal distribution.
NORMAL_95 = 1.959963984540054
DEVIATIONS_95 = 1.96  # the same with the two places of the table, where both give one interval
_TABLE_ROW = np.array(_TABLE)


def quantile(freedom: int) -> float:
    """Infinite without a degree of freedom; beyond the table by expansion (Abramowitz and Stegun 26.7.5)."""
    if freedom < TABULATED:
        return _TABLE[freedom]
    z = NORMAL_95
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def quantiles(freedom: NDArray[np.int64]) -> NDArray[np.float64]:
    """The quantiles of an array; beyond the table its last value, which is wider than the true one."""
    found: NDArray[np.float64] = _TABLE_ROW[np.clip(freedom, 0, TABULATED - 1)]
    return found
