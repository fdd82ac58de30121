"""The perf map or jitdump that lies with the heap dumps of a process."""

from __future__ import annotations

import os
from pathlib import Path

from offheap.formats.imported import source
from offheap.proc import opening


def beside(files: list[Path], pid: int) -> Path | None:
    """The map beside the dumps of a process: perf-PID.map or jit-PID.dump; else /tmp/perf-PID.map.

    The file in /tmp must belong to this user or root, and be newer than the first dump: PIDs are reused.
    """
    if not pid:
        return None
    for name in (f"perf-{pid}.map", f"jit-{pid}.dump"):
        for folder in dict.fromkeys(path.parent for path in files):
            if (folder / name).is_file():
                return folder / name
    public = Path(f"/tmp/perf-{pid}.map")
    try:
        with opening.regular(public, owners={os.geteuid(), 0}, follow=False) as file:
            fresh = file.status.st_mtime >= min(source.modified(path) for path in files)
    except OSError:
        return None
    return public if fresh else None
