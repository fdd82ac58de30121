"""The line with the progress of a recording: redrawn on a terminal, printed at intervals elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from offheap.quantities import format_duration, format_size

if TYPE_CHECKING:
    from rich.status import Status

    from offheap.recording.capture.recorder import Progress

# Seconds between lines where redrawing is impossible: enough to show in a log that offheap is alive.
_LINE_SECONDS = 10.0


class ProgressLine:
    """A context manager, called with each Progress; writes to standard error only."""

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
        """Replaces the line."""
        text = f"{self._doing}: {what}"
        if self._status:
            from rich.text import Text

            # Cut to the width: rich continues a longer text in a second line, next to the spinner.
            room = self._status.console.width - 3
            self._status.update(Text(text if len(text) <= room else text[: room - 1] + "…"))
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _LINE_SECONDS
            print(text, file=sys.stderr, flush=True)


def describe(progress: Progress) -> str:
    """The progress after a snapshot, in one line."""
    malloc = format_size(max(progress.live_bytes - progress.mapped_bytes, 0.0))
    return (
        f"{format_duration(progress.seconds)}, RSS {format_size(progress.rss_bytes)}, "
        f"malloc {malloc}, mapped {format_size(progress.mapped_bytes)}, {progress.stacks} stacks"
    )
