"""Acts as the user of a JVM for what root may not or should not do in the JVM's namespaces."""

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
    """As root, takes the target's effective user and group for the context; else changes nothing.

    HotSpot compares a client's user with its own.  In another user namespace root is nobody:
    HotSpot refuses its connections, and it cannot create a file there (EOVERFLOW).
    Only the calling thread changes: glibc changes all threads and waits for each, also for a thread
    that waits for a file system that never answers (proc/time_limit.py).
    """
    gid, groups = os.getegid(), os.getgroups()
    if os.geteuid() != 0 or (target.uid, target.gid) == (0, gid):
        yield
        return
    try:
        # Root's own groups may give access to files that the target may not touch.
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
    """A path of a folder that is valid within `as_owner`, which may not have access to /proc/PID/root."""
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
