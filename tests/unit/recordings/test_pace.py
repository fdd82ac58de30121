"""The frequency of the recorder's work: within the budget, for any cost of its snapshots and readings."""

from __future__ import annotations

import pytest

from offheap.recording.capture.pace import SETTLED_SECONDS, Pace, left
from offheap.recording.model import Budget

POLL = 0.2  # seconds


def budget_of(share: float, cpu_seconds: float, spent_seconds: float) -> Budget:
    return Budget(share, cpu_seconds, spent_seconds, 32 << 10, 1 << 20, 32 << 10)


def simulate(
    seconds: float,
    *,
    left: float | None,
    snapshot: float,
    reading: float,
    poll: float,
    every: float | None = None,
) -> tuple[float, list[float], list[float]]:
    """Plays the recorder's loop with these costs in CPU seconds.

    Returns the share of one CPU from the settled time on, and the times of the snapshots and of the readings.
    """
    pace, now, used, settled = Pace(every), 0.0, 0.0, 0.0
    due = reading_due = started = began = 0.0
    snapshots: list[float] = []
    readings: list[float] = []
    while now < seconds:
        if now < SETTLED_SECONDS:
            settled = used
        if pace.settle(now, used):
            due = started + pace.until_snapshot(snapshot, left, now, used)
            reading_due = began + pace.until_reading(reading, left, now, used)
        if now < due:
            now += min(POLL, due - now)
            used += poll
            continue
        started = now
        used += snapshot
        now += snapshot
        pace.pay(snapshot)
        snapshots.append(started)
        if now >= reading_due:
            began = now
            used += reading
            now += reading
            pace.pay(reading)
            readings.append(began)
            reading_due = began + pace.until_reading(reading, left, now, used)
        due = started + pace.until_snapshot(snapshot, left, now, used)
    return (used - settled) / (seconds - SETTLED_SECONDS), snapshots, readings


@pytest.mark.parametrize("of_one_cpu", [0.005, 0.007, 0.01])
@pytest.mark.parametrize("snapshot", [0.004, 0.02, 0.06])
def test_a_settled_recorder_keeps_within_what_sampling_leaves(of_one_cpu: float, snapshot: float) -> None:
    share, snapshots, readings = simulate(180, left=of_one_cpu, snapshot=snapshot, reading=0.015, poll=0.0002)
    # Work that starts just before the end pays for seconds beyond the simulated time.
    assert share < of_one_cpu + (snapshot + 0.015) / 170
    assert share > of_one_cpu / 4, "what is left is used"
    assert sum(time < SETTLED_SECONDS for time in snapshots) >= 7
    assert len(snapshots) >= len(readings) >= 6


@pytest.mark.parametrize("reading", [0.015, 0.06])
def test_the_first_seconds_under_the_budget_cost_no_more_than_later_ones(reading: float) -> None:
    """A busy machine makes a reading cost 0.06 s; a second later it would be 0.6 % of nine seconds."""
    for seconds in (15, 20, 25):
        share, _, _ = simulate(seconds, left=0.009, snapshot=0.008, reading=reading, poll=0.0002)
        assert share < 0.009 + 0.002, seconds


def test_nothing_is_rarer_than_half_a_minute() -> None:
    for nothing in (0.0, 1e-6, -0.01):
        _, snapshots, readings = simulate(600, left=nothing, snapshot=0.02, reading=0.02, poll=0.0002)
        assert sum(time > SETTLED_SECONDS for time in snapshots) >= 18
        assert sum(time > SETTLED_SECONDS for time in readings) >= 17


@pytest.mark.parametrize(("every", "left"), [(None, None), (0.5, None), (0.5, 0.001)])
def test_without_a_budget_or_by_the_users_clock(every: float | None, left: float | None) -> None:
    _, snapshots, _ = simulate(60, left=left, snapshot=0.004, reading=0.015, poll=0.0002, every=every)
    assert len(snapshots) == pytest.approx(60 / (every or 1.0), rel=0.05)


def test_the_recorder_has_what_the_probe_leaves_of_one_cpu_or_more() -> None:
    assert left(None, 10.0) is None
    assert left(budget_of(0.01, 1.0, 0.01), 0.0) is None
    # An idle process, one that uses a CPU and whose sampling takes 0.5 % of it, and one that uses four.
    assert left(budget_of(0.01, 2.0, 0.01), 100.0) == pytest.approx(0.0099)
    assert left(budget_of(0.01, 100.0, 0.5), 100.0) == pytest.approx(0.005)
    assert left(budget_of(0.01, 400.0, 3.5), 100.0) == pytest.approx(0.005)
