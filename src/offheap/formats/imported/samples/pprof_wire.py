"""Places in the bytes of a pprof profile, for messages about a fault: protobuf's wire format.

The source of the format is protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from offheap.formats import pprof_schema


def damaged_field(data: bytes) -> int:
    """Where the first field of the message begins that cannot be decoded, or that the data's end cuts off."""
    for at, tag, end in _fields(data):
        if tag & 7 not in (0, 2):  # a profile has varints and what has a length
            return at
        try:
            pprof_schema.profile_class()().ParseFromString(data[at:end])
        except Exception:
            return at
    return len(data)


def place_of(data: bytes, field: str, number: int) -> int:
    """Where a message of a repeated field begins; `number`: how many of them are before it."""
    wanted = pprof_schema.profile_class().DESCRIPTOR.fields_by_name[field].number << 3 | 2
    places = (at for at, tag, _ in _fields(data) if tag == wanted)
    return next(islice(places, number, None), len(data))


def _fields(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(place, tag, end) of the fields; those of a group, which no profile has, are among them."""
    at = 0
    while at < len(data):
        tag, end = varint(data, at)
        if tag & 7 == 0:
            _, end = varint(data, end)
        elif tag & 7 == 2:
            length, end = varint(data, end)
            end += length
        else:
            end += {1: 8, 5: 4}.get(tag & 7, 0)
        yield at, tag, end
        at = end


def varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, place after it) of protobuf's variable-length integers; 0 past the end."""
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            break
        shift += 7
    return value, at
