"""Leaks of known rate added to readings of healthy JVMs; docs/evaluation.md has the figures."""

from __future__ import annotations

import pytest

from harness.evaluation import owner_verdicts
from offheap.analysis.owners.verdict import judge

HEALTHY = owner_verdicts.healthy_processes()
RUNS = 24


def test_none_of_the_healthy_is_blamed() -> None:
    for one in HEALTHY:
        verdict = judge(one.over).verdict
        assert verdict.kind in ("stable", "cannot tell yet"), (one.name, verdict.why)
    steady = [one for one in HEALTHY if not one.fills]
    found = owner_verdicts.evaluate(steady, (0,), (60, 120), RUNS)
    assert all(counts["wrong"] == 0 for counts in found.values()), found


@pytest.mark.parametrize("busy", [False, True])
def test_a_leak_is_seen_or_it_is_said_what_may_be(busy: bool) -> None:
    noise = [one for one in HEALTHY if one.busy == busy and not one.fills]
    found = owner_verdicts.evaluate(noise, (10, 1000), (120,), RUNS)
    assert found[1000, 120]["right"] >= 0.9 * RUNS, found
    assert all(counts["wrong"] <= 1 for counts in found.values()), found
