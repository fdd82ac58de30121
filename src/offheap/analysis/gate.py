"""Whether a recording passes: growth and verdicts decide, never what happens to be live at exit.

leaks       A site with the verdict "leak" fails.  With a baseline only one that did not leak or grow there.
            Unsure: an application's site that grows without being shown to leak, or sites that cannot be
            told holding more than half of what is live.
max growth  The growth of all leaking and growing sites together, of the JVM's own only the leaking ones:
            it fails when its whole 95 % interval is above the limit, passes when the whole is below.
            Unsure: between, or when sites that cannot be told could make up the difference, or when
            the limit is finer than what the samples resolve (three intervals over two thirds of the time).
max live    The highest live bytes of any snapshot, without the address space that the JVM maps for itself.

A recording that is too short or that lost samples can fail, but not pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from offheap.analysis import estimates, frames, moments, totals
from offheap.analysis.answer import describe
from offheap.analysis.leaks import suspects as judge
from offheap.analysis.matching import match
from offheap.analysis.results import Estimate, Suspect, Verdict
from offheap.analysis.results_gate import Check, Gate, Outcome
from offheap.analysis.stats import lost_samples
from offheap.quantities import PER_MINUTE, format_duration, format_size
from offheap.recording.model import Frame, Recording

SHORTEST = 3.0  # seconds; no verdict is possible on less
_LOST = 0.01  # of the samples

_per_minute = PER_MINUTE.format  # as the limit is stated
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


def gate(
    recording: Recording,
    limits: Limits,
    *,
    baseline: Recording | None = None,
    suppressions: Sequence[Suppression] = (),
) -> Gate:
    """Check a recording; with a baseline its leaks are known and pass."""
    used: set[int] = set()
    ignored = 0
    counted = []
    for suspect in judge(recording):
        relevant = suspect.verdict in _Doubtful or limits.max_live is not None
        covering = (
            {i for i, suppression in enumerate(suppressions) if suppression.covers(suspect.site.stack)}
            if relevant
            else set()
        )
        used |= covering
        ignored += bool(covering)
        if not covering:
            counted.append(suspect)
    gap = _gap(recording)
    checks = []
    if limits.max_growth is not None:
        checks.append(_unless(gap, _growth(recording, counted, limits.max_growth)))
    if limits.max_live is not None:
        checks.append(_unless(gap, _live(recording, counted, limits.max_live)))
    if limits.leaks or not checks:
        known = _known(recording, baseline) if baseline is not None else None
        checks.append(_unless(gap, _leaks(counted, known)))
    return Gate(recording.info, tuple(checks), ignored, frozenset(used))


def _gap(recording: Recording) -> str:
    """Why the recording cannot pass, "" if it can."""
    info = recording.info
    taken, lost = totals.samples(recording), lost_samples(info)
    if info.duration_seconds < SHORTEST:
        return f"only {format_duration(info.duration_seconds)} were recorded"
    if not taken:
        return "nothing was recorded"
    if lost > _LOST * taken:
        return f"{lost:,} samples were lost beside {taken:,} recorded"
    return ""


def _unless(gap: str, check: Check) -> Check:
    return Check(check.name, "cannot tell", gap) if gap and check.outcome != "failed" else check


def _growth(recording: Recording, counted: Sequence[Suspect], limit: float) -> Check:
    name = f"max-growth {_per_minute(limit)}"
    info = recording.info
    growing = [
        s for s in counted if s.verdict == "leak" or (s.verdict == "growing" and s.blamed.kind != "jvm")
    ]
    rate = estimates.total([s.growth_bytes_per_second for s in growing])
    unclear = sum(
        max(s.growth_bytes_per_second.estimate, 0.0)
        for s in counted
        if s.verdict == "cannot tell yet" and s.blamed.kind != "jvm"
    )
    resolved = 3 * info.interval_bytes / max(info.duration_seconds * 2 / 3, 1e-3)
    figures = f"{_per_minute(rate.estimate)} ({_per_minute(rate.low)} to {_per_minute(rate.high)})"
    worst = sorted(growing, key=lambda s: -s.growth_bytes_per_second.low)
    if rate.low > limit:
        return Check(name, "failed", f"live memory grows by {figures}", tuple(worst))
    if rate.high > limit:
        return Check(name, "cannot tell", f"live memory grows by {figures}", tuple(worst))
    if resolved > limit:
        seconds = 3 * info.interval_bytes / max(limit, 1e-9) * 1.5
        why = (
            f"samples every {format_size(info.interval_bytes)} over {format_duration(info.duration_seconds)} "
            f"show no less than {_per_minute(resolved)}: record {format_duration(seconds)}, or with "
            "a smaller --interval, or --exact"
        )
        return Check(name, "cannot tell", why)
    if rate.estimate + unclear > limit:
        why = f"too few samples to tell: {_per_minute(rate.estimate + unclear)} may be growth"
        return Check(name, "cannot tell", why)
    return Check(
        name, "passed", f"live memory grows by {figures}" if growing else "no site grows beyond chance"
    )


def _live(recording: Recording, counted: Sequence[Suspect], limit: int) -> Check:
    name = f"max-live {format_size(limit)}"
    held = [s for s in counted if not (s.site.kind == "mmap" and frames.by_jvm(s.site.stack))]
    stacks = np.zeros(len(recording.stack_offsets) - 1, bool)
    for suspect in held:
        stacks[list(suspect.site.stacks)] = True
    time, peak = moments.peak(recording, stacks)
    why = f"{_sizes(peak)} were live at {format_duration(time)}"
    outcome: Outcome = "failed" if peak.low > limit else "cannot tell" if peak.high > limit else "passed"
    worst = sorted(held, key=lambda s: -s.site.live_bytes.estimate)[:3] if outcome != "passed" else []
    return Check(name, outcome, why, tuple(worst))


def _leaks(counted: Sequence[Suspect], known: dict[int, Verdict] | None) -> Check:
    """`known`: by stack number in the recording, the verdict of its site in the baseline."""
    name = "no-leaks" if known is None else "no-new-leaks"
    leaks = [s for s in counted if s.verdict == "leak"]
    before: list[Verdict | None] = [known.get(s.site.stacks[0]) if known else None for s in leaks]
    fresh = [s for s, verdict in zip(leaks, before, strict=True) if verdict not in _Doubtful]
    what = "leaks" if known is None else "leaks and did not in the baseline"
    if fresh:
        plural = "1 site" if len(fresh) == 1 else f"{len(fresh)} sites"
        verb = what if len(fresh) == 1 else what.replace("leaks", "leak", 1)
        return Check(name, "failed", f"{plural} {verb}", tuple(fresh))
    unsure = [s for s, verdict in zip(leaks, before, strict=True) if verdict == "cannot tell yet"]
    if unsure:
        what = describe(unsure[0], PER_MINUTE)
        why = f"it leaks, and the baseline is too short to tell whether it leaked there: {what}"
        return Check(name, "cannot tell", why, tuple(unsure))
    growing = [
        s
        for s in counted
        if s.verdict == "growing"
        and s.blamed.kind != "jvm"
        and (known is None or known.get(s.site.stacks[0]) not in ("leak", "growing"))
    ]
    if growing:
        waits = ", a garbage collection might still free it" if growing[0].waits_for_gc else ""
        why = f"it grows, and is not shown to be a leak{waits}: {describe(growing[0], PER_MINUTE)}"
        return Check(name, "cannot tell", why, tuple(growing))
    own = [s for s in counted if s.blamed.kind != "jvm"]
    whole = sum(s.site.live_bytes.estimate for s in counted if s.site.kind != "mmap" or s in own)
    unclear = sum(s.site.live_bytes.estimate for s in own if s.verdict == "cannot tell yet")
    if unclear > 0.5 * whole:
        why = f"too few samples of most of what is live: {format_size(unclear)} of {format_size(whole)}"
        return Check(name, "cannot tell", why)
    if leaks:
        return Check(name, "passed", f"no more than in the baseline, {len(leaks)} known")
    return Check(name, "passed", "no site leaks")


def _known(recording: Recording, baseline: Recording) -> dict[int, Verdict]:
    matching = match((baseline, recording))
    worst: dict[int, Verdict] = {}
    for suspect in judge(baseline):  # the worst first
        worst.setdefault(int(matching.sites[0][suspect.site.stacks[0]]), suspect.verdict)
    numbers = matching.sites[1].tolist()
    return {stack: worst[number] for stack, number in enumerate(numbers) if number in worst}


def _sizes(value: Estimate) -> str:
    if value.low == value.high:
        return format_size(value.estimate)
    return f"{format_size(value.estimate)} ({format_size(value.low)} to {format_size(value.high)})"
