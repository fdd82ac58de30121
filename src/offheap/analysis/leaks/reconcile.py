"""One answer from two kinds of evidence: blocks, which sites keep, and levels, the pages that owners hold.

Blocks are exact about who keeps memory, and see only what the probe sees and samples.  Levels see all of
it, and not who keeps it: malloc's pages also grow by what was freed and is kept.  So

- a leak of blocks holds whatever RSS did: the pages may have been there before, or are not touched yet
- pages of malloc, direct buffers or anonymous mappings that grow are growth, whether a site explains it or
  not
- what neither shows is excluded, each within its own bound

`leaks`, `check`, the page and the ticket take `Level` into their conclusion, `where RECORDING` takes the
conclusion into its verdict (`owners_with_blocks`), so that all of them say the same of one recording.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from offheap.analysis.owners.growth import FEW, FRAGMENTS, Candidate, State, nobodys_rise, standings
from offheap.analysis.owners.results import Kind, OwnersGrowth
from offheap.analysis.owners.verdict import FEWEST_READINGS, rose
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.statistics.trend import trend
from offheap.analysis.totals import totals
from offheap.analysis.verdicts.power import DEFAULT_LIMIT
from offheap.quantities import PER_MINUTE, RateUnit, format_duration
from offheap.recording.model import MALLOC, MMAP, OwnersOverTime, Recording

# The verdicts of `where` about pages that blocks or mappings of the application lie in, and their names.
PAGES: dict[Kind, str] = {
    "native-malloc": "malloc's memory",
    "direct-buffers": "the memory of direct buffers, Unsafe and FFM",
    "native-mmap": "anonymous mapped memory",
}
# What grows beside blocks, which no site of native memory can explain.
_BESIDE: dict[Kind, str] = {
    "java-heap": "the Java heap grows",
    "metaspace": "metaspace grows",
    "code-cache": "the code cache grows",
    "threads": "the number of threads grows",
    "mapped-files": "mapped files grow in memory",
    "allocator-retention": "malloc keeps memory that was freed",
}
# No level surely grows: a leak of blocks, which is sure, replaces these verdicts.
QUIET: tuple[Kind, ...] = ("stable", "cannot tell yet", "allocator-retention")
# Pages that grow for sure, and why that is not said to go on.
_MAY_STOP: dict[State, str] = {
    "slows": "but ever slower, as in a warm-up",
    "warming": "as in every JVM of that age",
    "filling": "and a cache that fills would look the same in so young a process",
    "uncollected": "and a collection may free it",
    "unjudged": "and may be metaspace",
    "flat": "which is too little so far beside the RSS",
}
# Bytes of pages to a byte that was asked for: malloc's headers and rounding make up to this of small blocks.
_OVERHEAD = 2.0
# Live blocks that grew by this share of the pages' growth are what fills the pages.
_EXPLAINS = 0.5
_A_BYTE = 1.0  # a second: less is rounding


@dataclass(frozen=True, slots=True)
class Level:
    """Pages that grew, beyond what left-out sites explain.  Rates in bytes a second.

    kind     as `where` calls it
    rate     of the pages
    seconds  that the rate is taken over
    blocks   of all live blocks that were recorded, in the same time
    """

    kind: Kind
    rate: Estimate
    seconds: float
    blocks: float

    @property
    def explained(self) -> bool:
        """Whether live blocks grew with the pages, though at no site for sure."""
        return self.blocks >= _EXPLAINS * self.rate.estimate


def grows(over: OwnersOverTime, found: OwnersGrowth | None) -> list[Candidate]:
    """The pages of blocks that grow, by `found`, the judgement over these readings, the surest first."""
    if found is None or found.verdict.kind in QUIET:
        return []
    growing = [one for one in standings(over) or () if one.state == "grows" and one.kind in PAGES]
    return sorted(growing, key=lambda one: -one.trend.rate.low)


def level(
    recording: Recording, found: OwnersGrowth | None, left_out: Iterable[Estimate] = ()
) -> Level | None:
    """What of the pages grows beyond what the left-out sites grow by; None: nothing does."""
    known = _OVERHEAD * sum(growth.high for growth in left_out)
    for one in grows(recording.owners, found) or _rise(recording.owners, found):
        if one.trend.rate.low > known:
            return Level(one.kind, one.trend.rate, one.trend.seconds, _live_growth(recording, one.kind))
    return None


def _rise(over: OwnersOverTime, found: OwnersGrowth | None) -> list[Candidate]:
    """Pages that surely rise by more than fragments come to, in too few readings for a verdict.

    Beside a program that computes little a recording of a minute has a reading every ten seconds.
    """
    if found is None or _enough(over, found):
        return []
    return [
        one
        for one in standings(over, fewest=FEW) or ()
        if one.state == "grows" and one.kind in PAGES and one.trend.gained.low >= FRAGMENTS
    ]


def _enough(over: OwnersOverTime, found: OwnersGrowth) -> bool:
    """Whether the readings are enough for the verdict of `where`."""
    return found.readings >= FEWEST_READINGS and standings(over) is not None


def _live_growth(recording: Recording, kind: Kind) -> float:
    """Bytes a second that live blocks of this kind grew by, as the pages are judged."""
    wanted = MMAP if kind == "native-mmap" else MALLOC
    group = np.where(recording.stack_kinds == wanted, 0, -1).astype(np.int64)
    times = recording.owners.times
    found = trend(times, totals.live_over_time(recording, group, 1, times)[0], FEW)
    return found.rate.estimate if found else 0.0


def grew(one: Level, unit: RateUnit = PER_MINUTE) -> str:
    """`malloc's memory grew by 6.4 MiB/min (6.1 MiB/min to 6.6 MiB/min) over the last 40 s`."""
    low, estimate, high = (unit.format(rate) for rate in (one.rate.low, one.rate.estimate, one.rate.high))
    return (
        f"{PAGES[one.kind]} grew by {estimate} ({low} to {high}) over the last {format_duration(one.seconds)}"
    )


def why_no_site(one: Level, most: str = "", unit: RateUnit = PER_MINUTE) -> str:
    """Why no site explains it; `most`: the site whose live blocks grew most, in words."""
    rate = unit.format(one.blocks)
    if one.explained:
        at = f", most at {most}" if most else ""
        return f"live blocks grew by {rate} with it, at no site for sure{at}"
    course = f"grew by {rate}" if one.blocks >= _A_BYTE else "did not grow"
    if one.kind == "native-mmap":
        return f"no site explains it: the mappings that were recorded {course}"
    return (
        f"no site explains it: the live blocks that were recorded {course}, the rest was freed and "
        "stays in malloc, or is not seen by the probe (offheap where PID --watch tells)"
    )


def unseen(recording: Recording, found: OwnersGrowth | None) -> str:
    """What too few readings show of memory that no recorded mapping explains, in words; "" if nothing."""
    over = recording.owners
    if found is None or _enough(over, found):
        return ""
    rise = nobodys_rise(over) if len(over.times) else None
    if rise is None:
        return ""
    group = np.where(recording.stack_kinds == MMAP, 0, -1).astype(np.int64)
    end = float(over.times[-1])
    before, after = totals.live_over_time(recording, group, 1, np.array([end - rise.seconds, end]))[0]
    if after - before >= _EXPLAINS * rise.gained:
        return ""
    return f"{rose(rise)}, and no recorded mapping explains it"


def beside(over: OwnersOverTime, found: OwnersGrowth | None, unit: RateUnit = PER_MINUTE) -> str:
    """What grows by levels and is no leak of blocks: another owner, or pages that may stop; "" if none."""
    if found is None or (found.verdict.kind == "allocator-retention" and found.verdict.excluded is not None):
        return ""
    if found.verdict.kind in _BESIDE:
        return f"{_BESIDE[found.verdict.kind]}, which is no native block"
    if found.verdict.kind != "cannot tell yet" or found.readings < FEWEST_READINGS:
        return ""
    for one in standings(over) or ():
        # Flat beside a large RSS.
        least = DEFAULT_LIMIT if one.state == "flat" else 0.0
        if one.kind in PAGES and one.state in _MAY_STOP and one.trend.rate.low > least:
            rate = unit.format(one.trend.rate.estimate)
            return f"{PAGES[one.kind]} grew by {rate}, {_MAY_STOP[one.state]}"
    return ""
