"""Where a report goes: into a file, whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from offheap.errors import UserError


def check(output: Path, mark: str = "") -> None:
    """UserError, before any work is done for it, when `put` could not write there."""
    try:
        # Permissions alone do not tell of read-only file systems.
        with tempfile.TemporaryFile(dir=output.parent):
            pass
        if mark:
            _refuse_other_files(output, mark.encode())
    except OSError as error:
        raise _cannot_write(output, error) from None


def put(output: Path, text: str, mark: str) -> int:
    """Writes the report; its size in bytes.

    Replaces an older report, one that has `mark` in its first 4096 bytes.  UserError when `output` is
    another file or a directory, or cannot be written.
    """
    try:
        _refuse_other_files(output, mark.encode())
    except OSError as error:
        raise _cannot_write(output, error) from error
    return put_bytes(output, text.encode("utf-8"))


def put_bytes(output: Path, content: bytes, option: str = "--output") -> int:
    """Writes a file, or replaces it; its size in bytes.  UserError when it cannot be written.

    `option` names the file on the command line.
    """
    refuse_special(output, option)
    # A rename: a reader sees the old file or the new one, never a part.
    scratch = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        # Its owner's alone, like the recording; whoever has opened an older one to others wants it so.
        mode = stat.S_IMODE(output.stat().st_mode) if output.exists() else 0o600
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
        os.replace(scratch, output)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise _cannot_write(output, error, option) from error
    return len(content)


def refuse_special(output: Path, option: str = "--output") -> None:
    """UserError for what `put_bytes` must not replace, as root could replace /dev/null."""
    if output.exists() and not output.is_file():
        raise UserError(f"{output} is {_kind(output)}", f"choose another name with {option}")


def private(path: str, flags: int) -> int:
    """Opener for a file that is made for its owner alone, whatever the umask."""
    return os.open(path, flags, 0o600)


def _kind(output: Path) -> str:
    return "a directory" if output.is_dir() else "not a regular file"


def _cannot_write(output: Path, error: OSError, option: str = "--output") -> UserError:
    return UserError(
        f"cannot write {output}: {error.strerror or error}", f"choose another place with {option}"
    )


def _refuse_other_files(output: Path, mark: bytes) -> None:
    refuse_special(output)
    if not output.exists():
        return
    with output.open("rb") as file:
        start = file.read(4096)
    if start and mark not in start:
        raise UserError(f"{output} exists and is not an offheap report", "choose another name with --output")
