"""What the analysis of owners over time returns and reports render."""

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

    `growth` is None where there were too few readings.
    """

    owner: str
    first_bytes: float
    bytes: float
    growth: Estimate | None


@dataclass(frozen=True, slots=True)
class Grown:
    """Something that grew, by name: a group of threads, files of one pattern, a class of class loaders."""

    name: str
    before: float
    after: float
    unit: Literal["threads", "bytes", "loaders", "classes"]


@dataclass(frozen=True, slots=True)
class WhereVerdict:
    """What grows, in one word, the sentence why, and commands to run next.

    excluded       bytes a second: no owner grew by more, at 95 %; None where one grows or nothing was judged
    needs_seconds  how long a watch has to be, where it cannot be told yet; None where time does not help
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
    looks: int
    rss: OwnerGrowth
    owners: tuple[OwnerGrowth, ...]
    verdict: WhereVerdict
