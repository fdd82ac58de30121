"""Whether the recorded process still lives, at a cost that allows many questions a second."""

from __future__ import annotations

import contextlib
import os
import select
import time

from offheap.probe.live_files import recorded_process


class ProcessExit:
    """The process with this PID (as we see it) that started then; None: one that is gone.

    A file descriptor of the process, which Linux has from 5.3 on, tells of its end at once and costs nothing
    until then.  Where there is none to be had, /proc is read each time, which takes half a millisecond.
    """

    def __init__(self, pid: int | None, process_start: int) -> None:
        self._pid, self._start = pid, process_start
        self._over = pid is None
        self._ends = select.poll()
        self._fd = -1
        if pid is not None:
            # A Python built against older headers lacks the function.
            with contextlib.suppress(OSError, AttributeError):
                self._fd = os.pidfd_open(pid)
                self._ends.register(self._fd, select.POLLIN)
            # Asked after opening: if the process still lives now, the descriptor is not of a later one.
            self._over = not recorded_process.alive(pid, process_start)

    def __enter__(self) -> ProcessExit:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @property
    def over(self) -> bool:
        return self.over_within(0.0)

    def over_within(self, seconds: float) -> bool:
        """Waits for this time, or until the process ends."""
        if not self._over:
            if self._fd >= 0:
                self._over = bool(self._ends.poll(seconds * 1000))
            else:
                time.sleep(seconds)
                assert self._pid is not None
                self._over = not recorded_process.alive(self._pid, self._start)
        return self._over
