"""Whom the kernel kills first where memory runs out (proc(5), oom_score_adj)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_FILE = Path("/proc/self/oom_score_adj")
_FIRST = "1000"


def volunteer() -> str:
    """From now on it is this process, not what it records.  Returns what to give to `restore`."""
    with suppress(OSError):
        before = _FILE.read_text().strip()
        _FILE.write_text(_FIRST)
        return before
    return ""


def restore(before: str) -> None:
    """In a child that is not to inherit it; safe between fork and exec."""
    if before:
        with suppress(OSError):
            _FILE.write_text(before)
