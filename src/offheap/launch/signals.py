"""The signals that end programs, and the threads that may receive them."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Blocks the signals in this thread and, for their whole life, in threads that start within the context.

    Import numpy inside, before following a program: its linear algebra starts threads, and a thread
    that does not block a signal receives it and ends offheap, while the main thread waits for it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
