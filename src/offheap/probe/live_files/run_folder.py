"""The folder of one `offheap run`, in which its processes make their live files.

The run removes it at its end.  A killed run leaves it behind, and the next command of the same user that
starts, lists or reads a process removes it.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from offheap.errors import UserError
from offheap.probe.live_files import folders, recorded_process, search
from offheap.proc import status
from offheap.proc.opened_folder import OpenedFolder, unless_silent
from offheap.quantities import format_size

# The probe uses a folder only if it has room for twice its tables (probe/store/live_file.c).
_ROOM_SAMPLED = 32 << 20
_ROOM_EXACT = 160 << 20
NAME = re.compile(r"offheap-run-\d{1,10}-\w+")
_OWNER = "owner"
_CONTENTS = re.compile(f"{_OWNER}|{search.NAME.pattern}")
_NOBODY = "the run that created its folder is unknown"


def make(
    exact: bool,
    say: Callable[[str], None] = lambda line: None,
    full: Callable[[Path], str] = lambda folder: "",
) -> Path:
    """A new folder for this run with room for live files: on tmpfs, or on disk if tmpfs is too small.

    `full` returns the mend for the full file system of a folder, or ""; `say` takes that line.
    """
    mends: list[str] = []
    room = _ROOM_EXACT if exact else _ROOM_SAMPLED
    for parent in folders.for_runs():
        with contextlib.suppress(OSError):
            free = os.statvfs(parent)
            if free.f_bavail * free.f_frsize < room and (mend := full(Path(parent))):
                mends.append(mend)
                say(f"{parent} has only {format_size(free.f_bavail * free.f_frsize)} free; {mend}")
            # A comma ends the probe's option.
            if free.f_bavail * free.f_frsize >= room and "," not in parent:
                folder = Path(tempfile.mkdtemp(prefix=f"offheap-run-{os.getpid()}-", dir=parent))
                (folder / _OWNER).write_text(_ourselves())
                if os.geteuid() == 0:
                    # A start script may change its user; nobody can guess the name.
                    folder.chmod(0o1733)
                return folder
    raise UserError(
        f"neither /dev/shm nor {tempfile.gettempdir()} has {room >> 20} MiB free for the live file",
        mends[0] if mends else "free some space, or set TMPDIR to a directory that has enough",
    )


def remove(folder: Path) -> None:
    """Removes the folder and the files of ended processes; files that a living JVM writes stay."""
    for file in search.inside(folder):
        if not file.recording or not file.jvm:
            with contextlib.suppress(OSError):
                file.path.unlink()
    with contextlib.suppress(OSError):
        if os.listdir(folder) == [_OWNER]:
            (folder / _OWNER).unlink()
        folder.rmdir()


def sweep() -> None:
    """Removes the folders of this user's killed runs, except those that a process still writes to."""
    for parent in folders.for_runs():
        with contextlib.suppress(OSError), OpenedFolder.at(parent, follow=False) as above:
            for name in above.names(NAME):
                with unless_silent(), above.folder(name) as folder:
                    if _left_behind(folder, Path(parent, name)):
                        _empty(folder)
                        above.remove_folder(name)


def _ourselves() -> str:
    """This process in the owner file: containers that share /dev/shm may number PIDs differently."""
    return " ".join(map(str, status.identity())) + "\n"


def kept_by(folder: OpenedFolder) -> str:
    """Why the open folder of a run is still wanted; "" when the run is certainly gone."""
    # Others may create files in root's folder, but cannot replace this one.
    try:
        with folder.regular(_OWNER) as owner:
            words = owner.read_at(0, 100).split()
    except TimeoutError:
        raise
    except OSError:
        return _NOBODY
    foreign = owner.status.st_uid != folder.status.st_uid
    if foreign or len(words) != 3 or not all(word.isdigit() for word in words):
        return _NOBODY
    pid, start_ticks, namespace = map(int, words)
    if namespace != os.stat("/proc/self/ns/pid").st_ino:
        return "the run that created its folder is in another container"
    return (
        f"the run that created its folder still runs (PID {pid})"
        if recorded_process.alive(pid, start_ticks)
        else ""
    )


def _left_behind(folder: OpenedFolder, path: Path) -> bool:
    """Whether a folder is this user's, its run is gone, and no process writes to it."""
    if folder.status.st_uid != os.geteuid() or kept_by(folder):
        return False
    found = {file.path.name: file for file in search.inside(path)}
    for name in folder.names(search.NAME):
        # A folder that is being made is not readable yet.
        if found[name].recording if name in found else os.path.exists(f"/proc/{name.split('-')[1]}"):
            return False
    return True


def _empty(folder: OpenedFolder) -> None:
    for name in folder.names(_CONTENTS):
        folder.remove(name)
