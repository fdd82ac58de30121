"""What is new in a recording that grows: no file, no PID, only values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from offheap.recording.model import Info


@dataclass(frozen=True, slots=True)
class LiveUpdate:
    """Everything that is new since the update before.

    whole    the rows are all there are, not only the new ones: forget those seen before
    over     nothing more will come: the process has ended or the probe was taken out
    live     model.LIVE, all of it
    series   model.SERIES by time, of the stacks that changed
    process  model.PROCESS by time
    """

    info: Info
    whole: bool
    over: bool
    live: NDArray[Any]
    series: NDArray[Any]
    process: NDArray[Any]
