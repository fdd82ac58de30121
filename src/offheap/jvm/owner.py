"""Doing things as the user of a JVM: what root may not do, or should not, where the JVM lives."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from offheap.proc import opening
from offheap.proc.status import Status

# setgroups, setresgid, setresuid: asm/unistd.h.
_CALLS = {"x86_64": (116, 119, 117), "aarch64": (159, 149, 147)}
_KEEP = -1


@contextmanager
def as_owner(target: Status) -> Iterator[None]:
    """As root, takes the target's effective user and group for a moment; else changes nothing.

    HotSpot compares a client's user with its own, and in another user namespace root is
    nobody: its connections are refused, and it cannot even make a file there (EOVERFLOW).
    Only the calling thread changes: glibc would have every thread agree, and one that waits for a file
    system that never answers (proc/time_limit.py) would be waited for.
    """
    gid, groups = os.getegid(), os.getgroups()
    if os.geteuid() != 0 or (target.uid, target.gid) == (0, gid):
        yield
        return
    try:
        # Root's own groups would open files to it that the target may not touch.
        with suppress(OSError):
            _groups([target.gid])
        with suppress(OSError):
            _group(target.gid)
            _user(target.uid)
        yield
    finally:
        _user(0)
        _group(gid)
        with suppress(OSError):
            _groups(groups)


@contextmanager
def entered(path: Path | str) -> Iterator[Path]:
    """A folder by a name that stays good for `as_owner`, who may not look through /proc/PID/root."""
    descriptor = opening.folder(path, follow=False)
    try:
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _groups(groups: list[int]) -> None:
    array = (ctypes.c_uint32 * len(groups))(*groups)
    _call(0, ctypes.c_size_t(len(groups)), ctypes.byref(array))


def _group(effective: int) -> None:
    _call(1, *(ctypes.c_int(number) for number in (_KEEP, effective, _KEEP)))


def _user(effective: int) -> None:
    _call(2, *(ctypes.c_int(number) for number in (_KEEP, effective, _KEEP)))


def _call(which: int, *arguments: object) -> None:
    library = opening.library()
    number = _CALLS[os.uname().machine][which]
    if library.syscall(ctypes.c_long(number), *arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
