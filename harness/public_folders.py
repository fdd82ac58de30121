"""Temporary folders that every user may read; pytest closes its own to others."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_made: list[Path] = []


def make(name: str) -> Path:
    """A new folder, removed at the end of the test run."""
    folder = Path(tempfile.mkdtemp(prefix=f"offheap-{name}-{os.getpid()}-", dir="/tmp"))
    _made.append(folder)
    folder.chmod(0o755)
    return folder


def remove() -> None:
    """Removes them at the end of a pytest session: xdist ends its workers without their exit handlers."""
    while _made:
        shutil.rmtree(_made.pop(), ignore_errors=True)


atexit.register(remove)
