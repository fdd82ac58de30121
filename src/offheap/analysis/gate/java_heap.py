"""Whether the Java objects of a recording pass: the conditions of native memory, on what collections left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offheap.analysis.gate.conditions import SiteFilter, count, growth, known_sites, leaks
from offheap.analysis.gate.results import Check
from offheap.analysis.java_heap.java_ranking import java_ranking, without_objects
from offheap.analysis.java_heap.report import undecided
from offheap.analysis.leaks.conclusion import Conclusion, per_minute
from offheap.analysis.verdicts.power import DEFAULT_LIMIT
from offheap.recording.model import Recording

_GROWTH, _LEAKS = "max-java-growth", "no-java-leaks"


@dataclass(frozen=True, slots=True)
class JavaChecks:
    """As of `results.Gate`; `found` is None where the recording has no Java objects."""

    checks: tuple[Check, ...] = ()
    found: Conclusion | None = None
    ignored: int = 0
    used: frozenset[int] = frozenset()


def check(
    recording: Recording,
    max_growth: float | None,
    no_leaks: bool,
    *,
    baseline: Recording | None = None,
    suppressions: Sequence[SiteFilter] = (),
) -> JavaChecks:
    """`max_growth`: bytes a second, None: no limit; `no_leaks`: no site of Java objects may leak."""
    if recording.info.java_heap is None:
        if max_growth is None:
            return JavaChecks()
        why = "the recording has no Java objects: record with --java-heap"
        return JavaChecks((Check(f"{_GROWTH} {per_minute(max_growth)}", "cannot tell", why),))
    limit = DEFAULT_LIMIT if max_growth is None else max_growth
    counted = count("the live Java heap", java_ranking(recording), limit, suppressions, every=False)
    # The outcome says that it cannot tell.
    gap = undecided(recording).partition(": ")[2] or counted.found.lost
    checks = []
    if max_growth is not None:
        checks.append(growth(_GROWTH, counted))
    if no_leaks:
        known = None
        if baseline is not None:
            before, now = (one.java or without_objects(one) for one in (baseline, recording))
            known = known_sites(now, before, java_ranking(baseline))
        checks.append(leaks(_LEAKS, counted, known))
    if gap:
        checks = [one if one.outcome == "failed" else Check(one.name, "cannot tell", gap) for one in checks]
    return JavaChecks(tuple(checks), counted.found, len(counted.ignored), counted.used)
