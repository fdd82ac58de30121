"""Where live files lie: one list for the probe that is started, for runs, and for the search."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from offheap.proc import opening, status

_MEMORY, _DISK = "/dev/shm", "/tmp"  # tmpfs costs a page fault the least


def for_attach(pid: int) -> list[str]:
    """Folders for a live file as the process sees them, best first."""
    chosen: list[str] = []
    for folder in (_MEMORY, status.environment(pid).get("TMPDIR", ""), _DISK):
        # A comma would end the probe's option.
        if folder.startswith("/") and "," not in folder and folder not in chosen:
            chosen.append(folder.rstrip("/") or "/")
    return chosen


def for_runs() -> list[str]:
    """Folders for the folder of a run, best first."""
    return list(dict.fromkeys((_MEMORY, tempfile.gettempdir(), _DISK)))


def everywhere(pid: int | None = None) -> list[Path]:
    """Where a process, or all of them, may have live files: each folder once."""
    found: dict[tuple[int, int], Path] = {}
    for folder in for_runs():
        _add(found, Path(folder))
    for other in [pid] if pid is not None else status.pids():
        for folder in _of_process(other):
            _add(found, Path(f"/proc/{other}/root{folder}"))
    return list(found.values())


def _of_process(pid: int) -> list[str]:
    """As the process sees them: what its OFFHEAP variable names, then where the probe looks by itself."""
    variables = status.environment(pid)
    options = dict(
        option.partition("=")[::2] for option in variables.get("OFFHEAP", "").split(",") if "=" in option
    )
    named = [options.get("dir", ""), str(Path(options["file"]).parent) if options.get("file") else ""]
    named += [variables.get("TMPDIR", ""), _MEMORY, _DISK]
    return [folder for folder in named if folder.startswith("/")]


def _add(found: dict[tuple[int, int], Path], folder: Path) -> None:
    """Each folder once, by the first name it was met under: ours comes before a /proc/PID/root."""
    with suppress(OSError):
        its = opening.status(folder)
        found.setdefault((its.st_dev, its.st_ino), folder)
