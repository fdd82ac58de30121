"""Finds the probe's library file, and a path from which a given JVM can load it."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import offheap
from offheap.errors import UserError
from offheap.jvm.listener.owner import as_owner, entered
from offheap.probe import checkout
from offheap.proc import opening, root
from offheap.proc.status import Status
from offheap.proc.time_limit import within

NAME = "liboffheap.so"
_SECONDS = 10.0  # for the copy, or its removal: the target's file system may not answer
# A copy has its own folder of this form, so that the command that stops the probe can remove it.
_COPY = re.compile(rf"(/tmp|/var/tmp|/dev/shm)/(offheap-lib-[^/]+)/{re.escape(NAME)}")
# Descriptors of the folders of copies that this process has placed, by PID, start time and path.
_placed: dict[tuple[int, int, str], int] = {}


def probe_library() -> Path:
    """The library in the installed package, links resolved; UserError when it is not built."""
    with suppress(PermissionError):  # another user's checkout: its library is used as it is
        checkout.refresh_probe()
    path = Path(offheap.__file__).resolve().parent / "_lib" / NAME
    if not path.is_file():
        raise UserError(
            f"the probe is not built: {path} is missing",
            "build it with `python probe/build.py` or `pip install .`",
        )
    # glibc identifies a loaded library by the name of its opening: the name must always be the same.
    return path.resolve()


def place(target: Status) -> str:
    """Path, as the target sees it, of a library that it can load: the installed one, or a copy in its /tmp.

    The target needs a copy when it sees other files (a container, a chroot), or when its user may not read
    the installed library (a virtual environment in someone's home) or not execute it there.
    """
    library = probe_library()
    if root.is_ours(target.pid, library) and _may_load(target, library):
        return str(library)
    reasons: list[str] = []
    for folder in ("/tmp", "/var/tmp", "/dev/shm"):
        try:
            made = within(
                _SECONDS,
                partial(_copy_unless_refused, library, target, folder),
                late=lambda made: remove_copy(target, made.path),
            )
        except OSError as error:
            reasons.append(f"{folder}: {error.strerror}")
            continue
        if made.path:
            return made.path
        reasons.append(f"{folder} is {made.refused}")
    raise UserError(
        f"PID {target.pid} cannot load {library}, and no copy can be placed where it could "
        f"({'; '.join(reasons)})",
        f"make a folder it can execute from, or put {NAME} into its image and start it with `offheap env`",
    )


def remove_copy(target: Status, library: str) -> None:
    """Removes a copy that `place` made; the target keeps what it has mapped."""
    match = _COPY.fullmatch(library)
    if match is None:
        return
    held = _placed.pop((target.pid, target.start_ticks, library), None)

    def remove() -> None:
        try:
            with entered(root.through(target.pid, match[1])) as above:
                _remove(target, above, match[2], held)
        finally:
            if held is not None:
                os.close(held)

    # An error: the process has removed or replaced the copy, or its file system does not answer.
    with suppress(OSError):
        within(_SECONDS, remove)


def _remove(target: Status, above: Path, name: str, held: int | None) -> None:
    """Acts as the target's user: a link in the copy's place then leads only to that user's own files."""
    with as_owner(target):
        flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        folder = os.open(above / name, flags) if held is None else os.dup(held)
        try:
            its = os.fstat(folder)
            if its.st_uid == target.uid and not its.st_mode & 0o077:
                os.unlink(NAME, dir_fd=folder)
                os.rmdir(above / name)
        finally:
            os.close(folder)


def _may_load(target: Status, library: Path) -> bool:
    with suppress(OSError):
        if os.statvfs(library).f_flag & os.ST_NOEXEC:
            return False
    if target.uid in (os.geteuid(), 0):
        return True
    folders_open = all(folder.stat().st_mode & stat.S_IXOTH for folder in library.parents)
    return folders_open and bool(library.stat().st_mode & stat.S_IROTH)


@dataclass(frozen=True, slots=True)
class _Made:
    """A copy, by its path as the target sees it, or why the folder is refused."""

    path: str = ""
    refused: str = ""


def _copy_unless_refused(library: Path, target: Status, folder: str) -> _Made:
    theirs = root.through(target.pid, folder)
    # In a container a link leads to local files.
    if stat.S_ISLNK(opening.status(theirs, follow=False).st_mode):
        return _Made(refused="a symbolic link")
    with entered(theirs) as entrance:
        flags = os.statvfs(entrance).f_flag
    if flags & (os.ST_NOEXEC | os.ST_RDONLY):
        return _Made(refused="noexec" if flags & os.ST_NOEXEC else "read-only")
    return _Made(_copy(library, target, theirs, folder))


def _copy(library: Path, target: Status, theirs: Path, folder: str) -> str:
    content = library.read_bytes()
    with entered(theirs) as entrance, as_owner(target):
        made = Path(tempfile.mkdtemp(prefix="offheap-lib-", dir=entrance))
        held = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _write(content, held)
        except OSError:
            os.close(held)
            shutil.rmtree(made, ignore_errors=True)
            raise
    path = f"{folder}/{made.name}/{NAME}"
    # `remove_copy` compares the descriptor: the target may replace the folder under that name.
    _placed[target.pid, target.start_ticks, path] = held
    return path


def _write(content: bytes, folder: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(NAME, flags, 0o500, dir_fd=folder), "wb") as file:
        os.fchmod(file.fileno(), 0o500)
        file.write(content)
