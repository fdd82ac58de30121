"""Command lines of offheap."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def offheap(*arguments: str | os.PathLike[str]) -> list[str]:
    """The command line of `offheap` as this interpreter has it."""
    return [sys.executable, "-m", "offheap", *(os.fspath(argument) for argument in arguments)]


def offheap_check(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        offheap("check", *arguments),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
    )
