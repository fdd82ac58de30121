"""Runs a program under a profiling jemalloc, and writes the perf maps of its JVMs beside their dumps."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from offheap.errors import UserError
from offheap.jemalloc import dumps, perf_maps
from offheap.jvm.listener import target
from offheap.launch.child import Child
from offheap.proc import maps, status

_POLL_SECONDS = 0.5  # between two readings of the folder's names
# Maps also come between dumps: jemalloc writes the last dump at the exit, when the JVM writes no map.
_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 60.0


@dataclass
class Profiled:
    """status    the program's exit status as in a shell
    dumps     by PID, those that the program and its children wrote
    jvms      the PIDs that are JVMs, as they see themselves
    problems  why a JVM gave no perf map, one sentence each
    """

    status: int
    dumps: dict[int, list[Path]]
    jvms: set[int]
    problems: list[str] = field(default_factory=list)


def run(
    command: Sequence[str], variables: Mapping[str, str], folder: Path, stdout: int | None = None
) -> Profiled:
    """Runs the command to its end; perf maps go into the folder as perf-PID.map; `stdout`: see Child."""
    names = _Names(folder, variables["MALLOC_CONF"])
    ended = threading.Event()
    # The child blocks the signals that it passes on, and so does the thread that starts inside.
    with Child(command, variables, stdout) as child:
        follower = threading.Thread(target=names.follow, args=(ended,), daemon=True)
        follower.start()
        code = child.wait()
        ended.set()
        # A JVM that has ended does not answer: the thread returns within the time limit of one request.
        follower.join(_POLL_SECONDS * 2)
    return Profiled(code, dumps.series(folder), names.jvms, list(names.problems))


class _Names:
    """The JVMs of the program, known by their MALLOC_CONF, and their perf maps."""

    def __init__(self, folder: Path, conf: str) -> None:
        self.jvms: set[int] = set()
        self.problems: dict[str, None] = {}
        self._folder = folder
        self._conf = conf

    def follow(self, ended: threading.Event) -> None:
        """Writes maps until the end: after each new dump, and at intervals that double up to a minute."""
        began = time.monotonic()
        after = _FIRST_SECONDS
        known: list[Path] = []
        while not ended.wait(_POLL_SECONDS):
            passed = time.monotonic() - began
            with suppress(OSError):
                now = [path for its in dumps.series(self._folder).values() for path in its]
                if passed >= after or now != known:
                    after = passed + min(max(passed, _FIRST_SECONDS), _LONGEST_SECONDS)
                    known = now
                    self._visit()

    def _visit(self) -> None:
        for pid in status.pids():
            if status.environment(pid).get("MALLOC_CONF") == self._conf:
                self._take(pid)

    def _take(self, pid: int) -> None:
        try:
            its = status.read(pid)
            if not target.has_libjvm(maps.read(pid)):
                return
            self.jvms.add(its.namespace_pid)
            text = perf_maps.take(pid)
        except (ProcessLookupError, PermissionError):
            return
        except UserError as error:
            if pid in status.pids():  # not one that has just ended
                self.problems.setdefault(error.what)
            return
        path = dumps.perf_map(self._folder, its.namespace_pid)
        old = path.read_bytes() if path.exists() else b""
        fresh = path.with_suffix(".new")
        fresh.write_bytes(perf_maps.merged(old, text))
        fresh.replace(path)
