"""The one line that shows how a recording goes: redrawn on a terminal, now and then printed elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from offheap.quantities import format_duration, format_size

if TYPE_CHECKING:
    from rich.status import Status

    from offheap.recording.capture.recorder import Progress

# Seconds between lines where nothing can be redrawn: enough to show in a log that it lives.
_LINE_SECONDS = 10.0


class ProgressLine:
    """A context manager to be called with each Progress; writes to standard error only."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._status: Status | None = None
        self._next_line = time.monotonic() + _LINE_SECONDS

    def __enter__(self) -> ProgressLine:
        if sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status(self._doing)
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status:
            self._status.stop()

    def __call__(self, progress: Progress) -> None:
        self.say(describe(progress))

    def say(self, what: str) -> None:
        """One line in place of the one before."""
        text = f"{self._doing}: {what}"
        if self._status:
            from rich.text import Text

            # One line whatever the width: rich would go on in a second, next to the spinner of the first.
            room = self._status.console.width - 3
            self._status.update(Text(text if len(text) <= room else text[: room - 1] + "…"))
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _LINE_SECONDS
            print(text, file=sys.stderr, flush=True)


def describe(progress: Progress) -> str:
    """What is known after a snapshot, in one line."""
    malloc = format_size(max(progress.live_bytes - progress.mapped_bytes, 0.0))
    return (
        f"{format_duration(progress.seconds)}, RSS {format_size(progress.rss_bytes)}, "
        f"malloc {malloc}, mapped {format_size(progress.mapped_bytes)}, {progress.stacks} stacks"
    )
