"""The folders of live files: one list for starting the probe, for runs, and for the search."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from offheap.proc import opening, status

_MEMORY, _DISK = "/dev/shm", "/tmp"  # page faults are cheapest on tmpfs


def for_attach(pid: int) -> list[str]:
    """Folders for a live file as the process sees them, best first."""
    chosen: list[str] = []
    for folder in (_MEMORY, status.environment(pid).get("TMPDIR", ""), _DISK):
        # A comma ends the probe's option.
        if folder.startswith("/") and "," not in folder and folder not in chosen:
            chosen.append(folder.rstrip("/") or "/")
    return chosen


def for_runs() -> list[str]:
    """Folders for the folder of a run, best first."""
    return list(dict.fromkeys((_MEMORY, tempfile.gettempdir(), _DISK)))


def worth_sweeping() -> bool:
    """Whether a live file or the folder of a run is in a folder for runs; numpy is not imported for this."""
    for folder in for_runs():
        with suppress(OSError):
            for name in os.listdir(folder):
                if name.startswith("offheap-run-") or (
                    name.startswith("offheap-") and name.endswith(".live")
                ):
                    return True
    return False


def everywhere(pid: int | None = None) -> list[Path]:
    """The possible folders of live files of a process, or of all processes: each folder once."""
    found: dict[tuple[int, int], Path] = {}
    for folder in for_runs():
        _add(found, Path(folder))
    for other in [pid] if pid is not None else status.pids():
        for folder in _of_process(other):
            _add(found, Path(f"/proc/{other}/root{folder}"))
    return list(found.values())


def _of_process(pid: int) -> list[str]:
    """As the process sees them: the folder in its OFFHEAP variable, then the probe's default folders."""
    variables = status.environment(pid)
    options = dict(
        option.partition("=")[::2] for option in variables.get("OFFHEAP", "").split(",") if "=" in option
    )
    named = [options.get("dir", ""), str(Path(options["file"]).parent) if options.get("file") else ""]
    named += [variables.get("TMPDIR", ""), _MEMORY, _DISK]
    return [folder for folder in named if folder.startswith("/")]


def _add(found: dict[tuple[int, int], Path], folder: Path) -> None:
    """Adds each folder once, under the name that comes first: a local path precedes one in /proc/PID/root."""
    with suppress(OSError):
        its = opening.status(folder)
        found.setdefault((its.st_dev, its.st_ino), folder)
