"""The signals that end programs, and who may receive them."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Blocks them in this thread and in the threads that start meanwhile, which keep it so.

    Import numpy inside, before a program is followed: its linear algebra starts threads, and one
    that does not block a signal receives it, and ends us, while the main thread waits for it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
