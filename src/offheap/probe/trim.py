"""malloc_trim(3) in a running JVM: by its own command, or by the probe."""

from __future__ import annotations

from typing import Literal

from offheap.errors import UserError
from offheap.jvm.listener import target
from offheap.jvm.listener.attach import AttachedVM, AttachError
from offheap.probe import control

How = Literal["System.trim_native_heap", "the probe"]


def trim(pid: int) -> How:
    """Returns glibc's free memory to the system; an allocating thread waits while its arena is trimmed.

    UserError when neither the JVM (JDK 11 has no such command) nor a probe can do it.
    """
    target.check(pid)
    try:
        answer = AttachedVM(pid).jcmd("System.trim_native_heap")
    except AttachError:
        answer = ""
    if "rim" in answer and "not available" not in answer:
        return "System.trim_native_heap"
    if control.trim(pid):
        return "the probe"
    raise UserError(
        f"PID {pid} has neither System.trim_native_heap (JDK 17 or later) nor the probe",
        "load the probe first: offheap attach PID --duration 1s, or start with a smaller MALLOC_ARENA_MAX",
    )
