"""The static tracepoints of a library, from its notes.

The format: https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation, version 3.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from offheap.proc.images.elf import ElfImage

STAPSDT = (b"stapsdt", 3)


@dataclass(frozen=True)
class Tracepoint:
    """Addresses are those of the file."""

    provider: str
    name: str
    location: int
    base: int
    semaphore: int
    arguments: str


def tracepoints(library: Path) -> list[Tracepoint]:
    with ElfImage.open(library) as image:
        return [_tracepoint(content) for owner, kind, content in image.notes() if (owner, kind) == STAPSDT]


def _tracepoint(note: bytes) -> Tracepoint:
    location, base, semaphore = struct.unpack_from("<QQQ", note)
    provider, name, arguments, rest = note[24:].decode().split("\0")
    assert rest == ""
    return Tracepoint(provider, name, location, base, semaphore, arguments)
