"""Asks a JVM for a garbage collection, to free the memory of unreachable objects."""

from __future__ import annotations

import time

from offheap.jvm.listener.attach import AttachedVM

# The collector only finds unreachable objects: the reference handler and the cleaner's thread free their
# native memory afterwards.
_SETTLE_SECONDS = 0.5
_ROUNDS = 2  # what a Cleaner's action or a finalizer releases is unreachable only after the first


def collect(pid: int) -> None:
    """Collects, even under -XX:+DisableExplicitGC, and waits a second for the memory to be freed.

    UserError when the JVM takes no requests.
    """
    vm = AttachedVM(pid)
    for _ in range(_ROUNDS):
        vm.jcmd("GC.run")
        time.sleep(_SETTLE_SECONDS)
