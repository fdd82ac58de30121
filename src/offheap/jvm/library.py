"""The probe's library file: where it is, and a place from which a given JVM can load it."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import offheap
from offheap import checkout
from offheap.errors import UserError
from offheap.jvm.owner import as_owner, entered
from offheap.proc import root
from offheap.proc.status import Status

NAME = "liboffheap.so"
# A copy lives alone in a folder of this form, so that whoever stops the probe knows what to remove.
_COPY = re.compile(rf"(/tmp|/var/tmp|/dev/shm)/offheap-lib-[^/]+/{re.escape(NAME)}")


def probe_library() -> Path:
    """The library in the installed package, links resolved; UserError when it was not built."""
    with suppress(PermissionError):  # another user's checkout: its library is taken as it is
        checkout.refresh_probe()
    path = Path(offheap.__file__).resolve().parent / "_lib" / NAME
    if not path.is_file():
        raise UserError(
            f"the probe is not built: {path} is missing",
            "build it with `python probe/build.py` or `pip install .`",
        )
    # glibc knows a loaded library by the name it was opened with: always use the same one.
    return path.resolve()


def place(target: Status) -> str:
    """Path, as the target sees it, of a library it can load: ours, or a copy in its /tmp.

    It needs a copy when it sees other files than we do (a container, a chroot), when its user
    may not read ours (a virtual environment in someone's home), or may not execute it there.
    """
    library = probe_library()
    if root.is_ours(target.pid, library) and _may_load(target, library):
        return str(library)
    reasons: list[str] = []
    for folder in ("/tmp", "/var/tmp", "/dev/shm"):
        theirs = root.through(target.pid, folder)
        if theirs.is_symlink():  # in a container it would lead to our files
            reasons.append(f"{folder} is a symbolic link")
            continue
        try:
            flags = os.statvfs(theirs).f_flag
            if flags & (os.ST_NOEXEC | os.ST_RDONLY):
                reasons.append(f"{folder} is {'noexec' if flags & os.ST_NOEXEC else 'read-only'}")
                continue
            return _copy(library, target, theirs, folder)
        except OSError as error:
            reasons.append(f"{folder}: {error.strerror}")
    raise UserError(
        f"PID {target.pid} cannot load {library}, and no copy can be placed where it could "
        f"({'; '.join(reasons)})",
        f"make a folder it can execute from, or put {NAME} into its image and start it with `offheap env`",
    )


def remove_copy(pid: int, library: str) -> None:
    """Removes a copy that `place` made; the target keeps what it has mapped."""
    if _COPY.fullmatch(library):
        folder = root.through(pid, library).parent
        with suppress(OSError):
            (folder / NAME).unlink(missing_ok=True)
            folder.rmdir()


def _may_load(target: Status, library: Path) -> bool:
    with suppress(OSError):
        if os.statvfs(library).f_flag & os.ST_NOEXEC:
            return False
    if target.uid in (os.geteuid(), 0):
        return True
    folders_open = all(folder.stat().st_mode & stat.S_IXOTH for folder in library.parents)
    return folders_open and bool(library.stat().st_mode & stat.S_IROTH)


def _copy(library: Path, target: Status, theirs: Path, folder: str) -> str:
    content = library.read_bytes()
    with entered(theirs) as entrance, as_owner(target):
        made = Path(tempfile.mkdtemp(prefix="offheap-lib-", dir=entrance))
        try:
            (made / NAME).write_bytes(content)
            os.chmod(made / NAME, 0o500)
        except OSError:
            shutil.rmtree(made, ignore_errors=True)
            raise
    return f"{folder}/{made.name}/{NAME}"
