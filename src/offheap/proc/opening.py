"""Opens files whose names or contents another process chooses, so that none of them can harm the reader.

A name may lead to a FIFO, a device, a link out of the process's root directory, a file system that never
answers, or a sparse file of any size.  So:

- below /proc/PID/root a path is resolved as in the process (openat2's RESOLVE_IN_ROOT): absolute links and
  `..` end at its root directory, never at this one; links of /proc (RESOLVE_NO_MAGICLINKS) are not followed
- only regular files are opened, after a check through a descriptor that cannot read (O_PATH)
- no open waits for a FIFO's writer or for the holder of a lease
- every read has a limit of size, from the caller, and of time

Errors are OSErrors, as for other reads of files; `strerror` completes "the file ...".
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import io
import os
import re
import stat
from collections.abc import Callable, Container
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, TypeVar

from offheap.proc.time_limit import within

_T = TypeVar("_T")

SECONDS = 5.0  # for one open, or one read of a part; a disk takes milliseconds

_BELOW = re.compile(r"(/proc/(?:\d+|self)/root)(?:/+(.*))?", re.DOTALL)
_PATH = os.O_PATH | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

# linux/openat2.h; the number is the same on every machine.
_OPENAT2 = 437
_NO_MAGICLINKS, _IN_ROOT = 0x02, 0x10
_AT_FDCWD = -100
_TRIES = 16  # of a resolution that a rename disturbs (EAGAIN)
_MOST_LINKS = 40  # symbolic links in one path, as in the kernel

# linux/magic.h: file systems that the kernel alone serves.  FUSE and NFS are not, and overlayfs may use them.
_LOCAL = frozenset(
    {
        0x01021994,  # tmpfs
        0x858458F6,  # ramfs
        0xEF53,  # ext2, ext3, ext4
        0x58465342,  # XFS
        0x9123683E,  # Btrfs
        0xF2F52010,  # F2FS
        0xCA451A4E,  # bcachefs
        0x2FC12FC1,  # ZFS
        0x9FA0,  # proc
        0x62656572,  # sysfs
    }
)


class Refused(OSError):
    """The file exists but must not be opened: it is no regular file, another user's, or too large."""

    def __init__(self, why: str, path: Path | str | None = None) -> None:
        super().__init__(errno.EINVAL, why, *((str(path),) if path is not None else ()))


