"""Finds the live files of this machine, including those of processes in containers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from offheap.errors import UserError
from offheap.probe.contract import Coverage, State
from offheap.probe.live_files import folders, recorded_process
from offheap.probe.live_files.header import Header
from offheap.probe.live_files.live_file import LiveFile
from offheap.proc import status
from offheap.proc.opened_folder import OpenedFolder

NAME = re.compile(r"offheap-(\d{1,10})-[0-9a-f]{16}\.live")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A readable live file.

    path   as seen from here, through /proc/PID/root for a process that sees other files
    pid    of the process as seen from here; None when the process is gone
    jvm    whether the probe found a JVM in the process
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
    """The live files of a process (by its PID here) or of all, newest first.

    Searches the probe's folders: the process's OFFHEAP dir=, /dev/shm, $TMPDIR, /tmp.
    Ignores files that are damaged, that this user may not read, or that another user made in a
    process's name.
    """
    found = [file for folder in folders.everywhere(pid) for file in inside(folder)]
    if pid is not None:
        found = [file for file in found if file.pid == pid]
    return sorted(found, key=lambda file: file.start, reverse=True)


def inside(folder: Path) -> list[FoundFile]:
    """The readable live files of one folder."""
    try:
        # In a container the owner may put a link into the path, or a folder that never answers.
        with OpenedFolder.at(folder) as opened:
            names = opened.names(NAME)
    except OSError:
        return []
    found = []
    for name in names:
        try:
            with LiveFile(folder / name) as live_file:
                pid = recorded_process.find(live_file.header)
                # Any user may write to /tmp and may claim any PID in a file.
                if pid is None or live_file.owner in (0, status.read(pid).uid):
                    found.append(_describe(folder / name, live_file.header, pid))
        except (UserError, OSError) as error:
            # Each of the other files would take the limit of time again.
            if isinstance(error, TimeoutError) or isinstance(error.__cause__, TimeoutError):
                break
    return found


def _describe(path: Path, header: Header, pid: int | None) -> FoundFile:
    return FoundFile(
        path=path,
        pid=pid,
        state=header.state,
        jvm=Coverage.NO_JVM not in header.coverage,
        start=header.start,
    )
