"""Ends a recording of a running JVM, after its time or at a signal, and removes the probe."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from offheap.errors import UserError


class Ending:
    """Ends a recording: it stops the probe first, so that the recorder sees the final state at rest."""

    def __init__(
        self,
        pid: int,
        *,
        stay: bool,
        duration: float | None,
        interrupted: list[int],
        gc: bool,
        say: Callable[[str], None],
    ) -> None:
        self._gc = gc
        self._say = say
        self.collected = False
        self.detached = False  # by this object
        self.stuck = False  # the probe is still in the process although it should be gone
        self._pid = pid
        self._in = not stay
        self._deadline = time.monotonic() + duration if duration is not None else float("inf")
        self._interrupted = interrupted

    def due(self) -> bool:
        """Whether the recorder must stop by itself; at the first call the stopped live file ends it."""
        if not self._interrupted and time.monotonic() < self._deadline:
            return False
        if self._gc:
            self._gc = False
            self.collected = collect(self._pid, self._say)
        return not self.detach()

    def detach(self) -> bool:
        """The first call removes the probe and returns True; a failure is reported."""
        if not self._in:
            return False
        self._in = False
        from offheap.jvm.listener.attach_listener import NoProcess
        from offheap.probe import control

        try:
            control.detach(self._pid)
        except (NoProcess, control.NotRecording):
            return False
        except UserError as error:
            mend = f"then take the probe out: offheap detach {self._pid}"
            self._say(f"{error}; {mend}")
            self.stuck = True
            return False
        self.detached = True
        return True


def collect(pid: int, say: Callable[[str], None]) -> bool:
    """Asks for a garbage collection; reports a failure and returns False: the recording must not be lost."""
    from offheap.jvm.listener import collection
    from offheap.jvm.listener.attach_listener import NoProcess

    try:
        collection.collect(pid)
    except NoProcess:
        return False
    except UserError as error:
        say(f"no collection: {error}")
        return False
    return True


@contextmanager
def interruptible() -> Iterator[list[int]]:
    """Collects SIGINT, SIGTERM and SIGHUP in a list, so that the probe is not left half removed."""
    received: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    before = {
        number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
