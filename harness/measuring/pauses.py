"""The pauses in HotSpot's log of garbage collections."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

# Each line begins with the seconds of uptime; a pause's line ends with its milliseconds.
OPTION = "-Xlog:gc,gc+phases:file={file}:uptime:filecount=0"
_PAUSE = re.compile(r"^\[([\d.]+)s\].*\bPause .*?([\d.]+)ms$", re.MULTILINE)


@dataclass(frozen=True)
class Pauses:
    """Milliseconds: of all pauses, of the longest in a hundred at least, and how many there were."""

    total: float
    p99: float
    count: int


def read(log: str, begin: float, end: float) -> Pauses:
    """The pauses from `begin` to `end`, in seconds of uptime."""
    found = sorted(float(ms) for at, ms in _PAUSE.findall(log) if begin <= float(at) <= end)
    if not found:
        return Pauses(0.0, 0.0, 0)
    return Pauses(sum(found), found[math.ceil(0.99 * len(found)) - 1], len(found))
