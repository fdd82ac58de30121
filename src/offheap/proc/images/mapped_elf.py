"""An ELF image from the memory of its mapping, for a library whose file is gone.

The loaded segments hold the exported symbols (.dynsym, .dynstr, and a hash table with their number) and the
build-id, but no section headers and no .symtab.  `exported_symbols` copies these into a separate small ELF
file, which `ElfImage` reads like any other.  The memory is another process's and is not trusted: each size
has a bound, and a misfit raises `ElfError`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.proc.images.elf import (
    ELF_HEADER,
    INDEX_UNDEFINED,
    SECTION_EXECUTE,
    SECTION_HEADER,
    SECTION_NOBITS,
    SECTION_NOTE,
    SEGMENT,
    SEGMENT_DYNAMIC,
    SEGMENT_EXECUTE,
    SEGMENT_LOAD,
    SEGMENT_NOTE,
    SYMBOL,
    ElfError,
)

# (address, bytes) -> that memory; OSError if there is none.
Read = Callable[[int, int], bytes]

_MOST_SEGMENTS = 64  # libraries have 7 to 14
_MOST_DYNAMIC = 4096  # entries; libjvm has 30
_MOST_NOTES = 4096  # bytes of one segment; the build-id has 36
_LARGEST_TABLE = 64 << 20  # bytes of symbols, or of names; those of a machine-learning runtime take 40 MB
_MOST_SYMBOLS = _LARGEST_TABLE // SYMBOL.itemsize
_STEP = 1024  # words of a hash chain per read

_DYNAMIC = np.dtype([("tag", "<i8"), ("value", "<u8")])
_HASH, _STRINGS, _SYMBOLS, _STRING_BYTES, _GNU_HASH = 4, 5, 6, 10, 0x6FFFFEF5  # _DYNAMIC["tag"]
_STRTAB, _DYNSYM = 3, 11  # types of sections


@dataclass(frozen=True, slots=True)
class MappedModule:
    """A module of a process.

    path        the name in the dynamic linker or /proc/PID/maps
    build_id    in lower-case hexadecimal, "" if it has none
    start       its first mapped address
    bias        mapped address minus ELF virtual address
    descriptor  of the process, open on its file (or on a copy of its memory from `start` on); -1: none
    copied      whether the descriptor is of the copy
    """

    path: str
    build_id: str
    start: int
    bias: int
    descriptor: int = -1
    copied: bool = False


def exported_symbols(read: Read, start: int, bias: int) -> bytes:
    """An ELF file with the build-id and the exported symbols of the image that is mapped at `start`.

    `bias`: mapped address minus ELF virtual address.  OSError or ElfError when it cannot be made.
    """
    header = ELF_HEADER.unpack(_exactly(read, start, ELF_HEADER.size))
    if header[0][:6] != b"\x7fELF\x02\x01":
        raise ElfError("has no ELF header in memory")
    count = header[10]
    if header[9] != SEGMENT.itemsize or not 0 < count <= _MOST_SEGMENTS:
        raise ElfError("has no program headers in memory")
    raw = _exactly(read, start + header[5], count * SEGMENT.itemsize)
    segments = np.frombuffer(raw, SEGMENT)
    tables = _Tables(read, start, bias, segments)
    return _file(header, segments, tables.symbols(), tables.strings(), tables.notes())


class _Tables:
    def __init__(self, read: Read, start: int, bias: int, segments: NDArray[np.void]) -> None:
        self._read, self._start, self._bias, self._segments = read, start, bias, segments
        self._dynamic = self._entries()

    def symbols(self) -> bytes:
        address = self._pointer(_SYMBOLS)
        count = min(self._count(), _MOST_SYMBOLS) if address else 0
        return _exactly(self._read, address, count * SYMBOL.itemsize)

    def strings(self) -> bytes:
        size = self._dynamic.get(_STRING_BYTES, 0)
        if size > _LARGEST_TABLE:
            raise ElfError("has more names in memory than are read")
        return _exactly(self._read, self._pointer(_STRINGS), size)

    def notes(self) -> bytes:
        found = b""
        for row in self._segments[self._segments["type"] == SEGMENT_NOTE]:
            size = min(int(row["memory_size"]), _MOST_NOTES) & ~3
            found += _exactly(self._read, self._mapped(int(row["address"])), size)
        return found

    def _entries(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for row in self._segments[self._segments["type"] == SEGMENT_DYNAMIC]:
            count = min(int(row["memory_size"]) // _DYNAMIC.itemsize, _MOST_DYNAMIC)
            raw = _exactly(self._read, self._mapped(int(row["address"])), count * _DYNAMIC.itemsize)
            for tag, value in np.frombuffer(raw, _DYNAMIC).tolist():
                if tag == 0:  # DT_NULL
                    break
                found.setdefault(tag, value)
        return found

    def _count(self) -> int:
        """The number of symbols, which only the hash tables have."""
        address = self._pointer(_HASH)
        if address:
            return int(self._words(address + 4, 1)[0])
        address = self._pointer(_GNU_HASH)
        if not address:
            raise ElfError("has no hash table in memory")
        # {buckets, first hashed symbol, words of the filter, shift}, filter, buckets, chains
        buckets, first, words, _ = (int(word) for word in self._words(address, 4))
        if buckets > _MOST_SYMBOLS or words > _MOST_SYMBOLS:
            raise ElfError("has a hash table in memory that is larger than what is read")
        at = address + 16 + 8 * words
        last = int(self._words(at, buckets).max(initial=0))
        if last < first:
            return first
        chains = at + 4 * buckets
        while last < _MOST_SYMBOLS:  # the last bucket's chain ends with an odd word
            ends = np.flatnonzero(self._words(chains + 4 * (last - first), _STEP, short=True) & 1)
            if len(ends):
                return last + int(ends[0]) + 1
            last += _STEP
        raise ElfError("has a hash chain in memory that does not end")

    def _words(self, address: int, count: int, *, short: bool = False) -> NDArray[np.uint32]:
        raw = self._read(address, 4 * count) if short else _exactly(self._read, address, 4 * count)
        if not raw:
            raise ElfError("ends in the middle of a table in memory")
        return np.frombuffer(raw, "<u4", count=len(raw) // 4)

    def _mapped(self, address: int) -> int:
        return (address + self._bias) % 2**64

    def _pointer(self, tag: int) -> int:
        value = self._dynamic.get(tag, 0)
        # glibc relocates these in place, unless .dynamic is read-only.
        return value if not value or value >= self._start else self._mapped(value)


def _exactly(read: Read, address: int, size: int) -> bytes:
    data = read(address, size) if size else b""
    if len(data) != size:
        raise ElfError("is not all in memory")
    return data


def _file(
    header: tuple[Any, ...],  # as ELF_HEADER has it
    segments: NDArray[np.void],
    symbols: bytes,
    strings: bytes,
    notes: bytes,
) -> bytes:
    """The parts as an ELF file.  Its code is a section without content, as in a separate debug file."""
    loads = segments[segments["type"] == SEGMENT_LOAD].copy()
    loads["offset"] = loads["file_size"] = 0
    code = loads[(loads["flags"] & SEGMENT_EXECUTE) != 0]
    entries = np.frombuffer(symbols, SYMBOL).copy()
    within = np.full(len(entries), INDEX_UNDEFINED, np.uint16)
    for number, row in enumerate(code, 1):
        within[entries["value"] - row["address"] < row["memory_size"]] = number
    entries["section"] = np.where(entries["section"] == INDEX_UNDEFINED, INDEX_UNDEFINED, within)

    names = b"\0.text\0.dynsym\0.dynstr\0.note.gnu.build-id\0.shstrtab\0"
    sections = np.zeros(1 + len(code) + 4, SECTION_HEADER)
    body = bytearray(bytes(ELF_HEADER.size) + loads.tobytes())

    def section(number: int, name: bytes, kind: int, content: bytes) -> None:
        body.extend(bytes(-len(body) % 8))
        row = sections[number]
        row["name"], row["type"] = names.index(b"\0" + name + b"\0") + 1, kind
        row["offset"], row["size"] = len(body), len(content)
        body.extend(content)

    for number, load in enumerate(code, 1):
        section(number, b".text", SECTION_NOBITS, b"")
        sections[number]["address"], sections[number]["size"] = load["address"], load["memory_size"]
        sections[number]["flags"] = SECTION_EXECUTE
    first = 1 + len(code)
    section(first, b".dynsym", _DYNSYM, entries.tobytes())
    sections[first]["link"], sections[first]["entry_size"] = first + 1, SYMBOL.itemsize
    section(first + 1, b".dynstr", _STRTAB, strings)
    section(first + 2, b".note.gnu.build-id", SECTION_NOTE, notes)
    section(first + 3, b".shstrtab", _STRTAB, names)
    body.extend(bytes(-len(body) % 8))
    headers_at = len(body)
    body.extend(sections.tobytes())
    ident, kind, machine, version, entry = header[:5]
    struct.pack_into(
        ELF_HEADER.format,
        body,
        0,
        *(ident, kind, machine, version, entry, ELF_HEADER.size, headers_at, 0, ELF_HEADER.size),
        *(SEGMENT.itemsize, len(loads), SECTION_HEADER.itemsize, len(sections), first + 3),
    )
    return bytes(body)
