"""Stacks of addresses in hexadecimal words, read as whole columns: a large dump has millions of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_FRAMES = 2000  # of one stack; deeper ones keep the innermost
_MOST_DIGITS = 16
_PART = 1 << 14  # words at one time: their columns stay in the processor's cache
_FOUR_BITS = np.uint64(4)
_SPACE, _ZERO, _X = ord(" "), ord("0"), ord("x")
_NO_DIGIT = 255
_DIGITS = np.full(256, _NO_DIGIT, np.uint8)
for _value, _digit in enumerate(b"0123456789abcdef"):
    _DIGITS[_digit] = _value


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
    # The spaces at the end let every word be read as one of the most digits.
    whole = "\n".join(texts) + "\n" + " " * (_MOST_DIGITS + 2)
    text = np.frombuffer(whole.encode("ascii", "replace"), np.uint8)
    blank = text <= _SPACE
    before = np.concatenate(([True], blank[:-1]))
    starts, ends = np.flatnonzero(~blank & before), np.flatnonzero(blank & ~before)
    line_ends = np.flatnonzero(text == ord("\n"))
    depths = np.diff(np.searchsorted(starts, line_ends[: len(texts)]), prepend=0)
    values = np.zeros(len(starts), np.uint64)
    for first in range(0, len(starts), _PART):
        part = slice(first, first + _PART)
        values[part], wrong = _values(text, starts[part], ends[part] - starts[part] - 2)
        if wrong.any():
            at = starts[first + int(wrong.argmax())]
            raise NotHexadecimal(int(np.searchsorted(line_ends, at)))
    if depths.max(initial=0) > MOST_FRAMES:
        within = np.arange(len(values)) - np.repeat(np.cumsum(depths) - depths, depths)
        values, depths = values[within < MOST_FRAMES], np.minimum(depths, MOST_FRAMES)
    addresses = np.unique(values)  # with its inverse it would take three times as long
    return AddressStacks(addresses, np.searchsorted(addresses, values), depths.astype(np.int64))


def _values(
    text: NDArray[np.uint8], starts: NDArray[np.int64], digits: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """(values, which of the words are none) of words at places of the text, with so many digits after 0x."""
    wrong = (digits < 1) | (digits > _MOST_DIGITS) | (text[starts] != _ZERO) | (text[starts + 1] != _X)
    values = np.zeros(len(starts), np.uint64)
    shortest, longest = int(digits.min()), int(digits.max())
    for place in range(min(longest, _MOST_DIGITS)):
        digit = _DIGITS[text[starts + (2 + place)]]
        more = (values << _FOUR_BITS) | digit
        if place < shortest:
            wrong |= digit == _NO_DIGIT
            values = more
        else:
            inside = digits > place
            wrong |= inside & (digit == _NO_DIGIT)
            values = np.where(inside, more, values)
    return values, wrong
