"""Finds stale live files and removes those that nobody wants.

A killed process leaves its live file behind, and /dev/shm is memory.  A file's own claims do not decide
its removal: only the kernel knows whether any process, in any container, writes to it.

`offheap clean` removes all stale files.  Other commands remove only files that nobody will ask for: the file
that a killed recorder left, whose recording exists, and, without --keep, the file of a process that ended
more than a day ago.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from offheap.probe import contract
from offheap.probe.contract import State
from offheap.probe.live_files import folders, recorded_process, run_folder, search
from offheap.proc import locks, opening, status
from offheap.proc.opened_folder import OpenedFolder, unless_silent
from offheap.proc.opening import RegularFile
from offheap.quantities import format_duration, format_size

# Long enough to inspect a process in the morning that was killed at night.
_SWEPT_AFTER_SECONDS = 24 * 3600.0

# The number of files named in an error, which is one line.
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class LiveFileFound:
    """One live file of this machine.

    pid      the process's own PID, which another process may have now
    bytes    that the file occupies, in memory if it is on tmpfs
    seconds  since the file was made
    kept     why the file is wanted or may not be removed; "" for a stale file
    removed  whether offheap removed the file
    """

    path: Path
    device: int  # st_dev
    user: str
    pid: int
    bytes: int
    seconds: float
    kept: str
    removed: bool = False


@dataclass(frozen=True, slots=True)
class Survey:
    """The live files that were found, the largest first."""

    files: Sequence[LiveFileFound]

    @property
    def stale(self) -> list[LiveFileFound]:
        """Those that nobody wants: `offheap clean` has removed them, or would."""
        return [file for file in self.files if not file.kept]

    @property
    def stale_bytes(self) -> int:
        return sum(file.bytes for file in self.stale)

    @property
    def freed_bytes(self) -> int:
        return sum(file.bytes for file in self.files if file.removed)


@dataclass(frozen=True, slots=True)
class Wish:
    """The stale files that `survey` removes.

    everybody  root only: also other users' files
    seconds    only files at least this old
    """

    remove: bool = False
    everybody: bool = False
    seconds: float = 0.0


def survey(wish: Wish | None = None) -> list[LiveFileFound]:
    """Every live file in the probe's folders and in the folders of runs, the largest first."""
    wish = wish or Wish()
    found: dict[tuple[int, int], LiveFileFound] = {}
    for folder in folders.everywhere():
        # A folder that does not answer, or that lists a file that does not, is left out from there on.
        with contextlib.suppress(OSError), OpenedFolder.at(folder) as above:
            _judge_all(above, folder, wish, found)
            for name in above.names(run_folder.NAME):
                with unless_silent(), above.folder(name) as inner:
                    _judge_all(inner, folder / name, wish, found)
    if wish.remove:
        run_folder.sweep()
    return sorted(found.values(), key=lambda file: (-file.bytes, str(file.path)))


def stale() -> Survey:
    """The stale live files of this user."""
    return Survey(Survey(survey()).stale)


def sweep() -> None:
    """Removes this user's stale files that nobody will ask for, and the folders of killed runs."""
    run_folder.sweep()
    for folder in folders.for_runs():
        with contextlib.suppress(OSError), OpenedFolder.at(folder) as above:
            for name in above.names(search.NAME):
                with unless_silent():
                    _sweep_one(above, name)


def _sweep_one(folder: OpenedFolder, name: str) -> None:
    if folder.entry_status(name).st_uid != os.geteuid():
        return
    with folder.regular(name) as file:
        its = file.status
        if its.st_uid != os.geteuid() or _wanted(file):
            return
        row = _header(file)
        if row is None:  # a killed probe left it half made
            forgotten = _age(its) > _SWEPT_AFTER_SECONDS
        else:
            forgotten = bool(row["recorder_pid"]) or (not row["kept"] and _silent(row) > _SWEPT_AFTER_SECONDS)
        if forgotten and os.path.samestat(its, folder.entry_status(name)):
            folder.remove(name)


def _silent(row: Any) -> float:
    """Seconds since the last sign of life of a file from this boot or an earlier one."""
    last = max(int(row["heartbeat_ns"]), int(row["stop_monotonic_ns"]))
    recorded = max(0, last - int(row["start_monotonic_ns"]))
    return time.time() - (int(row["start_realtime_ns"]) + recorded) / 1e9


def mend(folder: Path) -> str:
    """The mend when the file system of a folder is full; "" when no stale live file is on it."""
    try:
        device = opening.status(folder).st_dev
    except OSError:
        return ""
    found = [file for file in stale().files if file.device == device]
    if not found:
        return ""
    size = format_size(sum(file.bytes for file in found))
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    names = ", ".join(str(file.path) for file in found[:_MOST_NAMED])
    return f"`offheap clean` frees {size} of stale live files: {names}{more}"


