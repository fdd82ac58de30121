"""A lock gives a live file one recorder at a time: a second one would end the first one's recording."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from offheap.errors import UserError
from offheap.probe.live_files.live_file import LiveFile
from offheap.probe.sampling import Sampling, running
from offheap.proc import locks, opening


@contextmanager
def sole_recorder(live_file: Path, pid: int | None, asked: Sampling | None = None) -> Iterator[None]:
    """Holds a lock on the live file of a process; `pid` as seen from here.

    UserError when another offheap holds the lock, or when the sampling there differs from `asked`.
    """
    try:
        held = opening.regular(live_file, follow=False)
    except OSError as error:
        raise UserError(f"{live_file} cannot be opened: {error.strerror}", "record again") from None
    with held:
        try:
            fcntl.flock(held.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = locks.holder(held.descriptor)
            raise UserError(
                f"PID {pid} is already being recorded by another offheap{f' (PID {other})' if other else ''}",
                f"wait for it, or read what it records so far: offheap leaks {live_file}",
            ) from None
        if asked is not None:
            _refuse_other_sampling(live_file, pid, asked)
        yield


def recorder_of(live_file: Path) -> int | None:
    """PID of the offheap that records a live file; None when there is none, or it is unknown."""
    try:
        with opening.regular(live_file, follow=False) as file:
            return locks.holder(file.descriptor)
    except OSError:
        return None


def _refuse_other_sampling(live_file: Path, pid: int | None, asked: Sampling) -> None:
    with LiveFile(live_file) as source:
        now = running(source.header)
    if not asked.fits(now):
        raise UserError(
            f"PID {pid} is being recorded with {now}, not with {asked}",
            f"leave that out, or end what is recorded now: offheap detach {pid}",
        )