class RegularFile:
    """A regular file, open for reading; a context manager.  Nothing in it is trusted, not even its size."""

    def __init__(self, descriptor: int, status: os.stat_result, answers: bool) -> None:
        self.descriptor = descriptor
        self.status = status
        self._answers = answers

    def __enter__(self) -> RegularFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor < 0:
            return
        if self._answers:
            os.close(descriptor)
            return
        # FUSE asks its server at every close as well (FUSE_FLUSH).
        with contextlib.suppress(TimeoutError):
            within(SECONDS, lambda: os.close(descriptor))

    def detach(self) -> int:
        """The descriptor, which the caller closes; its reads have no limit of time any more."""
        descriptor, self.descriptor = self.descriptor, -1
        return descriptor

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes; fewer at the end of the file.  TimeoutError when they do not come."""
        return self.timed(lambda: os.pread(self.descriptor, size, offset))

    def read_into(self, offset: int, view: memoryview) -> int:
        """Reads into `view`; returns the number of bytes, 0 at the end."""
        return self.timed(lambda: os.preadv(self.descriptor, [view], offset))

    def stream(self) -> BinaryIO:
        """A file object, which owns the descriptor from now on."""
        if self._answers:
            return os.fdopen(self.detach(), "rb", buffering=0)
        return _Stream(self)  # type: ignore[return-value]  # typeshed: RawIOBase is no BinaryIO

    def timed(self, call: Callable[[], _T]) -> _T:
        """The result of a call on the descriptor; TimeoutError when it does not come."""
        return call() if self._answers else within(SECONDS, call)


class _Stream(io.RawIOBase):
    """A file whose file system may not answer."""

    def __init__(self, file: RegularFile) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # typeshed: WriteableBuffer
        # A read that timed out may still write later, which must not hit the caller's memory.
        data = self._file.read_at(self._at, len(buffer))
        memoryview(buffer).cast("B")[: len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._file.status.st_size}[whence]
        self._at = base + offset
        return self._at

    def fileno(self) -> int:
        return self._file.descriptor

    def close(self) -> None:
        self._file.close()
        super().close()


def regular(
    path: Path | str,
    *,
    most: int | None = None,
    owners: Container[int] | None = None,
    follow: bool = True,
) -> RegularFile:
    """Opens a regular file by a path as seen from here, as from `offheap.proc.root`.

    most    bytes: a longer file is refused
    owners  users: a file of any other user is refused
    follow  whether the last part of the path may be a symbolic link
    OSError when the file is missing, TimeoutError when its file system does not answer.
    """

    def open_it() -> RegularFile:
        return _checked(_resolve(str(path), _PATH | (0 if follow else os.O_NOFOLLOW)), path, most, owners)

    return within(SECONDS, open_it, RegularFile.close)


def head(path: Path | str, size: int) -> bytes:
    """The first `size` bytes of a regular file, or all of a shorter one."""
    with regular(path) as file:
        return file.read_at(0, size)


def status(path: Path | str, *, follow: bool = True) -> os.stat_result:
    """stat(2) of the path; opens nothing.  `follow` as in `regular`."""
    return _asked(path, _PATH | (0 if follow else os.O_NOFOLLOW), os.fstat)


def space(folder: Path | str) -> os.statvfs_result:
    """statvfs(2) of a folder."""
    return _asked(folder, _PATH | os.O_DIRECTORY, os.fstatvfs)


def folder(path: Path | str, *, listed: bool = False, follow: bool = True) -> int:
    """A descriptor of a folder; `listed`: readable for its names; `follow` as in `regular`."""
    kind = os.O_RDONLY | os.O_NONBLOCK if listed else os.O_PATH
    flags = kind | os.O_CLOEXEC | os.O_DIRECTORY | (0 if follow else os.O_NOFOLLOW)
    return within(SECONDS, lambda: _resolve(str(path), flags), os.close)


def own_link(path: str) -> RegularFile:
    """The file behind a link of the kernel's own in /proc, such as /proc/PID/exe or one of map_files."""

    return within(SECONDS, lambda: _checked(os.open(path, _PATH), path), RegularFile.close)


def entry(folder: int, name: str) -> RegularFile:
    """A regular file in an open folder, no link; for the thread of a call of `within`."""
    return _checked(os.open(name, _PATH | os.O_NOFOLLOW, dir_fd=folder), name)


def memory(pid: int) -> RegularFile:
    """A process's memory, by its addresses: a file that never answers may back any page."""
    descriptor = os.open(f"/proc/{pid}/mem", _READ)
    return RegularFile(descriptor, os.fstat(descriptor), answers=False)


def _asked(path: Path | str, flags: int, call: Callable[[int], _T]) -> _T:
    """The result of a call on a descriptor that cannot read."""

    def ask() -> _T:
        found = _resolve(str(path), flags)
        try:
            return call(found)
        finally:
            os.close(found)

    return within(SECONDS, ask)


def _checked(
    found: int, path: Path | str, most: int | None = None, owners: Container[int] | None = None
) -> RegularFile:
    """Opens what the descriptor `found`, which this closes, stands for; `path` is for errors."""
    try:
        status = os.fstat(found)
        _check(status, most, owners, path)
        answers = _file_system(found) in _LOCAL
        # Through the descriptor, to open the same file that was checked.
        return RegularFile(os.open(f"/proc/self/fd/{found}", _READ), status, answers)
    finally:
        os.close(found)


