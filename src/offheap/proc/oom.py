"""Chooses the process that the kernel kills first when memory runs out (proc(5), oom_score_adj)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_FILE = Path("/proc/self/oom_score_adj")
_FIRST = "1000"


def volunteer() -> str:
    """From now on it is this process, not the recorded one.  Returns the argument of `restore`."""
    with suppress(OSError):
        before = _FILE.read_text().strip()
        _FILE.write_text(_FIRST)
        return before
    return ""


def restore(before: str) -> None:
    """For a child that must not inherit the choice; safe between fork and exec."""
    if before:
        with suppress(OSError):
            _FILE.write_text(before)
