"""What the commands read: a recording, or what PID|NAME|RECORDING means."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from offheap.report.text import printable

if TYPE_CHECKING:
    from pathlib import Path

    from offheap.recording.model import Recording


def read(path: str) -> Recording:
    """Load a recording for a command that reports on it and ends.

    Such a command makes a million small objects, none in a cycle and none to be freed before the end:
    the collector would go through all of them again and again, for a third of the command's time.
    """
    import gc

    from offheap.recording import load

    gc.disable()
    return load(path)


def process_or_recording(text: str) -> int | Path:
    """The PID or the path that "PID|NAME|RECORDING" means; where it could mean both, says which it took."""
    from offheap.jvm.discovery import resolve_or_path

    meant, note = resolve_or_path(text)
    if note:
        print(f"offheap: {printable(note)}", file=sys.stderr)
    return meant
