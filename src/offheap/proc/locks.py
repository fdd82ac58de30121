"""Who holds a lock on a file, and whether anybody writes to it."""

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
    """PID, as we number it, of the process that holds flock(2) on an open file; None when none is seen to.

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
    """Whether any process has the file open or mapped for writing, in whatever container it is.

    The kernel grants a read lease only on a file that nobody writes to; it is given back at once.  None where
    the file system grants none.  `descriptor` is open for reading, by the file's owner or root.
    """
    try:
        # Whoever opens the file meanwhile has us told by this signal, which does nothing; SIGIO would end us.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False
