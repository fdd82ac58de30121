"""The program that `offheap run` starts: offheap passes signals on as a shell does."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

from offheap.errors import UserError
from offheap.launch.signals import ENDING
from offheap.proc import oom

_SI_KERNEL = 0x80  # siginfo.h: the terminal sent it, and to the child as well
_POLL_SECONDS = 0.02


class Child:
    """Starts a program with offheap's own standard streams, in offheap's process group.

    `stdout`: a descriptor that the program has as its standard output instead.

    While the context is open this process blocks the four signals that end programs: `poll`
    passes them on.  After the program's end they ask offheap to stop, see `asked_to_stop`.
    If memory runs out, the kernel kills offheap, not the program.
    """

    def __init__(
        self, command: Sequence[str], variables: Mapping[str, str], stdout: int | None = None
    ) -> None:
        self.asked_to_stop = False
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        self._oom = oom.volunteer()
        try:
            self._process = subprocess.Popen(
                list(command),
                env={**os.environ, **variables},
                stdout=stdout,
                preexec_fn=self._become_the_program,
            )
        except OSError as error:
            self.__exit__(None, None, None)
            raise UserError(
                f"{command[0]} cannot be started: {error.strerror}", "check the command after --"
            ) from None

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)

    def _become_the_program(self) -> None:
        # exec keeps the mask of blocked signals: without this call the program never receives them.
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)
        oom.restore(self._oom)

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """Passes signals on; the exit status as a shell gives it (128 + n), None while it runs."""
        status = self._process.poll()
        while True:
            caught = signal.sigtimedwait(ENDING, 0)
            if caught is None:
                break
            if status is not None:
                self.asked_to_stop = True
            elif caught.si_code != _SI_KERNEL:
                self._process.send_signal(caught.si_signo)
        return status if status is None or status >= 0 else 128 - status

    def wait(self) -> int:
        """Waits for the end, passing signals on."""
        while (status := self.poll()) is None:
            time.sleep(_POLL_SECONDS)
        return status
