"""Updates from a recording that grows, at little cost: from a live file, or from a recording's directory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.probe.contract import State
from offheap.probe.live_files import recorded_process
from offheap.probe.live_files.live_file import LiveFile
from offheap.proc import status
from offheap.recording.allowance import ceiling
from offheap.recording.build_recording import NumberedStacks, assemble
from offheap.recording.capture.info import describe, elapsed
from offheap.recording.capture.snapshots import Snapshot, Snapshots
from offheap.recording.java_objects import native, process_row
from offheap.recording.live_update import LiveUpdate
from offheap.recording.model import Chain, Info, OwnersOverTime, Recording
from offheap.recording.names.naming import Naming, symbolizer
from offheap.recording.storage import reader
from offheap.recording.storage.layout import META

# A directory is read whole each time, within this share of one CPU.
_SHARE_OF_CPU = 0.01
_MOST_COUNTS = 1000  # kept; beyond that every other one goes, but for the first and the last

# PID -> gauges by name, as in docs/recording-format.md; empty where they are not known.
Gauges = Callable[[int], Mapping[str, float]]


class FollowedLiveFile:
    """Reads of a live file only what it must; the process that writes it may end at any time.

    UserError when it is no live file, or damaged.  The file stays readable when its name is removed.
    `gauges`: asked at each update.
    """

    def __init__(self, path: Path, gauges: Gauges | None = None) -> None:
        self._gauges = gauges
        self._counted: list[tuple[float, Mapping[str, float]]] = []
        self._file = LiveFile(path)
        self._pid = recorded_process.find(self._file.header)
        self._command_line = status.command_line(self._pid) if self._pid is not None else ()
        self._naming = Naming(self._file, symbolizer(self._pid))
        self._snapshots = Snapshots(self._file, self._naming)
        self._stacks: list[NumberedStacks] = []
        self._chains: dict[int, Chain] = {}
        self._over = False
        self._time = 0.0
        self._info: Info | None = None  # of the last update, and its rows
        self._snapshot: Snapshot | None = None

    def close(self) -> None:
        self._naming.close()
        self._file.close()

    def update(self) -> LiveUpdate | None:
        """A new snapshot; None once the last one was taken."""
        if self._over:
            return None
        header = self._file.refresh()
        alive = self._pid is not None and recorded_process.alive(self._pid, header.process_start)
        # Asked before the file is read, so that what the process wrote before it ended is read below.
        self._over = not alive or header.state in (State.STOPPED, State.EXITED)
        # A killed process's heartbeat lies before our last update.
        self._time = max(self._time, elapsed(header, alive))
        if self._gauges and self._pid is not None and alive:
            # Read before the blocks: a collection that is counted has already freed what it could of them.
            self._count(self._gauges(self._pid))
        with ceiling(self._file.path):
            snapshot = self._snapshots.take(self._time, pid=self._pid if alive else None, final=self._over)
        if len(snapshot.stacks.numbers):
            self._stacks.append(snapshot.stacks)
        self._chains.update(snapshot.chains)
        births = snapshot.live["birth"]
        info = describe(
            self._file.path,
            self._file.header,
            alive=alive,
            duration=max(self._time, float(births.max()) if len(births) else 0.0),
            properties=self._file.properties(),
            command_line=self._command_line,
            problems=self._naming.problems(),
        )
        self._info, self._snapshot = info, snapshot
        live, series = (native(rows, snapshot.kinds) for rows in (snapshot.live, snapshot.series))
        return LiveUpdate(info, False, self._over, live, series, snapshot.process)

    def recording(self) -> Recording:
        """All that the last update knew.

        Its series are the rows of that update only; those of Java objects are all stacks', as of that update.
        """
        assert self._info is not None, "update first"
        assert self._snapshot is not None
        last = self._snapshot
        self._stacks = [_joined(self._stacks)]
        recording = assemble(
            self._info,
            self._stacks[0],
            self._chains.items(),
            self._file.threads(),
            self._naming.modules(),
            last.live.copy(),
            last.series,
            last.process,
        )
        java = recording.java and replace(
            recording.java, series=last.java, process=process_row(last.process, last.java)
        )
        return replace(recording, owners=self._owners(), java=java)

    def _count(self, gauges: Mapping[str, float]) -> None:
        self._counted.append((self._time, gauges))
        if len(self._counted) > _MOST_COUNTS:
            del self._counted[1:-1:2]

    def _owners(self) -> OwnersOverTime:
        """What was counted, without any owner."""
        counted = self._counted
        names = sorted({name for _, gauges in counted for name in gauges})
        return OwnersOverTime(
            np.array([at for at, _ in counted]),
            [],
            np.zeros((len(counted), 0)),
            np.zeros(len(counted)),
            {name: np.array([gauges.get(name, np.nan) for _, gauges in counted]) for name in names},
        )


class FollowedDirectory:
    """A recording's directory, finished or growing.  UserError if it is no recording, or damaged."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: tuple[int, int] | None = None
        self._due = 0.0
        self._recording: Recording | None = None
        self._symbolizer = symbolizer(None)  # for as long as the recording is written

    def close(self) -> None:
        self._symbolizer.close()

    def update(self) -> LiveUpdate | None:
        """None when nothing was written since the update before, or it is too early to read it all again."""
        began = time.monotonic()
        written = self._stamp()
        if self._recording is not None and (written == self._written or began < self._due):
            return None
        used = time.process_time()
        with ceiling(self._path):
            self._recording = reader.load(self._path, self._symbolizer)
        self._written = written
        self._due = began + (time.process_time() - used) / _SHARE_OF_CPU
        its = self._recording
        return LiveUpdate(its.info, True, its.info.ended != "recording", its.live, its.series, its.process)

    def recording(self) -> Recording:
        """The recording as of the last update."""
        assert self._recording is not None, "update first"
        return self._recording

    def _stamp(self) -> tuple[int, int] | None:
        """The recorder replaces meta.json after every snapshot."""
        try:
            its = (self._path / META).stat()
        except OSError:
            return None
        return its.st_mtime_ns, its.st_ino


def follow(path: Path, gauges: Gauges | None = None) -> FollowedLiveFile | FollowedDirectory:
    """UserError when there is neither a live file nor a recording.  A recording has its own gauges."""
    return FollowedDirectory(path) if path.is_dir() else FollowedLiveFile(path, gauges)


def _joined(parts: list[NumberedStacks]) -> NumberedStacks:
    def column(name: str, empty: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in parts]) if parts else empty

    none = NumberedStacks()
    return NumberedStacks(
        column("numbers", none.numbers),
        column("kinds", none.kinds),
        column("depths", none.depths),
        column("frames", none.frames),
    )
