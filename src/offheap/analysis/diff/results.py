"""What a diff of two recordings, or of one at two times, returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from offheap.analysis.sites.results import SiteKind
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.verdicts.verdict_reasons import Verdict
from offheap.recording.model import Frame, Info

Change = Literal["new", "grown", "shrunk", "gone", "same"]
# Beyond chance, and "" if not.  Leaks: NEW leaks there and OLD does not, the reverse leaks no more.
GrowthChange = Literal["", "leaks", "leaks no more", "faster", "slower"]

# OLD's length over NEW's: within these the longer time explains no more than a tenth of what grew.
_ALIKE = (0.9, 1.1)
_SHORTEST = 1e-3  # seconds, where a length divides


@dataclass(frozen=True, slots=True)
class Difference:
    """A quantity in OLD and in NEW, and NEW - OLD, each with its 95 % interval.

    The interval of `change` is not that of two independent quantities where blocks are in both.
    """

    old: Estimate
    new: Estimate
    change: Estimate


@dataclass(frozen=True, slots=True)
class Growth:
    """How a site grows in two recordings: bytes a second, or a request where the diff is by request.

    change  how that differs
    old, new  verdicts on the site there; None where the recording does not have it
    """

    change: GrowthChange
    rate: Difference
    old: Verdict | None
    new: Verdict | None


@dataclass(frozen=True, slots=True)
class SiteChange:
    """One site in both.

    change       new: OLD never allocated there; gone: NEW holds nothing of it and allocates nothing there
    significant  more than chance explains, among all sites that were compared: of what is live, or of growth
    growth       None at two times of one recording
    stack        of the side that holds more, innermost first
    """

    rank: int
    change: Change
    significant: bool
    kind: SiteKind
    stack: tuple[Frame, ...]
    blamed: Frame
    live_bytes: Difference
    live_blocks: Difference
    allocated_bytes: Difference
    growth: Growth | None = None


@dataclass(frozen=True, slots=True)
class FunctionChange:
    """One function: the memory of all stacks that it is in.

    others  how many more functions are in exactly the same stacks
    """

    rank: int
    change: Change
    significant: bool
    function: Frame
    others: int
    live_bytes: Difference


@dataclass(frozen=True, slots=True)
class StackChanges:
    """Every distinct stack that holds memory in OLD or in NEW, as functions that match by name.

    functions  one frame for each function: its line is one of several
    paths      by stack: numbers of functions, innermost first, inlined native ones left out
    old_bytes, new_bytes  by stack: live bytes, estimated, divided as the diff's sides are
    """

    functions: tuple[Frame, ...]
    kinds: tuple[SiteKind, ...]
    paths: tuple[tuple[int, ...], ...]
    old_bytes: tuple[float, ...]
    new_bytes: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """OLD or NEW.  `time`: seconds since the recording started, if it is a moment of one recording."""

    info: Info
    time: float | None
    seconds: float  # recorded until then


@dataclass(frozen=True, slots=True)
class Diff:
    """What leaks in NEW alone comes first, then other significant changes, the largest certain ones first;
    then the others by size.

    unit       what the figures are divided by; "" if by nothing.  At two times of one recording only the
               changes are divided.
    malloc, mapped  what is live as a whole: blocks, and mappings, which count in full, touched or not
    changed    how many sites changed so, beyond chance
    grows      how many sites grow otherwise, beyond chance
    by_chance  how many others differ
    stacks     only if they were asked for
    """

    old: Side
    new: Side
    unit: Literal["", "second", "request"]
    live_bytes: Difference
    malloc: Difference
    mapped: Difference
    changed: dict[Change, int]
    grows: dict[GrowthChange, int]
    by_chance: int
    sites: tuple[SiteChange, ...]
    functions: tuple[FunctionChange, ...]
    stacks: StackChanges | None = None

    @property
    def lengths_differ(self) -> bool:
        """Whether one recording is so much longer that growth alone would explain a change."""
        least, most = _ALIKE
        return not least < self.old.seconds / max(self.new.seconds, _SHORTEST) < most

    @property
    def changed_sites(self) -> tuple[SiteChange, ...]:
        return tuple(site for site in self.sites if site.change != "same")
