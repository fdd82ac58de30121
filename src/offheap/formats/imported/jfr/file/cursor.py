"""Values of JFR one after the other: for metadata, strings and other values that are few."""

from __future__ import annotations

import struct
from pathlib import Path

from offheap.errors import UserError
from offheap.formats.imported import source

_LONGEST_STRING = 1 << 20  # bytes; async-profiler's have 8,191 at most, those of the JDK are command lines
# How a string is written (jdk.jfr.internal.consumer.StringParser).
_NULL, _EMPTY, _CONSTANT, _UTF8, _CHARACTERS, _LATIN1 = range(6)


class Cursor:
    """Reads from `at` on; `base` is the offset of the data in the file, for messages."""

    def __init__(self, path: Path, data: bytes, base: int, at: int = 0) -> None:
        self.path, self.data, self.base, self.at = path, data, base, at

    def fault(self, what: str) -> UserError:
        return source.fault(self.path, f"byte {self.base + self.at:#x}", what)

    def integer(self) -> int:
        """A compressed integer of 64 bits, without sign."""
        value = shift = 0
        data, at = self.data, self.at
        try:
            while shift < 56:
                byte = data[at]
                at += 1
                value |= (byte & 0x7F) << shift
                if byte < 0x80:
                    self.at = at
                    return value
                shift += 7
            value |= data[at] << 56
        except IndexError:
            raise self.fault("an integer ends too early") from None
        self.at = at + 1
        return value

    def signed(self) -> int:
        value = self.integer()
        return value - (1 << 64) if value >> 63 else value

    def skip(self, count: int) -> None:
        if self.at + count > len(self.data):
            raise self.fault("a value ends too early")
        self.at += count

    def byte(self) -> int:
        self.skip(1)
        return self.data[self.at - 1]

    def number(self, form: str) -> float:
        """A float (">f") or double (">d")."""
        size = struct.calcsize(form)
        self.skip(size)
        return float(struct.unpack_from(form, self.data, self.at - size)[0])

    def string(self) -> str | int:
        """The text, "" for null; the key, if the string is a constant."""
        encoding = self.byte()
        if encoding in (_NULL, _EMPTY):
            return ""
        if encoding == _CONSTANT:
            return self.integer()
        length = self.integer()
        if length > _LONGEST_STRING:
            raise self.fault(f"a string of {length:,} characters")
        if encoding == _CHARACTERS:
            return "".join(chr(min(self.integer(), 0xFFFF)) for _ in range(length))
        if encoding not in (_UTF8, _LATIN1):
            raise self.fault(f"a string of the unknown encoding {encoding}")
        self.skip(length)
        raw = self.data[self.at - length : self.at]
        return raw.decode("utf-8", "replace") if encoding == _UTF8 else raw.decode("latin-1")
