"""Asks a JVM for a garbage collection, to free the memory of unreachable objects."""

from __future__ import annotations

import time

from offheap.errors import UserError
from offheap.jvm.counters import gauges, hsperfdata
from offheap.jvm.listener.attach import AttachedVM
from offheap.proc import maps, status

# The collector only finds unreachable objects: the reference handler and the cleaner's thread free their
# native memory afterwards.
_SETTLE_SECONDS = 0.5
_ROUNDS = 2  # what a Cleaner's action or a finalizer releases is unreachable only after the first


def collect(pid: int) -> None:
    """Collects, even under -XX:+DisableExplicitGC, and waits a second for the memory to be freed.

    UserError when the JVM takes no requests, or does not collect: Shenandoah obeys that option.
    """
    vm, before = AttachedVM(pid), _count(pid)
    for _ in range(_ROUNDS):
        vm.jcmd("GC.run")
        time.sleep(_SETTLE_SECONDS)
    if before is not None and _count(pid) == before:
        raise UserError(f"PID {pid} ignored the request", "start it without -XX:+DisableExplicitGC")


def _count(pid: int) -> float | None:
    """The JVM's collections up to now; None where it does not count them."""
    try:
        found = hsperfdata.read(pid, status.read(pid).namespace_pid, maps.read(pid))
    except OSError:
        return None
    return gauges.read(found).get("collections") if found else None
