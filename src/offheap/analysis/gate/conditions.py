"""The conditions of a gate on one ranking, of native memory or of Java objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from offheap.analysis.gate.results import Check
from offheap.analysis.leaks.answer import describe
from offheap.analysis.leaks.conclusion import (
    Conclusion,
    conclude,
    per_minute,
    record,
    to_follow_growth,
    undecided,
    unexplained,
)
from offheap.analysis.leaks.leaks import Ranking
from offheap.analysis.leaks.reconcile import Level, grew
from offheap.analysis.leaks.results import Suspect
from offheap.analysis.sites.matching import match
from offheap.analysis.statistics import estimates
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.verdicts.verdict_reasons import Verdict
from offheap.quantities import PER_MINUTE, format_duration
from offheap.recording.model import Frame, Info, Recording

_COLLECT = " (a small young generation, -Xmn8m, has one come sooner)"
_COLLECT_OBJECTS = " (jcmd PID GC.run runs one over the whole heap)"
_Doubtful: tuple[Verdict, ...] = ("leak", "growing", "cannot tell yet")


class SiteFilter(Protocol):
    """What leaves a site out."""

    def covers(self, stack: Sequence[Frame]) -> bool: ...


@dataclass(frozen=True, slots=True)
class Counted:
    """A ranking without the sites that suppressions cover.

    thing    what grows, for a sentence
    sites    that count, by rank
    ignored  ranks of the others, from 0
    used     the suppressions, by their place in what was given, that covered one
    """

    thing: str
    ranked: Ranking
    found: Conclusion
    sites: tuple[Suspect, ...]
    ignored: frozenset[int]
    used: frozenset[int]

    @property
    def info(self) -> Info:
        return self.ranked.sites.recording.info

    @property
    def growing(self) -> list[Suspect]:
        """The application's sites that grow and are not shown to leak, by rank."""
        return [self.ranked[place] for place in self.ranked.growing(self.ignored)]

    @property
    def waiting(self) -> list[Suspect]:
        """Those of `growing` whose Java objects may be garbage that waits for a collection."""
        if self.ranked.thing != "object":
            return []  # native memory is in use, whoever frees it
        return [suspect for suspect in self.growing if self.ranked.uncollected(suspect.rank - 1)]


def count(
    thing: str, ranked: Ranking, limit: float, suppressions: Sequence[SiteFilter], *, every: bool
) -> Counted:
    """`limit`: bytes a second, to show or to exclude; `every`: suppressions cover sites of any verdict."""
    used: set[int] = set()
    ignored: set[int] = set()
    counted = []
    for place, suspect in enumerate(ranked):
        relevant = suspect.verdict in _Doubtful or every
        covering = (
            {i for i, suppression in enumerate(suppressions) if suppression.covers(suspect.site.stack)}
            if relevant
            else set()
        )
        used |= covering
        if covering:
            ignored.add(place)
        else:
            counted.append(suspect)
    found = conclude(ranked, limit, ignored)
    return Counted(thing, ranked, found, tuple(counted), frozenset(ignored), frozenset(used))


def growth(option: str, counted: Counted) -> Check:
    """That all which grows stays below the limit."""
    found, info, thing = counted.found, counted.info, counted.thing
    limit = found.limit
    name = f"{option} {per_minute(limit)}"
    growing = [*(s for s in counted.sites if s.verdict == "leak"), *counted.growing]
    rate, waiting = _rate(growing), {s.rank for s in counted.waiting}
    sure = _rate([s for s in growing if s.rank not in waiting])
    figures = _figures(rate)
    worst = tuple(sorted(growing, key=lambda s: -s.growth_bytes_per_second.low))
    if sure.low > limit:
        return Check(name, "failed", f"{thing} grew by {_figures(sure)}", worst)
    if rate.high > limit:
        narrower = _might_free(counted) if waiting else _narrower(rate, found)
        return Check(name, "cannot tell", f"{thing} grew by {figures}; {narrower}", worst)
    if found.level and found.level.rate.high > limit:
        return Check(name, "cannot tell", _by_level(found, found.level, info))
    if not found.power.excludes(limit):
        return Check(name, "cannot tell", undecided(found))
    excluded, level = (
        per_minute(found.power.bytes_per_second),
        f"; {grew(found.level)}" if found.level else "",
    )
    if growing:
        why = f"{thing} grew by {figures}, and at no other site by {excluded} or more{found.within}"
        return Check(name, "passed", f"{why}{level}")
    return Check(name, "passed", f"no site grows by more than {excluded}{found.within}{level}")


