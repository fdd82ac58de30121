"""A pprof file's tables, read field by field: its samples and locations stay bytes until they are wanted.

A field of two bytes is a message of 60 to 200 bytes once protobuf has decoded it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from offheap.errors import UserError
from offheap.formats import pprof_schema
from offheap.formats.imported import source
from offheap.formats.imported.stack_tables import StackTable
from offheap.recording.model import MALLOC, MMAP

# A file of fields of two bytes takes seconds for each 10 MB: 64 MiB at the default limit.
_TIMES_FILE = 16
_LONGEST_MESSAGE = 1 << 20  # bytes: what it holds takes 30 times as much once it is decoded
# Bytes in memory: a string without its letters, a letter in any language, an entry of a table, a place.
_STRING_BYTES, _LETTER_BYTES, _ENTRY_BYTES, _PLACE_BYTES = 90, 4, 400, 24
_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRING = 1, 2, 3, 4, 5, 6
_OF_HEADER = frozenset([9, 11, 12])  # time_nanos, period_type, period
_STRINGS = ("type", "unit", "name", "system_name", "filename", "build_id")  # fields with indices of strings
_KINDS = {"malloc": MALLOC, "mmap": MMAP}
_JAVA = "java"
_MOST = 65_535  # of LIVE; beyond they are "other threads"
_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5  # wire types


class Function(NamedTuple):
    """Numbers of strings."""

    name: int
    system_name: int
    filename: int


class PprofMapping(NamedTuple):
    """Addresses [memory_start, memory_limit); the rest are numbers of strings.  protobuf's own takes 1 kB."""

    memory_start: int
    memory_limit: int
    file_offset: int
    filename: int
    build_id: int


