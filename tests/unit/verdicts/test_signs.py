"""Signs for and against a leak, one by one: a difference that chance explains is no sign."""

from __future__ import annotations

import numpy as np
import pytest

from harness.simulation import Behaviour, Cache, Churn, Leak, Process, WarmUp, native_stack
from offheap.analysis.sites.sites import SiteTable, table
from offheap.analysis.statistics.estimates import Estimates
from offheap.analysis.verdicts import signs, site_rates, survivor_layer
from offheap.analysis.verdicts.site_history import Histories, histories
from offheap.analysis.verdicts.verdict_reasons import VERDICTS, Reason, Verdict


def estimates(*values: tuple[float, float]) -> Estimates:
    """From each estimate and half its 95 % interval."""
    middle, half = np.array(values).T
    return Estimates(middle, middle - half, middle + half)


def site(*behaviours: Behaviour, seconds: float = 60.0) -> tuple[SiteTable, Histories]:
    """The second of two sites behaves so, every block recorded; the first is that of lost stacks."""
    process = Process(seconds, 1)
    process.add(native_stack("keep"), *behaviours)
    recording = process.record(exact=True)
    sites = table(recording)
    return sites, histories(recording, sites.grouping)


@pytest.mark.parametrize(
    ("before", "after", "share", "expected"),
    [
        ((100, 5), (50, 5), 0.6, True),
        ((100, 5), (59, 5), 0.6, False),  # lower, but chance explains it
        ((100, 50), (40, 40), 0.6, False),
        ((100, 0), (59, 0), 0.6, True),  # exact
        ((100, 0), (60, 0), 0.6, False),
        ((0, 0), (0, 0), 0.6, False),
    ],
)
def test_it_fades_if_it_falls_by_more_than_chance(
    before: tuple[float, float], after: tuple[float, float], share: float, expected: bool
) -> None:
    assert signs.fades(estimates(before), estimates(after), share).tolist() == [expected]


def test_probabilities_come_from_intervals() -> None:
    values = estimates((10, 0), (0, 0), (-10, 0), (196, 196), (0, 5))
    assert signs.above_zero(values.estimate, values.low) == pytest.approx([1, 0.5, 0.5, 0.975, 0.5], abs=1e-3)
    # Growth of a tenth of the live bytes in the site's time, and of all; known exactly, and not at all.
    live, seconds = estimates((1000, 0), (1000, 0), (1000, 0)), np.full(3, 10.0)
    flat = signs.flat(estimates((10, 1), (100, 1), (10, 1000)), live, seconds)
    assert flat[0] == 0.99
    assert flat[1] == pytest.approx(0.0, abs=1e-6)
    assert 0.5 < flat[2] < 0.6
    assert signs.share(np.array([1.0, 3.0, 1.0]), np.array([2.0, 2.0, 0.0])).tolist() == [0.5, 1.0, 0.0]


def test_a_crowd_in_the_first_third_is_more_than_chance_puts_there() -> None:
    early, samples = np.array([3.0, 17.0, 17.0, 90.0]), np.array([3.0, 25.0, 25.0, 100.0])
    third, deviations = np.full(4, 1 / 3), np.array([2.0, 2.0, 4.0, 4.0])
    assert signs.crowded(early, samples, third, deviations).tolist() == [False, True, False, True]


def test_a_cache_that_fills_and_one_that_is_full_show_it() -> None:
    _, filling = site(WarmUp(3000, 4096, 30.0))
    _, leaking = site(Leak(50, 4096))
    # The cache is full after two thirds, and every later entry takes the place of an old one.
    _, full = site(Cache(50, 4096, 2050, "first"))
    fills = [signs.fills(one, one.at(1 / 3), 1e6)[-1] for one in (filling, leaking)]
    assert [bool(one) for one in fills] == [True, False]
    evicts = [signs.begins_to_free(one, one.at(2 / 3))[-1] for one in (full, leaking)]
    assert [bool(one) for one in evicts] == [True, False]


def test_survivors_beneath_churn_are_the_growth() -> None:
    sites, history = site(Churn(4000, 65536, 0.2), Leak(5, 4096))
    a, b = history.at(1 / 3), history.at(2 / 3)
    net = site_rates.rates(history, a, b)
    course = survivor_layer.course(
        history,
        net,
        a,
        b,
        live=sites.live_bytes,
        allocated=sites.allocated_bytes,
        on_jvm_threads=np.zeros(2, np.bool_),
        age=1e6,
    )
    # The blocks in use hide the net growth; the layer is known ten times better, and is the truth.
    assert net.growth.low[-1] < 0
    assert course.layered.tolist() == [False, True]
    layer = course.rates.growth
    assert 0 < layer.low[-1] < 5 * 4096 < layer.high[-1]
    assert layer.high[-1] - layer.low[-1] < (net.growth.high[-1] - net.growth.low[-1]) / 10
    assert course.rates.first == net.first


def test_each_reason_has_a_verdict() -> None:
    assert set(VERDICTS) == set(Reason)
    verdicts: set[Verdict] = {"leak", "growing", "cannot tell yet", "steady", "startup", "freed"}
    assert set(VERDICTS.values()) == verdicts
