"""Finds the live files of this machine, also those of containers' processes."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from offheap.errors import UserError
from offheap.probe.contract import Coverage, State
from offheap.probe.live_files import folders, recorded_process
from offheap.probe.live_files.header import Header
from offheap.probe.live_files.live_file import LiveFile
from offheap.proc import opening, status
from offheap.proc.time_limit import within

NAME = re.compile(r"offheap-(\d{1,10})-[0-9a-f]{16}\.live")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A readable live file.

    path   as we reach it, through /proc/PID/root for a process that sees other files
    pid    of the process as we see it; None when it is gone
    jvm    whether a JVM was met in the process
    """

    path: Path
    pid: int | None
    state: State
    jvm: bool
    start: float  # seconds since the epoch

    @property
    def recording(self) -> bool:
        return self.pid is not None and self.state is State.RECORDING


def find(pid: int | None = None) -> list[FoundFile]:
    """The live files of a process (as we number them) or of all, newest first.

    Looks where the probe makes them: the process's OFFHEAP dir=, /dev/shm, $TMPDIR, /tmp.
    Passed over are files that are damaged, that we may not read, or that another user made in a
    process's name.
    """
    found = [file for folder in folders.everywhere(pid) for file in inside(folder)]
    if pid is not None:
        found = [file for file in found if file.pid == pid]
    return sorted(found, key=lambda file: file.start, reverse=True)


def inside(folder: Path) -> list[FoundFile]:
    """The readable live files of one folder."""
    try:
        # In a container its owner may put a link into the path, or a folder that never answers.
        opened = opening.folder(folder, listed=True)
    except OSError:
        return []
    try:
        names = within(opening.SECONDS, lambda: [n for n in os.listdir(opened) if NAME.fullmatch(n)])
    except OSError:
        return []
    finally:
        os.close(opened)
    found = []
    for name in sorted(names):
        with suppress(UserError, OSError), LiveFile(folder / name) as live_file:
            pid = recorded_process.find(live_file.header)
            # Anybody may write in /tmp, and anybody may claim to be a process.
            if pid is None or live_file.owner in (0, status.read(pid).uid):
                found.append(_describe(folder / name, live_file.header, pid))
    return found


def _describe(path: Path, header: Header, pid: int | None) -> FoundFile:
    return FoundFile(
        path=path,
        pid=pid,
        state=header.state,
        jvm=Coverage.NO_JVM not in header.coverage,
        start=header.start,
    )