def _check(status: os.stat_result, most: int | None, owners: Container[int] | None, path: Path | str) -> None:
    for kind, error in ((stat.S_ISDIR, errno.EISDIR), (stat.S_ISLNK, errno.ELOOP)):  # as in open(2)
        if kind(status.st_mode):
            raise OSError(error, os.strerror(error), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise Refused("is not a regular file", path)
    if owners is not None and status.st_uid not in owners:
        raise Refused(f"belongs to another user (uid {status.st_uid})", path)
    if most is not None and status.st_size > most:
        raise Refused(f"is larger than {most} bytes", path)


def _resolve(path: str, flags: int) -> int:
    below = _BELOW.fullmatch(path)
    if not below:
        return _open(_AT_FDCWD, path, flags, _NO_MAGICLINKS)
    base = os.open(below[1], _PATH | os.O_DIRECTORY)
    try:
        return _open(base, below[2] or ".", flags, _NO_MAGICLINKS | _IN_ROOT)
    finally:
        os.close(base)


def _open(base: int, path: str, flags: int, resolve: int) -> int:
    if "\0" in path:
        # Names of hostile files reach this place; os.open would raise ValueError, which no caller expects.
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
    for _ in range(_TRIES):
        descriptor, error = _openat2(base, os.fsencode(path), flags, resolve)
        if descriptor >= 0:
            return descriptor
        if error in (errno.ENOSYS, errno.EPERM):  # Linux before 5.6, or a seccomp filter without openat2
            return _walk(base, path, flags)
        if error != errno.EAGAIN:
            raise OSError(error, os.strerror(error), path)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@functools.cache
def library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _openat2(base: int, path: bytes, flags: int, resolve: int) -> tuple[int, int]:
    """(descriptor, 0) or (-1, errno)."""
    how = _How(flags, 0, resolve)
    descriptor = library().syscall(
        ctypes.c_long(_OPENAT2),
        ctypes.c_long(base),
        ctypes.c_char_p(path),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    return (descriptor, 0) if descriptor >= 0 else (-1, ctypes.get_errno())


def _walk(base: int, path: str, flags: int) -> int:
    """The same without openat2: opens each part of the path relative to the one before.

    This function reads and follows links itself, so that none leads out of the root directory, or through a
    link of /proc.  An absolute link begins at the root directory, also when it is this process's own.
    """
    outside = base == _AT_FDCWD
    opened = [os.open("/" if path.startswith("/") else ".", _PATH | os.O_DIRECTORY)] if outside else []
    todo = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    must_follow = not flags & os.O_NOFOLLOW
    links = 0
    try:
        while todo:
            above = opened[-1] if opened else base
            part = todo.pop()
            if part == "..":
                if outside:
                    opened.append(os.open("..", _PATH | os.O_DIRECTORY, dir_fd=above))
                elif opened:
                    os.close(opened.pop())
                continue
            found = os.open(part, _PATH | os.O_NOFOLLOW, dir_fd=above)
            mode = os.fstat(found).st_mode
            if not stat.S_ISLNK(mode) or (not todo and not must_follow):
                opened.append(found)
                continue
            try:
                links += 1
                target = os.readlink("", dir_fd=found)
                if links > _MOST_LINKS or _is_magic(found, target):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            finally:
                os.close(found)
            if target.startswith("/"):
                while opened:
                    os.close(opened.pop())
                if outside:
                    opened.append(os.open("/", _PATH | os.O_DIRECTORY))
            todo += [name for name in reversed(target.split("/")) if name not in ("", ".")]
        last = opened[-1] if opened else base
        if flags & os.O_PATH:
            if flags & os.O_DIRECTORY and not stat.S_ISDIR(os.fstat(last).st_mode):
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            return os.dup(last)
        return os.open(f"/proc/self/fd/{last}", flags & ~os.O_NOFOLLOW)
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _is_magic(found: int, target: str) -> bool:
    """Whether a link is one of /proc's own, which leads to a file and not to its text."""
    return _file_system(found) == 0x9FA0 and not re.fullmatch(r"\d+(/task/\d+)?|self/\w+", target)


def _file_system(descriptor: int) -> int:
    """f_type of fstatfs(2), its first field; 0 when unknown."""
    buffer = ctypes.create_string_buffer(256)
    if library().fstatfs(descriptor, buffer) != 0:
        return 0
    return int.from_bytes(buffer.raw[: ctypes.sizeof(ctypes.c_long)], "little") & 0xFFFF_FFFF