def _rate(growing: Sequence[Suspect]) -> Estimate:
    return estimates.total([s.grown_bytes_per_second for s in growing])


def _figures(rate: Estimate) -> str:
    return f"{per_minute(rate.estimate)} ({per_minute(rate.low)} to {per_minute(rate.high)})"


def _might_free(counted: Counted) -> str:
    collect = _COLLECT_OBJECTS if counted.ranked.thing == "object" else _COLLECT
    return f"a garbage collection might still free it{collect}"


def _narrower(rate: Estimate, found: Conclusion) -> str:
    """How long it takes until the interval of growth is on one side of the limit.

    Its width falls as the root of the time, or faster.
    """
    error = (rate.high - rate.low) / 2
    apart = abs(rate.estimate - found.limit)
    seconds = found.power.seconds * (error / apart) ** 2 if apart else np.inf
    return record(max(seconds, found.power.seconds_for(found.limit)), found)


def leaks(what_for: str, counted: Counted, known: Known | None) -> Check:
    """That nothing leaks, or nothing that did not in the baseline.  `what_for`: `no-leaks` or the like."""
    ranked, found, info = counted.ranked, counted.found, counted.info
    name = what_for if known is None else what_for.replace("no-", "no-new-", 1)
    leaks = [s for s in counted.sites if s.verdict == "leak"]
    before = [known.verdict(s) if known else None for s in leaks]
    fresh = [s for s, verdict in zip(leaks, before, strict=True) if verdict not in _Doubtful]
    what = "leaks" if known is None else "leaks and did not in the baseline"
    if fresh:
        plural = "1 site" if len(fresh) == 1 else f"{len(fresh)} sites"
        verb = what if len(fresh) == 1 else what.replace("leaks", "leak", 1)
        return Check(name, "failed", f"{plural} {verb}", tuple(fresh))
    unsure = [s for s, verdict in zip(leaks, before, strict=True) if verdict == "cannot tell yet"]
    if unsure and known:
        needed = known.ranked.power().seconds_for(max(unsure[0].growth_bytes_per_second.estimate, 1.0))
        why = (
            "it leaks, and the baseline is too short to tell whether it leaked there: "
            f"{describe(unsure[0], PER_MINUTE)}; record a baseline of {format_duration(needed)}"
        )
        return Check(name, "cannot tell", why, tuple(unsure))
    growing = [s for s in counted.growing if known is None or known.verdict(s) not in ("leak", "growing")]
    if growing:
        first = growing[0]
        # Without a collection a longer recording tells no more.
        uncollected = ranked.uncollected(first.rank - 1)
        waits = f", {_might_free(counted)}" if uncollected else ""
        longer = "" if uncollected else f"; {to_follow_growth(info, found)}"
        why = f"it grows, and is not shown to be a leak{waits}: {describe(first, PER_MINUTE)}{longer}"
        return Check(name, "cannot tell", why, tuple(growing))
    if found.level:
        return Check(name, "cannot tell", _by_level(found, found.level, info))
    if not found.power.excludes(found.limit):
        return Check(name, "cannot tell", undecided(found))
    excluded = f"more than {per_minute(found.power.bytes_per_second)}{found.within}"
    # What grows and does not pass here is known from the baseline.
    if before_too := len(leaks) + len(counted.growing):
        known_ones = f"no more than in the baseline, {before_too} known"
        return Check(name, "passed", f"{known_ones}; no other site leaks {excluded}")
    return Check(name, "passed", f"no site leaks {excluded}")


def _by_level(found: Conclusion, level: Level, info: Info) -> str:
    return f"{unexplained(found, level)}; {to_follow_growth(info, found)}"


@dataclass(frozen=True, slots=True)
class Known:
    """The baseline.  verdicts: by stack number in the recording, that of its site there."""

    ranked: Ranking
    verdicts: dict[int, Verdict]

    def verdict(self, suspect: Suspect) -> Verdict | None:
        return self.verdicts.get(suspect.site.stacks[0])


def known_sites(recording: Recording, baseline: Recording, ranked: Ranking) -> Known:
    """`ranked`: the baseline's."""
    matching = match((baseline, recording))
    worst = ranked.worst(matching.sites[0])
    numbers = matching.sites[1].tolist()
    verdicts = {stack: worst[number] for stack, number in enumerate(numbers) if number in worst}
    return Known(ranked, verdicts)
