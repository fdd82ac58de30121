"""offheap finds where a JVM's memory goes and who leaks it."""

from __future__ import annotations

__version__ = "0.2.0"
__all__ = ["open"]

# Nothing is imported here but when it is used: every command begins with this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from offheap.api import OpenedRecording


def open(path: str | PathLike[str], application: str | Sequence[str] = ()) -> OpenedRecording:
    """A recording, or a live file, for your own analysis: see docs/notebook.md.

    `application`: the packages whose methods suspects name, such as "com.acme"; none: the main class's.
    Raises offheap.errors.UserError when it is neither, is damaged, or may not be read.
    """
    from offheap.analysis.stacks.packages import with_application
    from offheap.api import OpenedRecording
    from offheap.recording import load

    packages = (application,) if isinstance(application, str) else application
    return OpenedRecording(with_application(load(path), packages))
