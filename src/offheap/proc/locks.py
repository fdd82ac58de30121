"""The holder of a lock on a file, and whether any process writes to the file."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
from pathlib import Path

# `3: FLOCK  ADVISORY  WRITE 4711 00:1a:5678 0 EOF`; a waiting lock has `->` behind its number.
_FLOCK = re.compile(r"\d+: FLOCK +\S+ +WRITE (\d+) ([0-9a-f]+):([0-9a-f]+):(\d+) ")


def holder(descriptor: int, text: str | None = None) -> int | None:
    """PID, as seen from here, of the process that holds flock(2) on an open file; None when none is visible.

    `text` is that of /proc/locks.
    """
    if text is None:
        try:
            text = Path("/proc/locks").read_text()
        except OSError:
            return None
    its = os.fstat(descriptor)
    wanted = os.major(its.st_dev), os.minor(its.st_dev), its.st_ino
    for pid, major, minor, inode in _FLOCK.findall(text):
        if int(pid) > 0 and (int(major, 16), int(minor, 16), int(inode)) == wanted:
            return int(pid)
    return None


def is_written(descriptor: int) -> bool | None:
    """Whether any process, in any container, has the file open or mapped for writing.

    The kernel grants a read lease only on a file without writers; this function gives it back at once.
    None if the file system grants no leases.  `descriptor` is open for reading, by the file's owner or root.
    """
    try:
        # An open of the file during the lease sends this signal, which is ignored; SIGIO would end offheap.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False
