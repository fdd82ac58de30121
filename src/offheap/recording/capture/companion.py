"""What runs beside a recorder, and reads what it writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol


class Companion(Protocol):
    def notes(self) -> tuple[str, ...]:
        """Sentences for the recording's coverage; at most one more after `close`."""

    def close(self) -> None:
        """The recording is over.  Called before the last snapshot is written; a second call is harmless."""


# (PID, the recording's directory) -> a companion that has begun.
Companions = Callable[[int, Path], Companion]
