"""jemalloc's dumps in a folder: PREFIX.PID.SEQUENCE.KIND.heap, and perf-PID.map beside them."""

from __future__ import annotations

import os
import re
from pathlib import Path

_NAME = re.compile(r"jeprof\.(\d{1,9})\.(\d{1,9})\.[a-z]\d*\.heap")
MOST = 100_000  # names of a folder that are read: with a dump each GiB, 3 MiB/s make fewer in a year


def series(folder: Path) -> dict[int, list[Path]]:
    """The dumps in the order of their creation, by PID as the process sees itself."""
    found: dict[int, list[tuple[int, Path]]] = {}
    with os.scandir(folder) as entries:
        for _, entry in zip(range(MOST), entries, strict=False):
            match = _NAME.fullmatch(entry.name)
            if match:
                found.setdefault(int(match[1]), []).append((int(match[2]), folder / entry.name))
    return {pid: [path for _, path in sorted(its)] for pid, its in sorted(found.items())}


def next_name(folder: Path, pid: int) -> Path:
    """The number of a dump on request (`m` in its name), after all dumps of the process."""
    numbers = [int(match[2]) for path in series(folder).get(pid, ()) if (match := _NAME.fullmatch(path.name))]
    number = max(numbers, default=-1) + 1
    return folder / f"jeprof.{pid}.{number}.m{number}.heap"


def perf_map(folder: Path, pid: int) -> Path:
    return folder / f"perf-{pid}.map"
