"""Compressed integers (LEB128 of at most 9 bytes) of many places at once: a loop is too slow for millions.

Format: the JDK's jdk.jfr.internal.consumer.RecordingInput.readLong: seven bits a byte, the lowest first, the
high bit tells that another byte follows; the ninth byte has eight bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]

LONGEST = 9  # bytes
PADDING = 24  # zero bytes behind the data, so that each place can be read as two words

_U, _V = np.uint64, np.uint32
_HIGH, _ONES = _U(0x8080808080808080), _U(0x0101010101010101)
_SEVEN = _U(0x7F7F7F7F7F7F7F7F)
_JOINS = (
    (_U(0x7F007F007F007F00), _U(1)),
    (_U(0x3FFF00003FFF0000), _U(2)),
    (_U(0x0FFFFFFF00000000), _U(4)),
)


class Window:
    """Bytes with zeros behind them; places are indices into them.

    length  of the bytes without the zeros
    """

    def __init__(self, data: bytes) -> None:
        self.length = len(data)
        padded = data + bytes(PADDING + -len(data) % 8)
        self.bytes = np.frombuffer(padded, np.uint8)
        self._words = np.frombuffer(padded, "<u8")
        self._halves = np.frombuffer(padded, "<u4")

    def integers(self, places: Places) -> tuple[NDArray[np.uint64], Places]:
        """(values, places behind them) of the integers that begin at `places`, each below `length`."""
        index = places >> 3
        shift = (places & 7).view(np.uint64)
        shift <<= _U(3)
        word = self._words[index]
        word >>= shift
        index += 1
        above = self._words[index]
        # Two shifts, of 1 to 64 bits together: one of 64 is not defined.
        above <<= _U(1)
        np.subtract(_U(63), shift, out=shift)
        above <<= shift
        word |= above
        stops = ~word
        stops &= _HIGH
        below = stops - _U(1)  # with ~stops: all bits below the first stop; all 64 without one
        below &= ~stops
        word &= below
        word &= _SEVEN
        # Neighbours join: a + 2^8 b becomes a + 2^7 b, then pairs of those, then pairs of pairs.
        for mask, bits in _JOINS:
            high = word & mask
            word ^= high
            high >>= bits
            word |= high
        value = word
        below &= _ONES
        below *= _ONES
        below >>= _U(56)
        behind = places + below.view(np.int64)
        long = np.flatnonzero(stops == 0)
        if len(long):
            value[long] |= self.bytes[behind[long]].astype(np.uint64) << _U(56)
            behind[long] += 1
        return value, behind

    def short_integers(self, places: Places) -> tuple[NDArray[np.uint64], Places]:
        """As `integers`, in two thirds of the time where most of them have four bytes at most."""
        index = places >> 2
        shift = ((places & 3) << 3).astype(np.uint32)
        word = (self._halves[index] >> shift) | ((self._halves[index + 1] << _V(1)) << (_V(31) - shift))
        stops = ~word & _V(0x80808080)
        below = (stops & (~stops + _V(1))) - _V(1)
        value = word & below & _V(0x7F7F7F7F)
        value = (value & _V(0x007F007F)) | ((value & _V(0x7F007F00)) >> _V(1))
        value = (value & _V(0x00003FFF)) | ((value & _V(0x3FFF0000)) >> _V(2))
        length = ((below & _V(0x01010101)) * _V(0x01010101)) >> _V(24)
        values, behind = value.astype(np.uint64), places + length
        long = np.flatnonzero(stops == 0)
        if len(long):
            values[long], behind[long] = self.integers(places[long])
        return values, behind

    def run(self, place: int, most: int) -> tuple[NDArray[np.uint64], Places]:
        """(values, places behind them) of up to `most` integers that follow each other from `place` on."""
        # An integer has 9 bytes at most: the last ones are cut off where the span is too short.
        span = self.bytes[place : min(place + LONGEST * most, self.length)]
        ends = np.flatnonzero(span < 0x80)[:most] + (place + 1)
        starts = np.append(place, ends[:-1])[: len(ends)]
        rest = place + len(span) - int(ends[-1] if len(ends) else place)
        if int((ends - starts).max(initial=0)) >= LONGEST or (len(ends) < most and rest >= LONGEST):
            return self._one_by_one(place, most)
        values, _ = self.integers(starts)
        return values, ends

    def _one_by_one(self, place: int, most: int) -> tuple[NDArray[np.uint64], Places]:
        """As `run`, where a ninth byte has its high bit set: it does not tell that another follows."""
        values: list[np.uint64] = []
        ends: list[int] = []
        while len(values) < most and place < self.length:
            value, end = self.integers(np.array([place], np.int64))
            if end[0] > self.length:
                break
            place = int(end[0])
            values.append(value[0])
            ends.append(place)
        return np.array(values, np.uint64), np.array(ends, np.int64)
