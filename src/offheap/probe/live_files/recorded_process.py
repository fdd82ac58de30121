"""The recorded process from outside: whether it is alive, and its size."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from offheap.probe.live_files.header import Header
from offheap.proc import cgroup, opening, status

# /proc may hide other users' processes.  Any other error is offheap's own, such as too many open files, and
# must not count as the end of the process: that would remove the live file.
_GONE = (ProcessLookupError, PermissionError, ValueError)


@dataclass(frozen=True, slots=True)
class Size:
    rss_bytes: int
    threads: int


def find(header: Header) -> int | None:
    """PID, as seen from here, of the process that writes the live file; None when it is gone.

    The header's PID is the process's own: in a container it may be 1.  The kernel
    reuses PIDs, so the start time decides.
    """
    return find_process(header.pid, header.process_start)


def find_process(namespace_pid: int, process_start: int) -> int | None:
    """As `find`, from the PID and the start time of a header."""
    if _matches(namespace_pid, namespace_pid, process_start):
        return namespace_pid
    return next((pid for pid in status.pids() if _matches(pid, namespace_pid, process_start)), None)


def alive(pid: int, process_start: int) -> bool:
    """Whether the process with this PID (as seen from here) started at that time and is no zombie.

    OSError when unknown.
    """
    try:
        now = status.read(pid)
    except _GONE:
        return False
    return now.alive and now.start_ticks == process_start


def size(pid: int) -> Size | None:
    """RSS and threads; None when the process is gone."""
    try:
        now = status.read(pid)
    except _GONE:
        return None
    return Size(now.rss_bytes, now.threads) if now.alive else None


def memory_limit(pid: int | None) -> int:
    """Bytes that the process's cgroup may use; 0 without a limit, or when the process is gone."""
    group = cgroup.read(pid) if pid is not None else None
    return (group.limit or 0) if group else 0


def _matches(pid: int, namespace_pid: int, process_start: int) -> bool:
    try:
        now = status.read(pid)
    except _GONE:
        return False
    return now.alive and now.start_ticks == process_start and now.namespace_pid == namespace_pid


def root(pid: int | None) -> Path:
    """The root for paths that the process names: in /proc only if it sees other files than this process."""
    if pid is None:
        return Path("/")
    its = Path(f"/proc/{pid}/root")
    try:
        return Path("/") if os.path.samestat(opening.status(its), os.stat("/")) else its
    except TimeoutError:
        return its
    except OSError:
        return Path("/")
