"""Whether a recording can be made in a place: tried before anything is started."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from offheap.errors import UserError
from offheap.recording.storage.layout import META
from offheap.recording.storage.output_name import refuse_other_format


def check_output(output: Path) -> None:
    """UserError when no recording of that name can be made, with the reason and the mend."""
    refuse_other_format(
        output,
        (".offheap",),
        "a recording is a directory, NAME.offheap; `offheap report NAME.offheap -o NAME.html` then writes "
        "html, md, json or txt",
    )
    if os.path.lexists(output):
        raise taken(output)
    try_output(output)


def taken(output: Path) -> UserError:
    """For a name that something has; only a recording is advised to be removed."""
    mend = ", or remove it" if (output / META).is_file() else ""
    return UserError(f"{output} exists already", f"choose another name with -o{mend}")


def try_output(output: Path) -> None:
    """The same of a place alone: it may exist, as the name that is taken in the end may be another.

    Makes a folder with a page in it and removes it again: permissions alone do not tell of
    read-only and full file systems, quotas, or names that are too long.
    """
    folder = output.parent
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder", "make it, or choose another place with -o")
    try:
        output.mkdir()
    except FileExistsError:
        return
    except OSError as error:
        raise _cannot_create(output, error) from None
    try:
        # Not the name of a recording, so that a reader that waits for one does not mistake it.
        (output / ".trial").write_bytes(bytes(4096))
    except OSError as error:
        raise _cannot_create(output, error) from None
    finally:
        shutil.rmtree(output, ignore_errors=True)


def _cannot_create(output: Path, error: OSError) -> UserError:
    return UserError(f"cannot create {output}: {error.strerror or error}", "choose another place with -o")
