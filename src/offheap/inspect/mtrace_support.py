"""What glibc's mtrace() can do in a process: since 2.34 it needs a preloaded libc_malloc_debug."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from offheap.errors import UserError
from offheap.jvm.listener import attach_listener, target
from offheap.proc import maps, root, status

# The release notes of glibc 2.34: "The malloc debugging hooks ... have been moved to libc_malloc_debug.so".
FIRST_WITHOUT = (2, 34)
_VERSION = re.compile(rb"GNU C Library [^\n]{0,200}?version (\d{1,3})\.(\d{1,3})")
_MOST_LIBC = 64 << 20  # bytes; libc.so.6 has 2 MB, with its debug information 20


@dataclass(frozen=True)
class MtraceSupport:
    """glibc    its version, None when it cannot be read
    preloaded  whether libc_malloc_debug.so is in the process
    log        MALLOC_TRACE of its environment, "" without one
    jvm        whether the process is a JVM, into which the probe can be loaded
    """

    pid: int
    glibc: tuple[int, int] | None
    preloaded: bool
    log: str
    jvm: bool

    @property
    def ignored(self) -> bool:
        """Whether a call of mtrace() does nothing."""
        return not self.preloaded and self.glibc is not None and self.glibc >= FIRST_WITHOUT


def mtrace_support(pid: int) -> MtraceSupport:
    """UserError when there is no such process, or it belongs to another user."""
    try:
        mappings = maps.read(pid)
    except (ProcessLookupError, FileNotFoundError):
        raise attach_listener.NoProcess(pid) from None
    except PermissionError:
        if os.geteuid() == 0:
            raise UserError(f"PID {pid} hides its memory map", target.with_more_rights()) from None
        raise UserError(
            f"PID {pid} belongs to another user", "run offheap as that user, or as root"
        ) from None
    names = {mapping.name for mapping in mappings}
    version = None
    libc = next(
        (mapping for mapping in mappings if re.fullmatch(r"libc(-2\.\d+)?\.so(\.6)?", mapping.name)), None
    )
    if libc is not None:
        try:
            with root.open_mapped(pid, libc) as file:
                found = _VERSION.search(file.read_at(0, min(file.status.st_size, _MOST_LIBC)))
        except OSError:
            found = None
        version = (int(found[1]), int(found[2])) if found else None
    return MtraceSupport(
        pid,
        version,
        any(name.startswith("libc_malloc_debug.so") for name in names),
        status.environment(pid).get("MALLOC_TRACE", ""),
        "libjvm.so" in names,
    )
