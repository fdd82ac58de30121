"""A time limit for calls that the kernel may never return from.

Another user's file system (FUSE) or an unreachable server (NFS) may never answer.  No signal handler
interrupts such a call: only the death of the process does.  So the call runs on a separate thread, which
`within` abandons when the time is over.  The thread ends with the process at the latest; but the process
itself does not end while the server of a FUSE file system has read the thread's request and not answered it.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

_T = TypeVar("_T")

# Abandoned threads at one time: with more, every call is refused until one of them returns.
_MOST_STUCK = 64
_IDLE_SECONDS = 1.0  # for which a thread waits for the next call

_Call = tuple[Callable[[], Any], "_Answer"]


class _Answer:
    """One call's result, for the caller, or dropped after the caller has stopped waiting."""

    def __init__(self, late: Callable[[Any], None] | None) -> None:
        self.result: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
        self._late = late
        self._lock = threading.Lock()
        self._given_up = False

    def put(self, good: bool, value: Any) -> bool:
        """False when the caller no longer waits: then the thread releases the result."""
        with self._lock:
            if not self._given_up:
                self.result.put((good, value))
                return True
        if good and self._late:
            self._late(value)
        return False

    def give_up(self) -> bool:
        """False when the result has come."""
        with self._lock:
            self._given_up = self.result.empty()
            return self._given_up


class _Worker:
    """A thread that makes one call after the other, until one is abandoned or no further one comes."""

    def __init__(self, idle: list[_Worker]) -> None:
        self.calls: SimpleQueue[_Call] = SimpleQueue()
        self._idle = idle
        # The thread inherits the mask.  A thread that blocks no signals could receive SIGTERM, which would
        # end offheap while the main thread waits for that signal to pass it on (launch/signals.py).
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            threading.Thread(target=self._run, name="offheap reader", daemon=True).start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _run(self) -> None:
        while True:
            try:
                call, answer = self.calls.get(timeout=_IDLE_SECONDS)
            except Empty:
                try:
                    self._idle.remove(self)
                    return
                except ValueError:  # a call is on its way
                    continue
            try:
                good, value = True, call()
            except BaseException as error:
                good, value = False, error
            if not answer.put(good, value):
                _stuck.discard(self)
                return
            del call, answer, value


# By effective user: a thread keeps the user of its start (jvm/listener/owner.py changes that of one thread).
_idle: dict[int, list[_Worker]] = {}
_stuck: set[_Worker] = set()


def _forget() -> None:
    """A forked child has none of its parent's threads."""
    _idle.clear()
    _stuck.clear()


os.register_at_fork(after_in_child=_forget)


def within(seconds: float, call: Callable[[], _T], late: Callable[[_T], None] | None = None) -> _T:
    """The result of `call`; TimeoutError, an OSError, when it takes longer.

    `late` releases a result that comes later.  The call may go on after the time: `late` undoes its changes,
    or they must be harmless.
    """
    if len(_stuck) >= _MOST_STUCK:
        raise TimeoutError(errno.ETIMEDOUT, "is not read: too many files do not answer")
    idle = _idle.setdefault(os.geteuid(), [])
    try:
        worker = idle.pop()
    except IndexError:
        worker = _Worker(idle)
    answer = _Answer(late)
    worker.calls.put((call, answer))
    try:
        good, value = answer.result.get(timeout=max(seconds, 0.0))
    except Empty:
        _stuck.add(worker)
        if answer.give_up():
            raise TimeoutError(errno.ETIMEDOUT, f"did not answer within {seconds:g} s") from None
        _stuck.discard(worker)
        good, value = answer.result.get()
    except BaseException:  # Ctrl-C
        _stuck.add(worker)
        if not answer.give_up():
            _stuck.discard(worker)
            idle.append(worker)
        raise
    idle.append(worker)
    if good:
        result: _T = value
        return result
    raise value
