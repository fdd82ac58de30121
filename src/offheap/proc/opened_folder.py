"""An open folder whose names or file system another process chooses: each call on it has a limit of time.

Every name is one part of a path below the descriptor, and no link is followed, so that nobody can exchange
the folder or lead a call elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from offheap.proc import opening
from offheap.proc.opening import SECONDS, RegularFile
from offheap.proc.time_limit import within

_T = TypeVar("_T")

_PATH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_NAMES = 1 << 16  # a file system of somebody's own may list names without end


@contextlib.contextmanager
def unless_silent() -> Iterator[None]:
    """Goes on after an error of one file, but not when its file system does not answer.

    Each of the other files in its folder would take the limit of time again.
    """
    try:
        yield
    except TimeoutError:
        raise
    except OSError:
        pass


class OpenedFolder:
    """A folder, readable for its names; a context manager.  Errors are OSErrors, as in `opening`.

    status  of the folder at its opening
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.status = os.fstat(descriptor)

    @classmethod
    def at(cls, path: Path | str, *, follow: bool = True) -> OpenedFolder:
        """The folder by a path as seen from here; `follow`: its last part may be a link."""
        descriptor = opening.folder(path, listed=True, follow=follow)
        try:
            return within(SECONDS, lambda: cls(descriptor))
        except BaseException:
            os.close(descriptor)
            raise

    def __enter__(self) -> OpenedFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def names(self, wanted: re.Pattern[str]) -> list[str]:
        """The names that the pattern matches as a whole, in order; Refused when there are too many."""
        deadline = time.monotonic() + SECONDS

        def read(folder: int) -> list[str]:
            found: list[str] = []
            with os.scandir(folder) as entries:
                for entry in entries:
                    if wanted.fullmatch(entry.name):
                        found.append(entry.name)
                    # An abandoned call must end as well.
                    if len(found) > _MOST_NAMES or time.monotonic() > deadline:
                        raise opening.Refused("has too many names")
            return found

        return sorted(self._timed(read))

    def entry_status(self, name: str) -> os.stat_result:
        return self._timed(lambda folder: os.stat(name, dir_fd=folder, follow_symlinks=False))

    def regular(self, name: str) -> RegularFile:
        """Opens a regular file; the device or FIFO that took its name is not opened."""
        return self._timed(lambda folder: opening.entry(folder, name), RegularFile.close)

    def folder(self, name: str) -> OpenedFolder:
        def open_it(folder: int) -> OpenedFolder:
            descriptor = os.open(name, _LISTED, dir_fd=folder)
            try:
                return OpenedFolder(descriptor)
            except OSError:
                os.close(descriptor)
                raise

        return self._timed(open_it, OpenedFolder.close)

    def remove(self, name: str) -> None:
        self._timed(lambda folder: os.unlink(name, dir_fd=folder))

    def remove_folder(self, name: str) -> None:
        self._timed(lambda folder: os.rmdir(name, dir_fd=folder))

    def _timed(self, call: Callable[[int], _T], late: Callable[[_T], None] | None = None) -> _T:
        # The thread reads the number itself: a call that begins after `close` must not hit another file.
        return within(SECONDS, lambda: call(self.descriptor), late)
