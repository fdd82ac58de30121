"""Asking a JVM for a garbage collection, so that what only waited for one is freed."""

from __future__ import annotations

import time

from offheap.jvm.attach import AttachedVM

# The collector only finds what is unreachable: the memory itself is freed by the reference handler and the
# cleaner's thread, which run after it.
_SETTLE_SECONDS = 0.5
_ROUNDS = 2  # what a Cleaner's action lets go of, or a finalizer, is unreachable only after the first


def collect(pid: int) -> None:
    """Collects, whatever -XX:+DisableExplicitGC says, and waits a second for what that frees.

    UserError when the JVM takes no requests.
    """
    vm = AttachedVM(pid)
    for _ in range(_ROUNDS):
        vm.jcmd("GC.run")
        time.sleep(_SETTLE_SECONDS)
