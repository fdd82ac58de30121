"""Whether a recording passes: growth and verdicts decide, never what happens to be live at exit.

leaks       A site with the verdict "leak" fails.  With a baseline only one that did not leak or grow there.
            Unsure: an application's site that grows without being shown to leak, or a recording that cannot
            exclude (`power`) a leak of `max_growth`, of power.DEFAULT_LIMIT where there is no such limit.
max growth  The growth of all leaking and growing sites together, of the JVM's own only the leaking ones:
            it fails when its whole 95 % interval is above the limit, passes when the whole is below, and what
            the recording can exclude is, too.
max live    The highest live bytes of any snapshot, without the address space that the JVM maps for itself.

Java objects, if the recording follows them, have a check of their own: `java_heap`.

A recording that is too short or that lost samples can fail, but not pass.  What cannot be told says how long
a recording tells it, or what else does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from offheap.analysis.gate import java_heap
from offheap.analysis.gate.conditions import Counted, SiteFilter, count, growth, known_sites, leaks
from offheap.analysis.gate.results import Check, Gate, Outcome
from offheap.analysis.leaks.conclusion import Conclusion, record
from offheap.analysis.leaks.leaks import ranking
from offheap.analysis.stacks import frames
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.totals import stack_totals_at, totals
from offheap.analysis.verdicts.power import DEFAULT_LIMIT
from offheap.analysis.verdicts.verdict_rules import SHORTEST
from offheap.quantities import format_duration, format_size
from offheap.recording.model import Recording


@dataclass(frozen=True, slots=True)
class Limits:
    """max_growth and max_java_growth in bytes per second, max_live in bytes; without all, or with `leaks`, no
    site may leak."""

    max_growth: float | None = None
    max_live: int | None = None
    leaks: bool = False
    max_java_growth: float | None = None

    @property
    def no_leaks(self) -> bool:
        """Whether no site may leak."""
        return self.leaks or (self.max_growth, self.max_live, self.max_java_growth) == (None, None, None)

    @property
    def slowest_leak(self) -> float | None:
        """What a recording has to show or exclude: a leak of so many bytes a second; None: none."""
        if self.max_growth is not None:
            return self.max_growth
        return DEFAULT_LIMIT if self.no_leaks else None


def gate(
    recording: Recording,
    limits: Limits,
    *,
    baseline: Recording | None = None,
    suppressions: Sequence[SiteFilter] = (),
) -> Gate:
    """Check a recording; with a baseline its leaks are known and pass."""
    slowest = DEFAULT_LIMIT if limits.slowest_leak is None else limits.slowest_leak
    counted = count(
        "live memory", ranking(recording), slowest, suppressions, every=limits.max_live is not None
    )
    gap = _gap(recording, counted.found)
    checks = []
    if limits.max_growth is not None:
        checks.append(_unless(gap, growth("max-growth", counted)))
    if limits.max_live is not None:
        checks.append(_unless(gap, _live(recording, counted, limits.max_live)))
    if limits.no_leaks:
        known = known_sites(recording, baseline, ranking(baseline)) if baseline is not None else None
        checks.append(_unless(gap, leaks("no-leaks", counted, known)))
    objects = java_heap.check(
        recording, limits.max_java_growth, limits.no_leaks, baseline=baseline, suppressions=suppressions
    )
    return Gate(
        recording.info,
        counted.found,
        (*checks, *objects.checks),
        len(counted.ignored) + objects.ignored,
        counted.used | objects.used,
        objects.found,
    )


def _gap(recording: Recording, found: Conclusion) -> str:
    """Why the recording cannot pass, "" if it can."""
    info = recording.info
    if info.duration_seconds < SHORTEST:
        seconds = found.power.seconds_for(found.limit)
        time = format_duration(info.duration_seconds)
        known = f"the files cover only {time}" if info.imported else f"only {time} were recorded"
        return f"{known}; {record(seconds, found)}"
    if not totals.samples(recording):
        return "nothing was recorded; record longer, or with --exact, if the program allocates at all"
    return found.lost


def _unless(gap: str, check: Check) -> Check:
    return Check(check.name, "cannot tell", gap) if gap and check.outcome != "failed" else check


def _live(recording: Recording, counted: Counted, limit: int) -> Check:
    name = f"max-live {format_size(limit)}"
    held = [s for s in counted.sites if not (s.site.kind == "mmap" and frames.by_jvm(s.site.stack))]
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


def _sizes(value: Estimate) -> str:
    if value.low == value.high:
        return format_size(value.estimate)
    return f"{format_size(value.estimate)} ({format_size(value.low)} to {format_size(value.high)})"
