"""Recordings: `load` reads one; the recorder makes one of a live file."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offheap.recording.model import Recording


def load(path: str | PathLike[str]) -> Recording:
    """Reads a recording directory, or a live file of a living or dead process.

    Raises UserError when it is neither, is newer than this offheap, is damaged, or may not be read.
    """
    where = Path(path)
    if where.is_dir():
        from offheap.recording.storage import reader

        return reader.load(where)
    from offheap.recording.capture import live_recording

    return live_recording.load(where)
