"""offheap finds where a JVM's memory goes and who leaks it."""

from __future__ import annotations

__version__ = "0.1.0"
__all__ = ["open"]

# Nothing is imported here but when it is used: every command begins with this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike

    from offheap.opened import OpenedRecording


def open(path: str | PathLike[str]) -> OpenedRecording:
    """A recording, or a live file, for your own analysis: see docs/notebook.md.

    Raises offheap.errors.UserError when it is neither, is damaged, or may not be read.
    """
    from offheap.opened import OpenedRecording
    from offheap.recording import load

    return OpenedRecording(load(path))
