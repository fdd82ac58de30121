"""Whether the recorded process lives: by its descriptor, or without one where the kernel gives none."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from harness.hostile.seccomp import forbid
from offheap.probe.live_files import recorded_process
from offheap.proc import status
from offheap.recording.capture.process_exit import ProcessExit

PIDFD_OPEN = 434  # the same on all architectures


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def seen_to_end(pid: int, start_ticks: int) -> tuple[bool, bool, bool]:
    """Whether it is over at first, after a short wait, and within 30 s of being killed."""
    with ProcessExit(pid, start_ticks) as life:
        first, moment = life.over, life.over_within(0.05)
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while not life.over_within(0.05) and time.monotonic() < deadline:
            pass
        return first, moment, life.over


def test_the_end_is_seen(sleeper: subprocess.Popen[bytes]) -> None:
    assert seen_to_end(sleeper.pid, status.read(sleeper.pid).start_ticks) == (False, False, True)


def test_the_end_is_seen_without_a_descriptor_of_the_process(sleeper: subprocess.Popen[bytes]) -> None:
    """Linux before 5.3 has no such descriptor, and seccomp may forbid it."""
    with ProcessPoolExecutor(
        1, mp_context=get_context("spawn"), initializer=forbid, initargs=([PIDFD_OPEN],)
    ) as elsewhere:
        assert elsewhere.submit(_refused).result(60)
        seen = elsewhere.submit(seen_to_end, sleeper.pid, status.read(sleeper.pid).start_ticks).result(60)
    assert seen == (False, False, True)


def _refused() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except PermissionError:
        return True
    return False


def test_too_many_open_files_are_no_end(sleeper: subprocess.Popen[bytes]) -> None:
    """A recorder that takes this error for the end would remove the live file of a living process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as elsewhere:
        start = status.read(sleeper.pid).start_ticks
        assert elsewhere.submit(_alive_without_descriptors, sleeper.pid, start).result(60) == errno.EMFILE


def _alive_without_descriptors(pid: int, start_ticks: int) -> bool | int | None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    held = []
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        return recorded_process.alive(pid, start_ticks)
    except OSError as error:
        return error.errno
    finally:
        for each in held:
            os.close(each)


def test_who_is_gone_or_another_is_over_at_once(sleeper: subprocess.Popen[bytes]) -> None:
    start = status.read(sleeper.pid).start_ticks
    for pid, start_ticks in ((None, 0), (sleeper.pid, start - 1), (2**22 + 1, start)):
        with ProcessExit(pid, start_ticks) as life:
            assert life.over
