"""Doing things as the user of a JVM: what root may not do, or should not, where the JVM lives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from offheap.proc.status import Status


@contextmanager
def as_owner(target: Status) -> Iterator[None]:
    """As root, takes the target's effective user and group for a moment; else changes nothing.

    HotSpot compares a client's user with its own, and in another user namespace root is
    nobody: its connections are refused, and it cannot even make a file there (EOVERFLOW).
    """
    gid = os.getegid()
    if os.geteuid() != 0 or (target.uid, target.gid) == (0, gid):
        yield
        return
    try:
        with suppress(OSError):
            os.setegid(target.gid)
            os.seteuid(target.uid)
        yield
    finally:
        os.seteuid(0)
        os.setegid(gid)


@contextmanager
def entered(path: Path | str) -> Iterator[Path]:
    """A folder by a name that stays good for `as_owner`, who may not look through /proc/PID/root."""
    descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
