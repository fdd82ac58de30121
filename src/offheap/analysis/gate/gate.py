"""Whether a recording passes: growth and verdicts decide, never what happens to be live at exit.

leaks       A site with the verdict "leak" fails.  With a baseline only one that did not leak or grow there.
            Unsure: an application's site that grows without being shown to leak, or a recording that cannot
            exclude (`power`) a leak of `max_growth`, of power.DEFAULT_LIMIT where there is no such limit.
max growth  The growth of all leaking and growing sites together, of the JVM's own only the leaking ones:
            it fails when its whole 95 % interval is above the limit, passes when the whole is below, and what
            the recording can exclude is, too.
max live    The highest live bytes of any snapshot, without the address space that the JVM maps for itself.

A recording that is too short or that lost samples can fail, but not pass.  What cannot be told says how long
a recording tells it, or what else does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from offheap.analysis.gate.results import Check, Gate, Outcome
from offheap.analysis.leaks.answer import describe
from offheap.analysis.leaks.conclusion import (
    Conclusion,
    conclude,
    per_minute,
    record,
    to_tell_growth,
    undecided,
    unexplained,
)
from offheap.analysis.leaks.leaks import Ranking, ranking
from offheap.analysis.leaks.reconcile import Level, grew
from offheap.analysis.leaks.results import Suspect
from offheap.analysis.sites.matching import match
from offheap.analysis.stacks import frames
from offheap.analysis.statistics import estimates
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.totals import stack_totals_at, totals
from offheap.analysis.totals.stats import lost_samples
from offheap.analysis.verdicts.power import DEFAULT_LIMIT
from offheap.analysis.verdicts.verdict_reasons import Verdict
from offheap.analysis.verdicts.verdict_rules import SHORTEST
from offheap.quantities import PER_MINUTE, format_duration, format_size
from offheap.recording.model import Frame, Info, Recording

_LOST = 0.01  # of the samples
_COLLECT = " (a small young generation, -Xmn8m, has one come sooner)"

_Doubtful: tuple[Verdict, ...] = ("leak", "growing", "cannot tell yet")


class Suppression(Protocol):
    """What leaves a site out."""

    def covers(self, stack: Sequence[Frame]) -> bool: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """max_growth in bytes per second, max_live in bytes; without both, or with `leaks`, no site may leak."""

    max_growth: float | None = None
    max_live: int | None = None
    leaks: bool = False

    @property
    def slowest_leak(self) -> float | None:
        """What a recording has to show or exclude: a leak of so many bytes a second; None: none."""
        if self.max_growth is not None:
            return self.max_growth
        return DEFAULT_LIMIT if self.leaks or self.max_live is None else None


def gate(
    recording: Recording,
    limits: Limits,
    *,
    baseline: Recording | None = None,
    suppressions: Sequence[Suppression] = (),
) -> Gate:
    """Check a recording; with a baseline its leaks are known and pass."""
    used: set[int] = set()
    ignored: set[int] = set()
    counted = []
    ranked = ranking(recording)
    for place, suspect in enumerate(ranked):
        relevant = suspect.verdict in _Doubtful or limits.max_live is not None
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
    slowest = limits.slowest_leak
    found = conclude(ranked, DEFAULT_LIMIT if slowest is None else slowest, ignored)
    gap = _gap(recording, found)
    checks = []
    if limits.max_growth is not None:
        checks.append(_unless(gap, _growth(counted, found, recording.info)))
    if limits.max_live is not None:
        checks.append(_unless(gap, _live(recording, counted, limits.max_live)))
    if limits.leaks or not checks:
        known = _known(recording, baseline) if baseline is not None else None
        checks.append(_unless(gap, _leaks(counted, ranked, found, known)))
    return Gate(recording.info, found, tuple(checks), len(ignored), frozenset(used))


def _gap(recording: Recording, found: Conclusion) -> str:
    """Why the recording cannot pass, "" if it can."""
    info = recording.info
    taken, lost = totals.samples(recording), lost_samples(info)
    if info.duration_seconds < SHORTEST:
        seconds = found.power.seconds_for(found.limit)
        return f"only {format_duration(info.duration_seconds)} were recorded; {record(seconds, found)}"
    if not taken:
        return "nothing was recorded; record longer, or with --exact, if the program allocates at all"
    if lost > _LOST * taken:
        why = "to record longer does not make up for them: offheap stats has why they were lost"
        return f"{lost:,} samples were lost beside {taken:,} recorded; {why}"
    return ""


def _unless(gap: str, check: Check) -> Check:
    return Check(check.name, "cannot tell", gap) if gap and check.outcome != "failed" else check


def _growth(counted: Sequence[Suspect], found: Conclusion, info: Info) -> Check:
    limit = found.limit
    name = f"max-growth {per_minute(limit)}"
    growing = [
        s for s in counted if s.verdict == "leak" or (s.verdict == "growing" and s.blamed.kind != "jvm")
    ]
    rate = estimates.total([s.grown_bytes_per_second for s in growing])
    figures = f"{per_minute(rate.estimate)} ({per_minute(rate.low)} to {per_minute(rate.high)})"
    worst = tuple(sorted(growing, key=lambda s: -s.growth_bytes_per_second.low))
    if rate.low > limit:
        return Check(name, "failed", f"live memory grew by {figures}", worst)
    if rate.high > limit:
        return Check(name, "cannot tell", f"live memory grew by {figures}; {_narrower(rate, found)}", worst)
    if found.level and found.level.rate.high > limit:
        return Check(name, "cannot tell", _by_level(found, found.level, info))
    if not found.power.excludes(limit):
        return Check(name, "cannot tell", undecided(found))
    excluded, level = (
        per_minute(found.power.bytes_per_second),
        f"; {grew(found.level)}" if found.level else "",
    )
    if growing:
        why = f"live memory grew by {figures}, and at no other site by {excluded} or more"
        return Check(name, "passed", f"{why}{level}")
    return Check(name, "passed", f"no site grows by more than {excluded}{level}")


def _narrower(rate: Estimate, found: Conclusion) -> str:
    """How long it takes until the interval of growth is on one side of the limit.

    Its width falls as the root of the time, or faster.
    """
    error = (rate.high - rate.low) / 2
    apart = abs(rate.estimate - found.limit)
    seconds = found.power.seconds * (error / apart) ** 2 if apart else np.inf
    return record(max(seconds, found.power.seconds_for(found.limit)), found)


def _live(recording: Recording, counted: Sequence[Suspect], limit: int) -> Check:
    name = f"max-live {format_size(limit)}"
    held = [s for s in counted if not (s.site.kind == "mmap" and frames.by_jvm(s.site.stack))]
    stacks = np.zeros(len(recording.stack_offsets) - 1, bool)
    for suspect in held:
        stacks[list(suspect.site.stacks)] = True
    time, peak = stack_totals_at.peak(recording, stacks)
    why = f"{_sizes(peak)} were live at {format_duration(time)}"
    outcome: Outcome = "failed" if peak.low > limit else "cannot tell" if peak.high > limit else "passed"
    if outcome == "cannot tell":
        why += "; a finer --interval or --exact tells, to record longer does not"
    worst = sorted(held, key=lambda s: -s.site.live_bytes.estimate)[:3] if outcome != "passed" else []
    return Check(name, outcome, why, tuple(worst))


def _leaks(counted: Sequence[Suspect], ranked: Ranking, found: Conclusion, known: _Known | None) -> Check:
    info = ranked.sites.recording.info
    name = "no-leaks" if known is None else "no-new-leaks"
    leaks = [s for s in counted if s.verdict == "leak"]
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
    growing = [
        s
        for s in counted
        if s.verdict == "growing"
        and s.blamed.kind != "jvm"
        and (known is None or known.verdict(s) not in ("leak", "growing"))
    ]
    if growing:
        first = growing[0]
        # Without a collection a longer recording tells no more.
        uncollected = ranked.uncollected(first.rank - 1)
        waits = f", a garbage collection might still free it{_COLLECT}" if uncollected else ""
        longer = "" if uncollected else f"; {record(to_tell_growth(info), found)}"
        why = f"it grows, and is not shown to be a leak{waits}: {describe(first, PER_MINUTE)}{longer}"
        return Check(name, "cannot tell", why, tuple(growing))
    if found.level:
        return Check(name, "cannot tell", _by_level(found, found.level, info))
    if not found.power.excludes(found.limit):
        return Check(name, "cannot tell", undecided(found))
    excluded = f"more than {per_minute(found.power.bytes_per_second)}"
    if leaks:
        known_ones = f"no more than in the baseline, {len(leaks)} known"
        return Check(name, "passed", f"{known_ones}; no other site leaks {excluded}")
    return Check(name, "passed", f"no site leaks {excluded}")


def _by_level(found: Conclusion, level: Level, info: Info) -> str:
    return f"{unexplained(found, level)}; {record(to_tell_growth(info), found)}"


@dataclass(frozen=True, slots=True)
class _Known:
    """The baseline.  verdicts: by stack number in the recording, that of its site there."""

    ranked: Ranking
    verdicts: dict[int, Verdict]

    def verdict(self, suspect: Suspect) -> Verdict | None:
        return self.verdicts.get(suspect.site.stacks[0])


def _known(recording: Recording, baseline: Recording) -> _Known:
    matching, ranked = match((baseline, recording)), ranking(baseline)
    worst: dict[int, Verdict] = {}
    for suspect in ranked:  # the worst first
        worst.setdefault(int(matching.sites[0][suspect.site.stacks[0]]), suspect.verdict)
    numbers = matching.sites[1].tolist()
    verdicts = {stack: worst[number] for stack, number in enumerate(numbers) if number in worst}
    return _Known(ranked, verdicts)


def _sizes(value: Estimate) -> str:
    if value.low == value.high:
        return format_size(value.estimate)
    return f"{format_size(value.estimate)} ({format_size(value.low)} to {format_size(value.high)})"
