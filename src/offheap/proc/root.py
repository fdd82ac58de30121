"""Files as another process sees them: its mount namespace, chroot and PID namespace may differ."""

from __future__ import annotations

import os
from pathlib import Path

from offheap.proc import opening
from offheap.proc.maps import Mapping
from offheap.proc.opening import RegularFile


def through(pid: int, path: str | Path) -> Path:
    """The path from here to the process's absolute `path`; valid while the process lives."""
    return Path(f"/proc/{pid}/root{path}")


def is_ours(pid: int, path: str | Path) -> bool:
    """Whether `path` is the same file in the process as in this one.

    Compares the file itself, not the namespaces: a chroot shares its mount namespace,
    and two containers may share a volume.  True without the right to read it.
    """
    try:
        theirs = opening.status(through(pid, path))
    except PermissionError:
        return True
    except OSError:
        return False
    try:
        return os.path.samestat(theirs, opening.status(path))
    except OSError:
        return False


def our_path(pid: int, path: str | Path) -> Path:
    """The path from here to the process's `path`: the same name if possible, as it outlives the process."""
    return Path(path) if is_ours(pid, path) else through(pid, path)


def mapped_file(pid: int, mapping: Mapping) -> Path:
    """The path from here to a mapped file.

    The kernel writes the paths in /proc/PID/maps as the READER sees them, or, when the reader
    cannot see the file (a container's), as the process sees them: the inode shows which.
    """
    for path in (Path(mapping.path), through(pid, mapping.path)):
        try:
            if opening.status(path).st_ino == mapping.inode:
                return path
        except OSError:
            continue
    return through(pid, mapping.path)


def open_mapped(pid: int, mapping: Mapping) -> RegularFile:
    """The mapped file, opened by the path of `mapped_file`, or by the kernel's link to it.

    The path may lead to another file now.  From a chroot, the kernel's paths of a process in its own mount
    namespace begin outside of the chroot.  The link needs privileges.  OSError when neither works.
    """
    for path in (Path(mapping.path), through(pid, mapping.path)):
        try:
            file = opening.regular(path)
        except OSError:
            continue
        if file.status.st_ino == mapping.inode:
            return file
        file.close()
    try:
        file = opening.own_link(f"/proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}")
    except OSError:
        raise opening.Refused("is another one than is mapped", mapping.path) from None
    if file.status.st_ino == mapping.inode:
        return file
    file.close()
    raise opening.Refused("is another one than is mapped", mapping.path)


def from_cwd(pid: int, path: str) -> Path:
    """The path from here to a file by the process's name, which may be relative to its working directory."""
    if path.startswith("/"):
        return our_path(pid, path)
    folder = _within_root(pid, os.readlink(f"/proc/{pid}/cwd"))
    return our_path(pid, f"{folder}/{path}")


def as_seen(pid: int, mapping: Mapping) -> str:
    """The process's own path of a mapped file, which differs from the mapping's path under chroot."""
    return _within_root(pid, mapping.path)


def _within_root(pid: int, path: str) -> str:
    try:
        its_root = os.readlink(f"/proc/{pid}/root")
    except OSError:
        return path
    if its_root != "/" and path.startswith(its_root + "/"):
        return path[len(its_root) :]
    return path
