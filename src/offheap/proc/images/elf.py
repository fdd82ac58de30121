"""An ELF image as a file: segments, sections, symbols, relocations, notes, links to debug files.

Reads 64-bit little-endian images (x86-64, aarch64; an image of another machine is only data).
Source of the layout: the System V gABI, chapters 4 and 5, and `man 5 elf`.  The file is not trusted:
every offset and size is checked against the file's length, and a misfit raises `ElfError`.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from offheap.proc import opening
from offheap.proc.opening import RegularFile

MACHINES = {62: "x86_64", 183: "aarch64"}

SEGMENT_LOAD, SEGMENT_DYNAMIC, SEGMENT_NOTE = 1, 2, 4  # SEGMENT["type"]
SEGMENT_EXECUTE, SEGMENT_WRITE, SEGMENT_READ = 1, 2, 4  # bits of SEGMENT["flags"]
SECTION_NOTE, SECTION_NOBITS = 7, 8  # ElfSection.type
SECTION_EXECUTE, SECTION_COMPRESSED = 4, 0x800  # bits of ElfSection.flags
SYMBOL_NOTYPE, SYMBOL_FUNCTION, SYMBOL_IFUNC = 0, 2, 10  # SYMBOL["info"] & 15
SYMBOL_LOCAL = 0  # SYMBOL["info"] >> 4
INDEX_UNDEFINED, INDEX_ABSOLUTE, INDEX_EXTENDED = 0, 0xFFF1, 0xFFFF  # SYMBOL["section"]

NOTE_BUILD_ID = 3

SEGMENT = np.dtype(
    [
        ("type", "<u4"),
        ("flags", "<u4"),
        ("offset", "<u8"),  # in the file
        ("address", "<u8"),  # ELF virtual address, as in symbols, unwind tables and DWARF
        ("physical", "<u8"),
        ("file_size", "<u8"),  # bytes
        ("memory_size", "<u8"),  # bytes; past file_size they are zero (.bss)
        ("align", "<u8"),
    ]
)

SYMBOL = np.dtype(
    [
        ("name", "<u4"),  # offset into the table's strings
        ("info", "u1"),
        ("other", "u1"),
        ("section", "<u2"),
        ("value", "<u8"),
        ("size", "<u8"),
    ]
)

RELOCATION = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])

SECTION_HEADER = np.dtype(
    [
        ("name", "<u4"),
        ("type", "<u4"),
        ("flags", "<u8"),
        ("address", "<u8"),
        ("offset", "<u8"),
        ("size", "<u8"),
        ("link", "<u4"),
        ("info", "<u4"),
        ("align", "<u8"),
        ("entry_size", "<u8"),
    ]
)

ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_NOTE = struct.Struct("<III")
_LONGEST_NAME = 1 << 16  # a string table need not hold a single NUL
_LONGEST_SECTION_NAME = 256
# A sparse file may claim anything; libjvm's debug symbols are 10 MB with 20 MB of names.
MOST_BYTES = 192 << 20  # of one section, at once in memory
MOST_SYMBOLS = 48 << 20  # bytes of one symbol table: two million symbols
_MOST_ROWS = 1 << 17  # section and program headers
_PIECE = 1 << 20
_MOST_CONTENT = 8 << 30  # of a file that is read whole
_MOST_NOTES = 1 << 20  # bytes in one place


class ElfError(Exception):
    """The file is no ELF image that can be read; the message completes "FILE ..."."""


@dataclass(frozen=True, slots=True)
class ElfSection:
    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    entry_size: int


@dataclass(frozen=True, slots=True)
class SymbolTable:
    entries: NDArray[np.void]  # SYMBOL
    strings: bytes

    def name(self, offset: int) -> bytes:
        """The string at `offset`, b"" when it lies outside the table."""
        return _string(self.strings, offset)


@dataclass(frozen=True, slots=True)
class DebugLink:
    """.gnu_debuglink: the base name of the separate debug file and the CRC-32 of its content."""

    name: str
    crc: int


class ElfImage:
    """One image.  A context manager; sections are read when asked for.

    It reads with read(2), not mmap: a library overwritten in place under a mapping means SIGBUS.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.file_size = file.seek(0, os.SEEK_END)
        if self._read(0, min(4, self.file_size), "magic number") != b"\x7fELF":
            raise ElfError("is not an ELF file")
        raw = self._read(0, ELF_HEADER.size, "ELF header")
        ident, self.type, machine, _, self.entry, phoff, shoff, _, _, phsize, phnum, shsize, shnum, names = (
            ELF_HEADER.unpack(raw)
        )
        if ident[4:6] != b"\x02\x01":
            raise ElfError("is not a 64-bit little-endian ELF file")
        self.machine: str = MACHINES.get(machine, f"machine {machine}")
        first = self._table(shoff, shsize, 1, SECTION_HEADER, "section headers")
        if len(first):  # gABI: the first section has the counts that do not fit 16 bits
            shnum = shnum or int(first[0]["size"])
            phnum = int(first[0]["info"]) if phnum == 0xFFFF else phnum
            names = int(first[0]["link"]) if names == INDEX_EXTENDED else names
        rows = self._table(shoff, shsize, shnum, SECTION_HEADER, "section headers")
        self.segments: NDArray[np.void] = self._table(phoff, phsize, phnum, SEGMENT, "program headers")
        self.sections: list[ElfSection] = self._named(rows, names)

    @classmethod
    def open(cls, path: Path) -> ElfImage:
        """Opens a regular file; OSError when it cannot be opened, ElfError when it is something else."""
        try:
            return cls.of(opening.regular(path))
        except opening.Refused as error:
            raise ElfError(error.strerror) from None

    @classmethod
    def of(cls, file: RegularFile) -> ElfImage:
        """Takes ownership of an open file; ElfError when it is something else."""
        stream = file.stream()
        try:
            return cls(stream)
        except BaseException:
            stream.close()
            raise

    @classmethod
    def from_bytes(cls, data: bytes) -> ElfImage:
        return cls(io.BytesIO(data))

    def close(self) -> None:
        self._file.close()

    def fileno(self) -> int:
        """The file's descriptor, even if the name now leads elsewhere; OSError for an image in memory."""
        return self._file.fileno()

    def __enter__(self) -> ElfImage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def section(self, name: str) -> ElfSection | None:
        """The first section of that name."""
        return next((section for section in self.sections if section.name == name), None)

    def has(self, name: str) -> bool:
        """Whether the section is there and has content (in a debug file most are only placeholders)."""
        section = self.section(name)
        return section is not None and section.type != SECTION_NOBITS and section.size > 0

    def data(self, section: ElfSection | None, most: int = MOST_BYTES) -> bytes:
        """The section's bytes; b"" for a missing section and for one without content in the file.

        ElfError for more than `most` of them.
        """
        if section is None or section.type == SECTION_NOBITS:
            return b""
        if section.flags & SECTION_COMPRESSED:
            raise ElfError(f"has a compressed section {section.name}")
        return self._read(section.offset, section.size, section.name, most)

    def symbols(self, name: str, most: int = MOST_SYMBOLS) -> SymbolTable | None:
        """The symbol table called `name` (".symtab", ".dynsym"); None when the image has none.

        ElfError for a table of more than `most` bytes, or names of more than four times as many.
        """
        section = self.section(name)
        if section is None or not self.has(name):
            return None
        entries = self._rows(self.data(section, most), SYMBOL)
        if section.link >= len(self.sections):
            raise ElfError(f"has a {name} without strings")
        return SymbolTable(entries, self.data(self.sections[section.link], 4 * most))

    def relocations(self, name: str, most: int = MOST_BYTES) -> NDArray[np.void]:
        """The rows (RELOCATION) of a RELA section, none when it is missing; ElfError beyond `most` bytes."""
        return self._rows(self.data(self.section(name), most), RELOCATION)

    def notes(self) -> Iterator[tuple[bytes, int, bytes]]:
        """(owner, type, content) of every note."""
        # In a debug file the program headers still point to the places of the original's notes.
        places = [(s.offset, s.size) for s in self.sections if s.type == SECTION_NOTE]
        if not places:
            rows = self.segments[self.segments["type"] == SEGMENT_NOTE]
            places = [(int(row["offset"]), int(row["file_size"])) for row in rows]
        for offset, size in places:
            yield from _notes(self._read(offset, size, "notes", _MOST_NOTES))

    @cached_property
    def build_id(self) -> str:
        """In lower-case hexadecimal, "" if the image has none."""
        for owner, kind, content in self.notes():
            if owner == b"GNU" and kind == NOTE_BUILD_ID:
                return content.hex()
        return ""

    @property
    def debug_link(self) -> DebugLink | None:
        data = self.data(self.section(".gnu_debuglink"))
        name, end, _ = data.partition(b"\0")
        if not end or len(data) < 4:
            return None
        return DebugLink(os.fsdecode(name), int.from_bytes(data[-4:], "little"))

    def symbol_bytes(self) -> int:
        """The memory of its symbol tables in bytes, names included."""
        tables = [section for section in self.sections if section.name in (".symtab", ".dynsym")]
        names = [self.sections[table.link].size for table in tables if table.link < len(self.sections)]
        return sum(table.size for table in tables) + sum(names)

    def content(self) -> Iterator[bytes]:
        """The whole file, piece by piece; ElfError for a file that is too long."""
        if self.file_size > _MOST_CONTENT:
            raise ElfError(f"has {self.file_size >> 30} GiB, more than is read")
        for at in range(0, self.file_size, _PIECE):
            yield self._read(at, min(_PIECE, self.file_size - at), "content")

    def at_address(self, address: int, size: int) -> bytes:
        """The file's bytes from an ELF virtual address on, up to the segment's end; b"" in no segment."""
        for row in self.segments[self.segments["type"] == SEGMENT_LOAD]:
            start = int(row["address"])
            if start <= address < start + int(row["file_size"]):
                left = start + int(row["file_size"]) - address
                return self._read(int(row["offset"]) + address - start, min(size, left), "a segment")
        return b""

    @property
    def load_address(self) -> int:
        """The ELF virtual address of the first loaded segment: 0, except in fixed-address images."""
        loads = self.segments[self.segments["type"] == SEGMENT_LOAD]
        return int(loads[0]["address"]) if len(loads) else 0

    def _read(self, offset: int, size: int, what: str, most: int = MOST_BYTES) -> bytes:
        if offset + size > self.file_size:
            raise ElfError(f"is truncated: its {what} would lie past the end")
        if size > most:
            raise ElfError(f"has {size >> 20} MiB of {what}, more than the {most >> 20} MiB that are read")
        self._file.seek(offset)
        data = self._file.read(size)
        if len(data) != size:
            raise ElfError(f"shrank while its {what} were read")
        return data

    def _table(
        self, offset: int, row_size: int, count: int, dtype: np.dtype[np.void], what: str
    ) -> NDArray[np.void]:
        if not offset or not count:
            return np.empty(0, dtype)
        if row_size != dtype.itemsize:
            raise ElfError(f"has {what} of {row_size} bytes each instead of {dtype.itemsize}")
        if count > _MOST_ROWS:
            raise ElfError(f"has {count} {what}")
        return np.frombuffer(self._read(offset, count * dtype.itemsize, what), dtype)

    @staticmethod
    def _rows(data: bytes, dtype: np.dtype[np.void]) -> NDArray[np.void]:
        return np.frombuffer(data, dtype, count=len(data) // dtype.itemsize)

    def _named(self, rows: NDArray[np.void], names: int) -> list[ElfSection]:
        sections = [ElfSection("", t, f, a, o, s, k, e) for _, t, f, a, o, s, k, _, _, e in rows.tolist()]
        if not names:
            return sections
        if names >= len(sections):
            raise ElfError("has no section names")
        strings = self.data(sections[names])
        return [
            ElfSection(
                _string(strings, offset)[:_LONGEST_SECTION_NAME].decode("utf-8", "replace"),
                section.type,
                section.flags,
                section.address,
                section.offset,
                section.size,
                section.link,
                section.entry_size,
            )
            for offset, section in zip(rows["name"].tolist(), sections, strict=True)
        ]


def _string(strings: bytes, offset: int) -> bytes:
    end = strings.find(b"\0", offset, offset + _LONGEST_NAME)
    return strings[offset : offset + _LONGEST_NAME if end < 0 else end]


def _notes(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    # Fields are padded to 4 bytes for every alignment of the section; only .note.gnu.property
    # pads to 8, and its contents are multiples of 8.
    offset = 0
    while offset + _NOTE.size <= len(data):
        owner_size, size, kind = _NOTE.unpack_from(data, offset)
        owner_at = offset + _NOTE.size
        at = owner_at + (owner_size + 3 & ~3)
        if at + size > len(data):
            raise ElfError("has a note that is longer than its section")
        yield data[owner_at : owner_at + owner_size].rstrip(b"\0"), kind, data[at : at + size]
        offset = at + (size + 3 & ~3)
