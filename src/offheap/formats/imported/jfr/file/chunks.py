"""The chunks of a JFR file: each has its types, its constants and its events, and a header of 68 bytes.

Format: the JDK's jdk.jfr.internal.consumer.ChunkHeader and async-profiler's flightRecorder.cpp; big endian:

    0 "FLR\\0"        4 version, 2 x 16 bits      8 size              16 offset of the constants
    24 of metadata   32 start, ns since 1970    40 duration, ns     48 start, ticks
    56 ticks a second                           64 features: 1 when integers are compressed

A recorder writes size and offsets when it completes the chunk; before that the offsets are 0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from offheap.errors import UserError
from offheap.formats.imported import source
from offheap.recording import allowance

MAGIC = b"FLR\0"
HEADER = 68  # bytes
NANO = 1e-9
_FORM = struct.Struct(">4sHHqqqqqqqI")
_COMPRESSED = 1
_VERSION = 2
_MOST_CHUNKS = 100_000  # of one file: 1.2 TB as the JDK cuts them
_TIMES = 4  # the size of an event that is read whole, in memory
_MOST_TICKS = 1 << 40  # a second
_MOST_NANOS = 1 << 62  # since 1970: the year 2116


@dataclass(frozen=True)
class Chunk:
    """A whole chunk.  at, size: bytes; constants, metadata: offsets in it; start: seconds since 1970."""

    file: source.RandomAccess
    at: int
    size: int
    constants: int
    metadata: int
    start: float
    duration: float
    start_ticks: int
    ticks: int  # a second

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def end(self) -> float:
        return self.start + self.duration

    def read(self, offset: int, size: int) -> bytes:
        """Bytes from an offset in the chunk on, not outside the chunk."""
        if offset < 0:  # as a damaged header has it
            return b""
        return self.file.read_at(self.at + offset, max(min(size, self.size - offset), 0))

    def event(self, offset: int, what: str) -> bytes:
        """The whole event at an offset; UserError if it exceeds the chunk."""
        head = self.read(offset, 9)
        size = shift = 0
        for byte in head[:5]:
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if offset < HEADER or not 2 <= size <= self.size - offset:
            raise source.fault(
                self.path, f"byte {self.at + max(offset, 0):#x}", f"{what} of {size:,} bytes leaves its chunk"
            )
        if size > allowance.limit() // _TIMES:
            raise UserError(
                f"{self.path}, byte {self.at + offset:#x}: {what} of {size:,} bytes is too large to be read",
                f"if it is yours, allow more: {allowance.VARIABLE}={-(-size * _TIMES >> 30)}GiB",
            )
        return self.read(offset, size)


def chunks(files: Sequence[source.RandomAccess]) -> tuple[list[Chunk], list[str]]:
    """(complete chunks by time, sentences about the incomplete ones).  UserError without a complete chunk."""
    found: list[Chunk] = []
    doubts = []
    for file in files:
        whole, doubt = _of_file(file)
        found += whole
        doubts += doubt
        if not whole:
            raise source.fault(
                file.path,
                "byte 0x0",
                "the file has no complete chunk",
                "stop the recording first; copy it whole",
            )
    return sorted(found, key=lambda chunk: chunk.start), doubts


def _of_file(file: source.RandomAccess) -> tuple[list[Chunk], list[str]]:
    found: list[Chunk] = []
    at = 0
    while at < file.size:
        head = file.read_at(at, HEADER)
        if not MAGIC.startswith(head[:4]) or (at == 0 and len(head) < HEADER):
            raise source.fault(file.path, f"byte {at:#x}", "no header of a JFR chunk")
        chunk = _chunk(file, at, head) if len(head) == HEADER else None
        if chunk is None:
            doubt = f"{file.path.name} ends with a chunk that is not whole: what came then is not in it"
            return found, [doubt]
        found.append(chunk)
        if len(found) > _MOST_CHUNKS:
            raise source.fault(file.path, f"byte {at:#x}", f"more than {_MOST_CHUNKS:,} chunks")
        at += chunk.size
    return found, []


def _chunk(file: source.RandomAccess, at: int, head: bytes) -> Chunk | None:
    """None: the recorder did not complete the chunk, or the file ends inside it."""
    _, major, minor, size, constants, metadata, start, duration, ticks, per_second, features = _FORM.unpack(
        head
    )
    place = f"byte {at:#x}"
    if major != _VERSION:
        raise UserError(
            f"{file.path}, {place}: JFR's version {major}.{minor}; version 2 is read",
            "versions before JDK 11 are read by JDK Mission Control",
        )
    if not features & _COMPRESSED:
        raise source.fault(file.path, place, "a chunk whose integers are not compressed is not read")
    if size > file.size - at or not constants or not metadata:
        return None
    if size < HEADER or not 0 < per_second < _MOST_TICKS or start < 0 or duration < 0:
        raise source.fault(file.path, place, "a JFR chunk without a sensible size or clock")
    if start + duration > _MOST_NANOS:
        raise source.fault(file.path, place, "a JFR chunk of the far future")
    return Chunk(file, at, size, constants, metadata, start * NANO, duration * NANO, ticks, per_second)
