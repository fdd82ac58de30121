"""How long until a limit of memory is reached, if growth goes on as it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from offheap.analysis.statistics import estimates
from offheap.analysis.statistics.estimate import Estimate
from offheap.recording.model import Recording


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes between the RSS of the last snapshot and the limit."""

    limit_bytes: int
    bytes: float

    def seconds(self, growth: Estimate) -> Estimate | None:
        """Until growth (bytes a second) has filled it, None without growth; `high` inf: it may never do."""
        if growth.estimate <= 0:
            return None
        return Estimate(
            self.bytes / growth.estimate,
            self.bytes / growth.high,
            self.bytes / growth.low if growth.low > 0 else math.inf,
        )

    def together(self, growths: Sequence[Estimate]) -> Estimate | None:
        """`seconds` of what several sites grow by at once."""
        return self.seconds(estimates.total(list(growths))) if growths else None


def room(recording: Recording, limit_bytes: int | None = None) -> Room | None:
    """To the limit given, or else the container's as it was recorded; None where there is none, or no RSS.

    RSS is what the process adds to its container: a neighbour in the same container takes from the room, too.
    """
    limit = limit_bytes or recording.info.memory_limit
    sizes = recording.process["rss_bytes"]
    sizes = sizes[sizes > 0]  # the last reading may come after the process has ended
    if not limit or not len(sizes):
        return None
    return Room(limit, max(limit - float(sizes[-1]), 0.0))
