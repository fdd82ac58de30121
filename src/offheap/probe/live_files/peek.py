"""Reads the first bytes of a live file, to tell whether a mapped file is a live file in use."""

from __future__ import annotations

import struct
from collections.abc import Container
from pathlib import Path
from typing import Any

from offheap.proc import opening

# The first 88 bytes of a live file, probe/recording.h: magic, version, header_bytes, file_bytes, state, mode,
# entry, and after others the coverage.  tests/probe/store/test_contract.py compares them with the contract.
HEADER = struct.Struct("<8sIIQIII44xQ")
MAGIC = b"OFFHEAP\n"
RECORDING = 1
PRELOAD = 1
SHORT_OF_MEMORY = 1 << 8


def recording_entry(path: Path, owners: Container[int]) -> int | None:
    """enum offheap_entry of a live file that is being written; None for any other file."""
    fields = _header(path, owners)
    if fields is None:
        return None
    magic, _version, _header_bytes, _file_bytes, state, _mode, entry, _coverage = fields
    return entry if magic == MAGIC and state == RECORDING else None


def is_short_of_memory(path: Path) -> bool:
    fields = _header(path, None)
    return fields is not None and bool(fields[-1] & SHORT_OF_MEMORY)


def _header(path: Path, owners: Container[int] | None) -> tuple[Any, ...] | None:
    try:
        with opening.regular(path, owners=owners, follow=False) as file:
            raw = file.read_at(0, HEADER.size)
    except OSError:
        return None
    return HEADER.unpack(raw) if len(raw) == HEADER.size else None
