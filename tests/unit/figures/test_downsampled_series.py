"""The bytes of every stack over time, and their packed form in the HTML report."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from harness import simulation
from offheap.analysis.leaks.leaks import ranking
from offheap.analysis.totals import downsampled_series as series_module
from offheap.analysis.totals import stack_totals_at
from offheap.analysis.totals.downsampled_series import downsampled_series, downsampled_site_series
from offheap.analysis.totals.stack_totals import thread_shares
from offheap.recording.model import Recording
from offheap.report.html.payload_series import series


@pytest.fixture(scope="module")
def sampled() -> Recording:
    process = simulation.Process(duration=30, seed=5)
    process.add(simulation.inflater("com.example.A.a"), simulation.Leak(rate=200, size=71600))
    process.add(simulation.inflater("com.example.B.b"), simulation.Churn(rate=300, size=90000, lifetime=1))
    process.add(simulation.native_stack("late"), simulation.Leak(rate=100, size=50000, start=20))
    return process.record()


def table(recording: Recording, name: str) -> np.ndarray:
    """The values of every stack and time: each cell continues until the next one."""
    found = downsampled_series(recording)
    result = np.zeros((len(recording.stack_offsets) - 1, len(found.times)))
    for stack, time, value in zip(found.stack, found.time, getattr(found, name), strict=True):
        result[stack, time:] = value
    return result


def test_levels_are_those_of_the_snapshots(sampled: Recording) -> None:
    found = downsampled_series(sampled)
    assert found.times[0] == 0
    live, allocated = table(sampled, "live_bytes"), table(sampled, "allocated_blocks")
    for column, time in enumerate(found.times):
        assert np.allclose(live[:, column], stack_totals_at.live_at(sampled, time).bytes)
        assert np.allclose(allocated[:, column], stack_totals_at.allocated_until(sampled, time).blocks)


def test_many_changing_stacks_get_fewer_times(sampled: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_module, "_MOST_CELLS", 60)
    found = downsampled_series(sampled)
    assert len(found.stack) <= 60
    assert found.times[-1] == sampled.process["time"][-1]
    for column, time in enumerate(found.times):
        assert np.allclose(
            table(sampled, "live_bytes")[:, column], stack_totals_at.live_at(sampled, time).bytes
        )


def test_one_snapshot_has_no_course(sampled: Recording) -> None:
    first = sampled.series[sampled.series["time"] <= sampled.process["time"][0]]
    once = dataclasses.replace(sampled, series=first, process=sampled.process[:1])
    assert len(downsampled_series(once).times) == 0
    assert downsampled_site_series(once, [each.site for each in ranking(once)]).live_error.shape[1] == 0


def test_sites_add_up_their_stacks(sampled: Recording) -> None:
    sites = [suspect.site for suspect in ranking(sampled)]
    found = downsampled_site_series(sampled, sites)
    times = downsampled_series(sampled).times
    for row, site in enumerate(sites):
        stacks = list(site.stacks)
        for column, time in enumerate(times):
            expected = stack_totals_at.live_at(sampled, time).bytes_variance[stacks].sum()
            assert found.live_error[row, column] ** 2 == pytest.approx(expected, abs=1)
        assert found.births[row].sum() == pytest.approx(site.live_bytes.estimate)
    assert (np.diff(found.allocated_error**2) >= -1).all()


def test_a_stack_is_filed_under_the_threads_that_hold_most(sampled: Recording) -> None:
    live = sampled.live.copy()
    live["thread"] = np.arange(len(live)) % 3
    live["size"] = np.where(live["thread"] == 0, 1, live["size"])
    shares = thread_shares(dataclasses.replace(sampled, live=live, threads=["a", "b", "c"]), most=2)
    assert set(shares.thread.tolist()) == {1, 2}
    one = (shares.stack == 1) & (shares.thread == 2)
    rows = live[(live["stack"] == 1) & (live["thread"] == 2)]
    assert shares.live_bytes[one] == pytest.approx([(rows["size"] / rows["probability"]).sum()])


def test_packed_levels_are_off_by_little(sampled: Recording) -> None:
    count = len(sampled.stack_offsets) - 1
    packed = series(downsampled_series(sampled), np.arange(count))
    first = np.concatenate(([0], np.cumsum(packed["cells"])))
    for name in ("live_bytes", "allocated_blocks"):
        levels = table(sampled, name)
        for stack in range(count):
            cells = slice(first[stack], first[stack + 1])
            times = np.cumsum(np.array(packed["at"][cells], np.int64))
            unpacked = (
                np.cumsum(np.array(packed[name]["steps"][cells], np.int64))
                * 2.0 ** packed[name]["exponent"][stack]
            )
            most = max(levels[stack].max() / 4096, 0.5)
            assert np.abs(unpacked - levels[stack, times]).max(initial=0) <= most