def _judge_all(
    folder: OpenedFolder, path: Path, wish: Wish, found: dict[tuple[int, int], LiveFileFound]
) -> None:
    """Adds the live files of an open folder that `found` does not have, by device and inode."""
    # A file in the folder of a run waits for its run, regardless of its writer.
    kept = run_folder.kept_by(folder) if run_folder.NAME.fullmatch(path.name) else ""
    for name in folder.names(search.NAME):
        with unless_silent():
            its = folder.entry_status(name)
            # A link, a folder or a FIFO with such a name is no live file.
            if stat.S_ISREG(its.st_mode) and (its.st_dev, its.st_ino) not in found:
                reason = kept or _not_ours(its.st_uid, wish) or _judge(folder, name, its, wish)
                found[its.st_dev, its.st_ino] = LiveFileFound(
                    path / name,
                    its.st_dev,
                    status.user_name(its.st_uid),
                    int(name.split("-")[1]),
                    its.st_blocks * 512,
                    _age(its),
                    reason,
                    removed=wish.remove and not reason,
                )


def _not_ours(uid: int, wish: Wish) -> str:
    if uid == os.geteuid():
        return ""
    if os.geteuid() == 0:
        return "" if wish.everybody else f"belongs to {status.user_name(uid)} (--all-users)"
    return f"belongs to {status.user_name(uid)}: run offheap as that user or as root"


def _judge(folder: OpenedFolder, name: str, its: os.stat_result, wish: Wish) -> str:
    """Why a file stays; "" for a stale file, which this removes if `wish` includes it."""
    try:
        file = folder.regular(name)
    except TimeoutError:
        raise
    except OSError as error:
        return f"cannot be opened: {error.strerror}"
    with file:
        try:
            if not os.path.samestat(file.status, its):
                return "has changed just now"
            kept = _wanted(file)
            if not kept and _age(its) < wish.seconds:
                kept = f"is younger than {format_duration(wish.seconds)}"
            if not kept and wish.remove:
                folder.remove(name)
            return kept
        except TimeoutError:
            raise
        except OSError as error:
            return f"cannot be removed: {error.strerror}"


def _age(its: os.stat_result) -> float:
    """Seconds since the file was made: stores into a mapping on tmpfs do not change its times."""
    return max(0.0, time.time() - its.st_mtime)


def _wanted(file: RegularFile) -> str:
    """Why an open file is still wanted; "" for a live file that nobody uses or may ask for."""
    row = _header(file)
    pid, recording, recorder = None, False, ""
    if row is not None:
        pid = recorded_process.find_process(int(row["pid"]), int(row["process_start"]))
        recording = row["state"] == State.RECORDING
        recorder = _recorder(row)
    written = file.timed(lambda: locks.is_written(file.descriptor))
    if pid and (written or recording):
        return f"PID {pid} records into it"
    if written:
        return "a process that is not visible from here writes to it"
    if written is None:
        return "its file system does not say whether a process writes to it"
    try:
        file.timed(lambda: fcntl.flock(file.descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB))
    except BlockingIOError:
        reader = file.timed(lambda: locks.holder(file.descriptor))
        return f"PID {reader} reads it" if reader else "an offheap reads it"
    if recorder:
        return recorder
    if pid and not (row is not None and row["recorder_pid"]):
        return f"PID {pid} still runs, and its recording was stopped: read it, then delete it by hand"
    # A probe killed while it made the file has written nothing.
    empty = row is None and not file.read_at(0, contract.HEADER_BYTES).strip(b"\0")
    return "" if row is not None or empty else "not a live file, despite its name"


def _header(file: RegularFile) -> Any:
    """The row of contract.HEADER; None if the file has no header."""
    raw = file.read_at(0, contract.HEADER_BYTES)
    whole = len(raw) == contract.HEADER_BYTES and raw.startswith(contract.MAGIC)
    return np.frombuffer(raw, contract.HEADER, 1)[0] if whole else None


def _recorder(row: Any) -> str:
    """Why the file's recorder may still want the file; "" when the recorder is gone, or there was none."""
    pid = int(row["recorder_pid"])
    # Only its lock shows a recorder in another container, which holds the lock until it removes the file.
    here = int(row["recorder_namespace"]) == os.stat("/proc/self/ns/pid").st_ino
    alive = pid and here and recorded_process.alive(pid, int(row["recorder_start"]))
    return f"PID {pid}, the offheap that it was made for, still runs" if alive else ""
