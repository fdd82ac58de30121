"""The threads that wait for files which may never answer."""

from __future__ import annotations

import signal

from offheap.launch.signals import ENDING
from offheap.proc.time_limit import within


def test_no_thread_takes_a_signal_from_the_main_thread() -> None:
    """`run` passes SIGTERM on: a thread that received it would end offheap, and lose the recording."""
    assert within(5.0, lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [])) >= ENDING
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, []) & ENDING
