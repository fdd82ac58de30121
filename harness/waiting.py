"""Waits for what another process or thread does."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 60.0  # a busy machine takes half of it
PAUSE = 0.02  # seconds between two questions


def wait_until(condition: Callable[[], object], seconds: float = SECONDS, pause: float = PAUSE) -> None:
    """Returns once `condition()` is true. Raises AssertionError if it is still false after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"the condition is still false after {seconds:.0f} s"
        time.sleep(pause)
