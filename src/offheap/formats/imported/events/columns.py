"""Fields of many lines at once, as columns: a loop is too slow for the millions of an event log.

A block is the bytes of whole lines as an array; places are indices into it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]

NEWLINE, SPACE = 10, 32
MOST_DIGITS = 16  # of a hexadecimal number of 64 bits

_BAD = 255
_DIGITS = np.full(256, _BAD, np.uint8)
for _value, _pair in enumerate(
    ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "aA", "bB", "cC", "dD", "eE", "fF")
):
    for _character in _pair:
        _DIGITS[ord(_character)] = _value


def lines(block: Bytes) -> tuple[Places, Places]:
    """(first byte, place of the newline) of each line; the block ends in a newline."""
    ends = np.flatnonzero(block == NEWLINE)
    starts = np.empty_like(ends)
    starts[:1] = 0
    starts[1:] = ends[:-1] + 1
    return starts, ends


def hexadecimal(block: Bytes, starts: Places, ends: Places) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """(values, which are numbers) of the fields [start, end), with or without 0x, of 64 bits."""
    last = len(block) - 1
    starts = np.clip(starts, 0, last)
    prefixed = (
        (ends - starts > 2) & (block[starts] == ord("0")) & (block[np.minimum(starts + 1, last)] == ord("x"))
    )
    starts = starts + 2 * prefixed
    length = ends - starts
    good = (length > 0) & (length <= MOST_DIGITS)
    values = np.zeros(len(starts), np.uint64)
    for place in range(int(length[good].max(initial=0))):
        inside = good & (place < length)
        digits = _DIGITS[block[np.minimum(starts + place, last)]]
        good &= ~inside | (digits != _BAD)
        values = np.where(inside, (values << np.uint64(4)) | digits, values)
    return values, good


def distinct(block: Bytes, starts: Places, ends: Places, number: Callable[[bytes], int]) -> NDArray[np.int64]:
    """For each field what `number` says of its bytes; called once for each different field of the block.

    Fields count as equal if length and two sums over their bytes are: a sum of the bytes, and one that weighs
    them by their places.  The second is of 64 bits, so that no two call sites of a real log collide.
    """
    # One leading zero: sums[end] - sums[start] is the sum over a field.
    plain = np.zeros(len(block) + 1, np.uint64)
    np.cumsum(_MIXED[block], out=plain[1:])
    weighed = np.zeros(len(block) + 1, np.uint64)
    np.cumsum(_MIXED[block] * np.arange(len(block), dtype=np.uint64), out=weighed[1:])
    first = plain[ends] - plain[starts]
    # Sum of value * (place - start), which does not depend on the place of the field.  Overflow is arithmetic
    # modulo 2**64.
    second = weighed[ends] - weighed[starts] - first * starts.astype(np.uint64)
    key = (first * _ODD) ^ second ^ ((ends - starts).astype(np.uint64) << np.uint64(48))
    _, sample, back = np.unique(key, return_index=True, return_inverse=True)
    raw = block.tobytes()
    numbers = [number(raw[starts[place] : ends[place]]) for place in sample.tolist()]
    return np.array(numbers, np.int64)[back.reshape(-1)]


# A random number for each byte, so that fields of the same letters in another order differ.
_MIXED = np.random.default_rng(1).integers(0, 1 << 63, 256, np.uint64)
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: spreads the sum over all bits
