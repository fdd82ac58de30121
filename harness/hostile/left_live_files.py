"""Live files of real processes, each a Python interpreter that has ended or still runs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_KEEP = "kept = [bytearray(300_000) for _ in range(40)]\n"


def left(probe_library: Path, folder: Path, mode: str = "exact") -> Path:
    """The live file of a process that has ended, in a folder that has no other."""
    subprocess.run(
        [sys.executable, "-c", _KEEP], env=_environment(probe_library, folder, mode), check=True, timeout=60
    )
    (live_file,) = folder.glob("*.live")
    return live_file


@contextlib.contextmanager
def writing(probe_library: Path, folder: Path, mode: str = "exact") -> Iterator[tuple[int, Path]]:
    """PID and live file of a process that runs until the end of the context."""
    before = set(folder.glob("*.live"))
    process = subprocess.Popen(
        [sys.executable, "-c", _KEEP + "print('up', flush=True); input()"],
        env=_environment(probe_library, folder, mode),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout
        assert process.stdout.readline() == b"up\n"
        (live_file,) = set(folder.glob("*.live")) - before
        yield process.pid, live_file
    finally:
        process.kill()
        process.communicate()


def _environment(probe_library: Path, folder: Path, mode: str) -> dict[str, str]:
    return {**os.environ, "LD_PRELOAD": str(probe_library), "OFFHEAP": f"{mode},dir={folder}"}
