"""Stacks of addresses in hexadecimal words, read as whole columns: a large dump has millions of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_FRAMES = 2000  # of one stack; deeper ones keep the innermost
_MOST_DIGITS = 16
_PART = 1 << 14  # words at one time: their columns stay in the processor's cache
_SPACE, _ZERO, _X = ord(" "), ord("0"), ord("x")

_U = np.uint64
_EACH = _U(0x0101010101010101)  # 1 in each byte
_HIGH, _LOW_HALF, _ZEROS = _U(0x80) * _EACH, _U(0x0F) * _EACH, _U(_ZERO) * _EACH
# What lifts the high bit of a byte, below 0x80, from this character on.
_FROM_0, _BEYOND_9, _FROM_A, _BEYOND_F = (
    _U(0x80 - first) * _EACH for first in (_ZERO, ord("9") + 1, ord("a"), ord("f") + 1)
)
# Neighbours join: digits to bytes, bytes to pairs, pairs to fours; the first one is the highest.
_JOINS = (
    (_U(4), _U(8), _U(0x00FF00FF00FF00FF)),
    (_U(8), _U(16), _U(0x0000FFFF0000FFFF)),
    (_U(16), _U(32), _U(0x00000000FFFFFFFF)),
)
# By how many of eight characters, the last ones, are digits of the word.
_MASKS = np.array([(1 << 64) - (1 << 8 * (8 - count)) for count in range(9)], np.uint64)


class NotHexadecimal(ValueError):
    """`stack`: the place of the first stack with another word than 0x1f."""

    def __init__(self, stack: int) -> None:
        super().__init__(stack)
        self.stack = stack


class AddressStacks(NamedTuple):
    """addresses  distinct ones
    which      places in `addresses`, the stacks one behind the other, innermost first
    depths     of each stack
    """

    addresses: NDArray[np.uint64]
    which: NDArray[np.int64]
    depths: NDArray[np.int64]


def address_stacks(texts: Sequence[str]) -> AddressStacks:
    """Reads lines of addresses with spaces between them, a stack each.  Raises NotHexadecimal."""
    # A letter that is no ASCII becomes a question mark, which is no digit.
    # The spaces in front let the sixteen characters before the end of each word be read.
    margin = " " * _MOST_DIGITS
    text = np.frombuffer(f"{margin}{chr(10).join(texts)}\n{margin}".encode("ascii", "replace"), np.uint8)
    # The eight characters at any place.
    eights = np.ndarray(len(text) - 7, np.dtype("<u8"), text, strides=(1,))
    blank = text <= _SPACE
    before = np.concatenate(([True], blank[:-1]))
    starts, ends = np.flatnonzero(~blank & before), np.flatnonzero(blank & ~before)
    line_ends = np.flatnonzero(text == ord("\n"))
    depths = np.diff(np.searchsorted(starts, line_ends[: len(texts)]), prepend=0)
    values = np.zeros(len(starts), np.uint64)
    for first in range(0, len(starts), _PART):
        part = slice(first, first + _PART)
        values[part], wrong = _values(text, eights, starts[part], ends[part])
        if wrong.any():
            at = starts[first + int(wrong.argmax())]
            raise NotHexadecimal(int(np.searchsorted(line_ends, at)))
    if depths.max(initial=0) > MOST_FRAMES:
        within = np.arange(len(values)) - np.repeat(np.cumsum(depths) - depths, depths)
        values, depths = values[within < MOST_FRAMES], np.minimum(depths, MOST_FRAMES)
    addresses = np.unique(values)  # with its inverse it would take three times as long
    return AddressStacks(addresses, np.searchsorted(addresses, values), depths.astype(np.int64))


def _values(
    text: NDArray[np.uint8], eights: NDArray[np.uint64], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """(values, which of the words are none) of the words between these places of the text."""
    digits = ends - starts - 2
    wrong = (digits < 1) | (digits > _MOST_DIGITS) | (text[starts] != _ZERO) | (text[starts + 1] != _X)
    digits = np.clip(digits, 0, _MOST_DIGITS)
    low, bad = _eight_digits(eights[ends - 8], np.minimum(digits, 8))
    high, bad_high = _eight_digits(eights[ends - 16], np.maximum(digits, 8) - 8)
    return low | (high << _U(32)), wrong | (bad | bad_high).astype(np.bool_)


def _eight_digits(
    characters: NDArray[np.uint64], count: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """(values, 0 where all are digits) of the last `count` of eight characters; the first is the low byte."""
    mask = _MASKS[count]
    word = (characters & mask) | (_ZEROS & ~mask)
    letters = (word + _FROM_A) & _HIGH
    bad = ((~(word + _FROM_0) | (word + _BEYOND_F)) & _HIGH) | ((word + _BEYOND_9) & _HIGH & ~letters)
    value = (word & _LOW_HALF) + (letters >> _U(7)) * _U(9)
    for up, down, both in _JOINS:
        value = ((value << up) | (value >> down)) & both
    return value, bad
