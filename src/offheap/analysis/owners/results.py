"""The results of the analysis of owners over time, which reports render."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from offheap.analysis.statistics.estimate import Estimate

Kind = Literal[
    "java-heap",
    "direct-buffers",
    "metaspace",
    "code-cache",
    "threads",
    "native-malloc",
    "native-mmap",
    "mapped-files",
    "allocator-retention",
    "stable",
    "cannot tell yet",
]


@dataclass(frozen=True, slots=True)
class OwnerGrowth:
    """One owner, or "unattributed": bytes at the first and the last reading; `growth` in bytes per second.

    `growth` is None with too few readings.
    """

    owner: str
    first_bytes: float
    bytes: float
    growth: Estimate | None


@dataclass(frozen=True, slots=True)
class Grown:
    """A named thing that grew: a group of threads, files of one pattern, a class of class loaders."""

    name: str
    before: float
    after: float
    unit: Literal["threads", "bytes", "loaders", "classes"]


@dataclass(frozen=True, slots=True)
class WhereVerdict:
    """The growing owner in one word, the reason in a sentence, and commands to run next.

    excluded       bytes per second: no owner grew by more, at 95 %; None if one grows or none was judged
    needs_seconds  the time of readings that a verdict needs; None if time does not help
    """

    kind: Kind
    why: str
    next: tuple[str, ...]
    grown: tuple[Grown, ...] = ()
    needs_seconds: float | None = None
    excluded: float | None = None


@dataclass(frozen=True, slots=True)
class OwnersGrowth:
    """`seconds` from the first reading to the last; owners with the most bytes first."""

    seconds: float
    readings: int
    rss: OwnerGrowth
    owners: tuple[OwnerGrowth, ...]
    verdict: WhereVerdict
