"""Jitdumps, as perf's libperf-jvmti.so writes them.

A header of 40 bytes, then records of 16 bytes and a body: Linux'
tools/perf/Documentation/jitdump-specification.txt.
"""

from __future__ import annotations

import struct
from pathlib import Path

from offheap.errors import UserError

MAGICS = (b"DTiJ", b"JiTD")  # little, big endian
_HEADER = "4sIIIIIQQ"  # magic, version, size, machine, padding, PID, time, flags
_RECORD = "IIQ"  # kind, size with this head, time
# PID, thread, virtual address, address, size of the code, number; then the name and the code
_LOAD = "IIQQQQ"
_MOVE = "IIQQQQQ"  # PID, thread, virtual address, old address, new address, size, number
_IS_LOAD, _IS_MOVE, _IS_CLOSE = 0, 1, 3
_MOST_METHODS = 4_000_000  # of one file; a large JVM compiles 100,000


def rows(path: Path, content: bytes) -> list[tuple[int, int, str]]:
    """(start, size, name); the latest code at an address counts.  UserError for a damaged file."""
    order = "<" if content.startswith(MAGICS[0]) else ">"
    found: dict[int, tuple[int, int, str]] = {}
    head = struct.Struct(order + _RECORD)
    try:
        offset = struct.unpack_from(order + _HEADER, content)[2]
    except struct.error:
        raise _fault(path, 0, "the file ends within its header") from None
    # The program may still write: the file may end inside a record, which is skipped.
    while offset + head.size <= len(content):
        kind, size, _ = head.unpack_from(content, offset)
        end = offset + size
        if size < head.size:
            raise _fault(path, offset, f"a record of {size} bytes is shorter than its head")
        if end > len(content) or kind == _IS_CLOSE:
            break
        body = content[offset + head.size : end]
        try:
            if kind == _IS_LOAD:
                code = _load(body, order)
                found[code[0]] = code
            elif kind == _IS_MOVE:
                _, _, _, old, new, _, _ = struct.unpack_from(order + _MOVE, body)
                if old in found:
                    found[new] = (new, *found.pop(old)[1:])
        except (struct.error, ValueError):
            raise _fault(path, offset, "a record does not hold its fields") from None
        if len(found) > _MOST_METHODS:
            raise UserError(f"{path} has more than {_MOST_METHODS:,} methods", "is it the right file?")
        offset = end
    return list(found.values())


def _load(body: bytes, order: str) -> tuple[int, int, str]:
    _, _, _, start, size, _ = struct.unpack_from(order + _LOAD, body)
    first = struct.calcsize(order + _LOAD)
    return start, size, body[first : body.index(b"\0", first)].decode("utf-8", "replace") or "unknown"


def _fault(path: Path, offset: int, what: str) -> UserError:
    return UserError(f"{path}, byte {offset:#x}: {what}", "is the file complete?  Copy it again")