class PprofMessage:
    """One file.  What is kept is charged to `stacks` until `release`.

    header     a Profile with sample_type, time_nanos, period_type and period
    strings    the table of strings
    functions  by their numbers, as `mappings`
    """

    def __init__(self, path: Path, stacks: StackTable) -> None:
        self.path = path
        self._stacks, self._taken = stacks, 0
        self._data = source.whole(path, _TIMES_FILE)
        self.header: Any = pprof_schema.message_class("Profile")()
        self.strings: list[str] = []
        self.functions: dict[int, Function] = {}
        self.mappings: dict[int, PprofMapping] = {}
        self._places = {_SAMPLE: array("Q"), _LOCATION: array("Q")}
        self._charge(len(self._data))
        self._read()

    def samples(self) -> Iterator[tuple[str, Any]]:
        """(place in the file, message) of each."""
        return self._messages(_SAMPLE, "Sample")

    def locations(self) -> Iterator[tuple[str, Any]]:
        """(place in the file, message) of each; the tables that come of them are charged as well."""
        for place, message in self._messages(_LOCATION, "Location"):
            self._charge(_ENTRY_BYTES + 8 * len(message.line))
            yield place, message

    def string(self, index: int) -> str:
        if not 0 <= index < len(self.strings):
            place, what = self._first_with(index)
            raise self.fault(place, f"{what}: string {index} is not one of {len(self.strings)}")
        return self.strings[index]

    def fault(self, place: str, what: str) -> UserError:
        return source.fault(self.path, place, what)

    def release(self) -> None:
        """Takes the charge back, once nothing of the message is kept."""
        self._stacks.charge(-self._taken)

    def _charge(self, size: int) -> None:
        self._taken += size
        self._stacks.charge(size)

    def _read(self) -> None:
        for number, begin, start, end in self._fields():
            if number in self._places:
                self._charge(_PLACE_BYTES)
                self._places[number].extend((begin, start, end))
            elif number == _STRING:
                self._charge(_STRING_BYTES + _LETTER_BYTES * (end - start))
                self.strings.append(self._data[start:end].decode("utf-8", "replace"))
            elif number == _FUNCTION:
                self._charge(_ENTRY_BYTES)
                one = self._decoded("Function", start, end)
                self.functions[one.id] = Function(one.name, one.system_name, one.filename)
            elif number == _MAPPING:
                self._charge(_ENTRY_BYTES)
                one = self._decoded("Mapping", start, end)
                self.mappings[one.id] = PprofMapping(*(getattr(one, name) for name in PprofMapping._fields))
            elif number == _SAMPLE_TYPE or number in _OF_HEADER:
                self._charge(_ENTRY_BYTES)
                self.header.MergeFrom(self._decoded("Profile", begin, end))
        if not self.strings:
            raise self.fault(f"byte {len(self._data):#x}", "the file ends before its string_table")
        if self.strings[0]:
            at = place_of(self._data, "string_table", 0)
            raise self.fault(f"byte {at:#x}", "the string_table does not begin with the empty string")

    def _messages(self, number: int, name: str) -> Iterator[tuple[str, Any]]:
        places = self._places[number]
        for at in range(0, len(places), 3):
            begin, start, end = places[at : at + 3]
            yield f"byte {begin:#x}", self._decoded(name, start, end)

    def _first_with(self, string: int) -> tuple[str, str]:
        """(place, "function 3") of the first message with this index of a string."""
        for field in ("sample_type", "mapping", "function", "sample"):
            number, name = self.header.DESCRIPTOR.fields_by_name[field].number, -1
            kind = self.header.DESCRIPTOR.fields_by_name[field].message_type.name
            for its, begin, start, end in self._fields():
                if its != number:
                    continue
                name += 1
                one = self._decoded(kind, start, end)
                if any(string == getattr(one, text, 0) for text in _STRINGS) or any(
                    string in (label.key, label.str) for label in getattr(one, "label", ())
                ):
                    return f"byte {begin:#x}", f"{field} {name}"
        return "byte 0x0", "period_type"

    def _decoded(self, name: str, start: int, end: int) -> Any:
        if end - start > _LONGEST_MESSAGE:
            raise self.fault(f"byte {start:#x}", f"a {name} of more than {_LONGEST_MESSAGE >> 20} MiB")
        try:
            return pprof_schema.message_class(name).FromString(self._data[start:end])
        except Exception as error:  # DecodeError of the installed protobuf
            raise self._damaged(start, str(error)) from None

    def _fields(self) -> Iterator[tuple[int, int, int, int]]:
        """(number, where the field, its content and its end are) of each."""
        data, at, size = self._data, 0, len(self._data)
        while at < size:
            begin = at
            tag, at = varint(data, at)
            kind = tag & 7
            if kind == _LENGTH:
                length, start = varint(data, at)
                at = start + length
            else:
                start = at
                if kind == _VARINT:
                    at = varint(data, at)[1]
                elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
                    at += 8 if kind == _EIGHT_BYTES else 4
                else:
                    raise self._damaged(begin, f"a field of type {kind}")
            if at > size or (kind == _VARINT and data[at - 1] >= 0x80):
                raise self._damaged(begin, "the field is not whole")
            yield tag >> 3, begin, start, at

    def _damaged(self, at: int, why: str) -> UserError:
        return self.fault(f"byte {at:#x} of {len(self._data):#x}", f"not a pprof profile ({why})")


class Labels:
    """What the samples of all files say.

    threads  by LIVE["thread"]; the first is that of samples without a thread
    java     whether a sample is of Java objects
    """

    def __init__(self) -> None:
        self.threads = ["other threads"]
        self.java = False
        self._numbers: dict[str, int] = {}

    def of(self, message: PprofMessage, sample: Any) -> tuple[int, int]:
        """(kind, number of the thread) of a sample."""
        kind, thread = MALLOC, 0
        for label in sample.label:
            key = message.string(label.key)
            if key == "kind":
                value = message.string(label.str)
                kind = _KINDS.get(value, MALLOC)
                self.java = self.java or value == _JAVA
            elif key == "thread" and label.str:
                thread = self._number(message.string(label.str))
        return kind, thread

    def _number(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = 0
            if len(self.threads) < _MOST:
                number = len(self.threads)
                self.threads.append(name)
            self._numbers[name] = number
        return number


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
