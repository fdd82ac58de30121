"""The slope of a series and its interval, on simulated series whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from offheap.analysis.statistics.trend import slope, trend

TIMES = np.arange(30.0)


def noise(rng: np.random.Generator, count: int, memory: float) -> NDArray[np.float64]:
    """Noise in which each value keeps `memory` of the one before."""
    values, value = np.zeros(count), 0.0
    for at in range(count):
        value = memory * value + rng.normal()
        values[at] = value
    return values


@pytest.mark.parametrize(("memory", "covered"), [(0.0, 0.93), (0.5, 0.88), (0.8, 0.86)])
def test_the_interval_holds_the_truth(memory: float, covered: float) -> None:
    rng = np.random.default_rng(1)
    found = [slope(TIMES, 0.1 * TIMES + noise(rng, len(TIMES), memory)) for _ in range(400)]
    assert np.mean([one.low <= 0.1 <= one.high for one in found]) >= covered


@pytest.mark.parametrize(("memory", "accused"), [(0.0, 0.03), (0.8, 0.08)])
def test_wandering_is_seldom_growth(memory: float, accused: float) -> None:
    rng = np.random.default_rng(2)
    found = [trend(TIMES, noise(rng, len(TIMES), memory)) for _ in range(400)]
    assert np.mean([one is not None and one.grows for one in found]) <= accused


def test_outliers_do_not_move_it() -> None:
    values = 3.0 * TIMES
    values[[12, 20]] = 1e6
    assert slope(TIMES, values).estimate == pytest.approx(3.0, rel=0.1)


def test_a_single_step_is_no_growth() -> None:
    for at in range(3, 28):
        one = trend(TIMES, np.where(at > TIMES, 100.0, 300.0))
        assert one
        assert not one.grows, at


def test_a_staircase_grows() -> None:
    one = trend(np.arange(60.0), np.floor(np.arange(60.0) / 4) * 64)
    assert one
    assert one.grows
    assert one.rate.low <= 16 <= one.rate.high
    assert not one.slows(0.6)


def test_what_fades_slows() -> None:
    one = trend(np.arange(60.0), 1000 * (1 - np.exp(-np.arange(60.0) / 15)))
    assert one
    assert one.slows(0.5)


@pytest.mark.parametrize("points", [11, 13, 16])
def test_a_saw_tooth_on_a_straight_line_does_not_slow(points: int) -> None:
    """Only every fourth full collection of HotSpot compacts the whole heap (MarkSweepAlwaysCompactCount)."""
    rng = np.random.default_rng(3)
    slower = 0
    for phase in range(100):
        times = 1.5 * np.arange(points) + rng.uniform(0, 0.65, points)
        left = np.array([0.0, 600.0, 1500.0, 2200.0])[(np.arange(points) + phase) % 4]
        # The trend covers the last two thirds.
        first = -times[-1] / 2
        one = trend(np.r_[first, times], np.r_[np.nan, 781 * times + left * rng.normal(1, 0.15, points)])
        assert one
        assert one.points == points
        slower += one.slows(0.5)
    assert not slower


def test_too_few_points() -> None:
    assert trend(TIMES[:5], TIMES[:5]) is None
    assert trend(TIMES, np.full(30, np.nan)) is None
    assert trend(np.zeros(0), np.zeros(0)) is None


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(-1e15, 1e15) | st.just(float("nan"))), max_size=40),
    st.integers(1, 8),
)
def test_any_series(points: list[tuple[float, float]], fewest: int) -> None:
    points.sort(key=lambda point: point[0])
    times, values = (np.array([point[at] for point in points]) for at in (0, 1))
    one = trend(times, values, fewest)
    if one:
        assert one.rate.low <= one.rate.estimate <= one.rate.high
