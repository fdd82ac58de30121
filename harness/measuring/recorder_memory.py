"""The memory of a recorder that the kernel cannot drop, while it records and while it writes the tables."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from offheap.proc import status

# A peak that is shorter than that may be missed.
_SECONDS = 0.002


@dataclass
class RecorderMemory:
    """Most anonymous bytes: before DuckDB is loaded, which writes the tables, and from then on."""

    recording: int = 0
    writing: int = 0


def most_anonymous(process: subprocess.Popen[str]) -> RecorderMemory:
    """Reads /proc until the process ends."""
    most, writes = RecorderMemory(), False
    while process.poll() is None:
        size = status.anonymous_bytes(process.pid)
        writes = writes or b"duckdb" in _maps(process.pid)
        if writes:
            most.writing = max(most.writing, size)
        else:
            most.recording = max(most.recording, size)
        time.sleep(_SECONDS)
    return most


def _maps(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:  # it has just ended
        return b""
