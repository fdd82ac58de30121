"""The perf map or jitdump that lies with the heap dumps of a process."""

from __future__ import annotations

import os
from pathlib import Path

from offheap.formats.imported import source
from offheap.proc import opening


def beside(files: list[Path], pid: int) -> Path | None:
    """The file that lies with the files of a process: perf-PID.map or jit-PID.dump; else what /tmp has of it.

    In /tmp only this user's or root's counts, and only if it was written after the first file: a PID returns.
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
