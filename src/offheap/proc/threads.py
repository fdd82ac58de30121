"""The threads of a process and their stacks, including threads that no JVM knows (proc(5))."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# The words of /proc/PID/task/TID/syscall: number, six arguments, stack pointer, program counter.
_BLOCKED = re.compile(r"-?\d+(?: 0x[0-9a-f]+)*? (0x[0-9a-f]+) 0x[0-9a-f]+\s*", re.ASCII)
_TRIES, _PAUSE_SECONDS = 4, 0.005


@dataclass(frozen=True, slots=True)
class Thread:
    """`stack_pointer` is None for a thread that ran at every read, or without the right to read it."""

    tid: int
    name: str
    stack_pointer: int | None


def read(pid: int) -> list[Thread]:
    """Every thread; ProcessLookupError when the process is gone.  Stops no thread."""
    found = {thread.tid: thread for thread in _list(pid)}
    for _ in range(_TRIES - 1):
        # The kernel shows nothing of a thread on a CPU, but the thread may sleep a moment later.
        missing = [thread for thread in found.values() if thread.stack_pointer is None]
        if not missing or len(missing) == len(found):
            break
        time.sleep(_PAUSE_SECONDS)
        for thread in missing:
            pointer = _stack_pointer(pid, thread.tid)
            found[thread.tid] = Thread(thread.tid, thread.name, pointer)
    return list(found.values())


def names(pid: int) -> dict[int, str]:
    """The first 15 bytes of each thread's name, by thread id; ProcessLookupError when the process is gone."""
    try:
        tids = sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    except FileNotFoundError:
        raise ProcessLookupError(f"no process {pid}") from None
    found = {}
    for tid in tids:
        with suppress(OSError):  # the thread has ended
            comm = Path(f"/proc/{pid}/task/{tid}/comm").read_bytes().decode(errors="replace")
            found[tid] = comm.removesuffix("\n")
    return found


def faults(pid: int, names: Container[str]) -> int:
    """Page faults so far of the threads with one of these names: each brought one page into memory."""
    total = 0
    try:
        tids = os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        raise ProcessLookupError(f"no process {pid}") from None
    for tid in tids:
        try:
            total += parse_faults(Path(f"/proc/{pid}/task/{tid}/stat").read_text(errors="replace"), names)
        except OSError:
            continue  # the thread has ended
    return total


def parse_faults(stat: str, names: Container[str]) -> int:
    """Minor and major faults (fields 10 and 12) in a thread's stat file; 0 for a thread of another name."""
    head, _, rest = stat.rpartition(")")
    counts = rest.split()[7:10:2]
    if head.partition("(")[2] not in names or not all(
        count.isdecimal() and len(count) < 20 for count in counts
    ):
        return 0
    return sum(map(int, counts))


def parse_syscall(text: str) -> int | None:
    """The stack pointer in a thread's syscall file; None for a thread that runs."""
    match = _BLOCKED.fullmatch(text)
    return int(match[1], 16) if match else None


def _list(pid: int) -> list[Thread]:
    return [Thread(tid, name, _stack_pointer(pid, tid)) for tid, name in names(pid).items()]


def _stack_pointer(pid: int, tid: int) -> int | None:
    try:
        return parse_syscall(Path(f"/proc/{pid}/task/{tid}/syscall").read_text())
    except OSError:
        return None
