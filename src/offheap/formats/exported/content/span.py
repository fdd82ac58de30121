"""The time that a profile is of: a whole recording, or the instant at its end."""

from __future__ import annotations

from typing import NamedTuple

from offheap.formats.exported.content.samples import VALUES, Value
from offheap.recording.model import Info


class Span(NamedTuple):
    """values    that hold for this time
    start     seconds since the epoch
    duration  seconds; 0 for an instant
    """

    values: tuple[Value, ...]
    start: float
    duration: float

    def columns(self) -> tuple[int, ...]:
        """The places of its values among VALUES."""
        order = list(VALUES)
        return tuple(order.index(value) for value in self.values)


def whole(info: Info) -> Span:
    """All values: what was allocated in this time, and what is live at its end."""
    return Span(tuple(VALUES), info.start, info.duration_seconds)


def instant(info: Info) -> Span:
    """What is live at the end alone.

    Servers draw a profile at its start, and sum profiles that have a duration.  So each profile of a
    recording needs a time of its own; allocations since the recording's start would count again with each
    profile.
    """
    return Span(("inuse_space", "inuse_objects"), info.start + info.duration_seconds, 0.0)
