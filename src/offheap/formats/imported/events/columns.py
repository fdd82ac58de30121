"""Fields of many lines at once, as columns: a loop is too slow for the millions of an event log.

A block is the bytes of whole lines as an array; places are indices into it.
"""

from __future__ import annotations

import hashlib
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

    Fields count as equal if their hashes of 64 bits are, so that no two call sites of a real log collide.
    """
    lengths = ends - starts
    raw = block.tobytes()
    hashes = lengths.astype(np.uint64) * _ODD
    long = np.flatnonzero(lengths > _MOST_HASHED)
    for at in long.tolist():
        field = raw[starts[at] : ends[at]]
        hashes[at] = int.from_bytes(hashlib.blake2b(field, digest_size=8).digest(), "little")
    padded = np.zeros(len(block) + 8, np.uint8)
    padded[: len(block)] = block
    # The eight bytes at any place.
    words = np.ndarray(len(block) + 1, np.dtype("<u8"), padded, strides=(1,))
    left = np.flatnonzero(lengths <= _MOST_HASHED)
    for done in range(0, _MOST_HASHED, 8):
        left = left[lengths[left] > done]
        if not len(left):
            break
        word = words[starts[left] + done] & _MASKS[np.minimum(lengths[left] - done, 8)]
        mixed = (hashes[left] ^ word) * _ODD
        hashes[left] = mixed ^ (mixed >> np.uint64(29))  # the high bits reach the low ones
    _, sample, back = np.unique(hashes, return_index=True, return_inverse=True)
    numbers = [number(raw[starts[place] : ends[place]]) for place in sample.tolist()]
    return np.array(numbers, np.int64)[back.reshape(-1)]


_MOST_HASHED = 2048  # bytes of a field that are hashed beside others': a call site has a hundred
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: spreads a word over all bits
_MASKS = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)  # by bytes of a word
