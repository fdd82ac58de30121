"""The view of `offheap live` at each reading: figures, intervals, baseline, order, filter; sparklines."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.recordings.live_file_writer import LiveFileWriter, hook, native
from harness.recordings.replay import Replay, Sampled, followed, leaky, site, until
from harness.simulation import Blocks, Churn, Leak, Process, inflater, native_stack
from offheap import recording
from offheap.analysis.leaks.leaks import ranking
from offheap.analysis.statistics.estimate import Estimate
from offheap.live.follower import Follower
from offheap.probe.contract import Mode, State
from offheap.quantities import rate_unit
from offheap.recording.capture.live_source import FollowedLiveFile
from offheap.report.tui import live_text


def test_figures_of_an_exact_recording_are_exact() -> None:
    process, leak = leaky()
    watch, view = followed(process, [float(t) for t in range(1, 31)])
    row = view.row(site(view, "com.example.Foo.leak"))
    assert (row.live_blocks, row.live_bytes) == process.truth(leak)
    assert view.now.live_bytes == pytest.approx(sum(process.truth(n)[1] for n in range(1, 4)))
    # The window is the last two thirds of the watched time.
    assert view.window == pytest.approx(29 * 2 / 3, abs=1)
    then = until(process, 30 - view.window)
    grown = process.truth(leak)[1] - then.truth(leak)[1]
    assert row.growth.estimate == pytest.approx(grown / view.window, rel=0.05)
    # The bytes are exact; the interval covers the program's own chance from era to era, as in `leaks`.
    assert row.growth == row.suspect.growth_bytes_per_second
    assert row.growth.low < row.growth.estimate < row.growth.high
    births = process.blocks[leak].births
    assert row.age == pytest.approx(30 - births.mean(), abs=0.02)
    assert row.trend[-1] == row.live_bytes
    assert list(row.trend) == sorted(row.trend)
    assert sum(view.births(site(view, "com.example.Foo.leak"), 40)) == pytest.approx(row.live_bytes)
    assert row.suspect.verdict == "leak"
    assert "com.example.Foo.leak" in view.names.answer
    cache = view.row(site(view, "fill_cache"))
    assert cache.growth.estimate == pytest.approx(0, abs=1e-6)
    assert watch.advance() is None
    assert view.over


def test_the_baseline_is_where_growth_counts_from() -> None:
    process, leak = leaky()
    watch = Follower(Replay(process, [5.0, 10.0, 12.0, 20.0]))
    watch.advance()
    at_ten = watch.advance()
    watch.mark(at_ten)
    assert watch.view().window == 0
    for expected in (2.0, 10.0):
        view = watch.advance()
        assert view
        assert view.baseline == 10.0
        assert view.window == expected
        grown = until(process, 10.0 + expected).truth(leak)[1] - until(process, 10.0).truth(leak)[1]
        growth = view.row(site(view, "com.example.Foo.leak")).growth.estimate
        assert growth == pytest.approx(grown / expected)
    watch.mark(None)
    assert watch.view().baseline is None


def test_intervals_of_growth_cover_the_truth_where_blocks_are_sampled() -> None:
    covered = runs = 0
    for seed in range(40):
        process = Process(duration=30.0, seed=seed)
        stack = process.add(inflater("com.example.Foo.leak"), Leak(rate=200, size=7160))
        churn = process.add(native_stack("churn"), Churn(rate=400, size=20000, lifetime=2.0))
        # One draw selects the sampled blocks: every reading has the same ones.
        sampled = np.random.default_rng(seed)
        for number in (stack, churn):
            blocks = process.blocks[number]
            chosen = sampled.random(len(blocks.sizes)) < -np.expm1(-blocks.sizes / (512 * 1024))
            process.blocks[number] = Blocks(
                *(a[chosen] for a in (blocks.births, blocks.deaths, blocks.sizes))
            )
        truth = Process(duration=30.0, seed=seed)
        truth.add(inflater("com.example.Foo.leak"), Leak(rate=200, size=7160))
        truth.add(native_stack("churn"), Churn(rate=400, size=20000, lifetime=2.0))
        watch = Follower(Sampled(process, [10.0, 30.0]))
        first = watch.advance()
        watch.mark(first)
        view = watch.advance()
        assert view
        for number, name in ((stack, "com.example.Foo.leak"), (churn, "churn")):
            growth = view.row(site(view, name)).growth
            real = (truth.truth(number)[1] - until(truth, 10.0).truth(number)[1]) / 20
            covered += growth.low <= real <= growth.high
            runs += 1
    assert covered >= 0.88 * runs, f"{covered} of {runs}"


def test_a_long_watch_keeps_few_moments_evenly_and_the_last_is_now() -> None:
    process, leak = leaky(600.0)
    process.blocks = [Blocks(b.births[::50], b.deaths[::50], b.sizes[::50]) for b in process.blocks]
    times = [float(t) for t in range(1, 601, 2)]
    _, view = followed(process, times)
    taken = [snapshot.time for snapshot in view.snapshots]
    assert taken[0] == 1.0
    assert taken[-1] == times[-1]
    assert 20 <= len(taken) <= 48
    gaps = np.diff(taken[:-1])
    assert gaps.max() <= 2.5 * gaps.min()
    assert view.row(site(view, "com.example.Foo.leak")).live_blocks == until(process, 599.0).truth(leak)[0]


def test_order_and_filter() -> None:
    process, _ = leaky()
    _, view = followed(process, [10.0, 20.0, 30.0])

    def names(order: list[int]) -> list[str]:
        return [view.names.suspects[n].blamed.name for n in order]

    def ordered(sort: Any, **options: Any) -> list[str]:
        return names(view.order(sort, live_text.label, **options))

    assert ordered("growth")[0] == "com.example.Foo.leak"
    live = [view.row(n).live_bytes for n in view.order("live", live_text.label)]
    assert live == sorted(live, reverse=True)
    assert ordered("live", reverse=True) == ordered("live")[::-1]
    assert ordered("allocated")[0] == "churn_buffers"
    assert ordered("age")[-1] == "churn_buffers"
    assert ordered("name") == ["churn_buffers", "fill_cache", "com.example.Foo.leak"]
    # Every word, in a frame, module, thread or verdict, in any case.
    assert ordered("live", wanted="INFLATEinit libz") == ["com.example.Foo.leak"]
    assert ordered("live", wanted="leaker") == ["com.example.Foo.leak"]
    assert ordered("live", wanted="inflate churn") == []


def test_call_paths_newer_than_the_names_are_counted_until_they_have_some() -> None:
    process, _ = leaky()
    late = process.add(native_stack("late_comer"), Leak(rate=10, size=1 << 20, start=12.0))
    watch = Follower(Replay(process, [10.0, 13.0, 30.0]))
    watch.advance()
    watch._due = float("inf")  # no time for names
    view = watch.advance()
    assert view
    assert view.unnamed_bytes == until(process, 13.0).truth(late)[1] > 0
    last = watch.advance()  # the last reading: all frames are named, however long it takes
    assert last
    assert last.unnamed_bytes == 0
    assert last.row(site(last, "late_comer")).live_bytes == process.truth(late)[1]


def writer_with_blocks(count: int) -> LiveFileWriter:
    live = LiveFileWriter(mode=Mode.EXACT)
    module = live.module("/opt/app/libapp.so")
    stack = live.stack(hook("malloc"), native(module, 0x1000))
    live.count(stack, count, count, count * 1000)
    for number in range(count):
        live.block(0x7F0000000000 + 64 * number, 1000, stack, birth=number)
    return live


def test_a_live_file_is_followed_until_its_process_has_ended(tmp_path: Path) -> None:
    path = writer_with_blocks(10).write(tmp_path / "offheap-1-0123456789abcdef.live")
    with contextlib.closing(FollowedLiveFile(path)) as source:
        watch = Follower(source)
        first = watch.advance()
        assert first
        assert not first.over
        assert first.now.live_bytes == 10_000
        assert first.now.rss_bytes > 1 << 20  # this very process
        writer_with_blocks(25).write(path)
        second = watch.advance()
        assert second
        assert second.row(0).live_blocks == 25
        assert first.row(0).live_blocks == 10, "a view never changes"
        ended = writer_with_blocks(30)
        ended.state, ended.stop_monotonic_ns = State.EXITED, time.monotonic_ns()
        ended.write(path)
        path.unlink()  # the recorder does so
        last = watch.advance()
        assert last
        assert last.over
        assert last.info.ended == "exited"
        assert last.row(0).live_blocks == 30
        assert watch.advance() is None


def test_a_bare_live_file_has_the_growth_that_leaks_has_of_it(tmp_path: Path) -> None:
    ended = writer_with_blocks(30)
    ended.state, ended.stop_monotonic_ns = State.EXITED, time.monotonic_ns()
    path = ended.write(tmp_path / "offheap-1-0123456789abcdef.live")
    with contextlib.closing(FollowedLiveFile(path)) as source:
        view = Follower(source).advance()
    assert view
    (suspect,) = ranking(recording.load(path))
    row = view.row(0)
    assert row.growth == suspect.growth_bytes_per_second
    assert row.live_bytes == suspect.site.live_bytes.estimate
    assert row.live_blocks == suspect.site.live_blocks.estimate
    assert view.names.by_birth
    assert live_text.window(view) == "growth: of what survived, by its birth"


@given(st.lists(st.floats(0, 1e18), max_size=300), st.integers(1, 60))
def test_sparklines_have_their_width(values: list[float], width: int) -> None:
    line = live_text.sparkline(values, width)
    assert len(line) == width
    assert set(line) <= set(" ▁▂▃▄▅▆▇█")
    if values and max(values) > 0 and len(values) <= width:
        assert line[-len(values) + values.index(max(values)) or None :][:1] in "█▄"


@given(st.floats(-1e16, 1e16), st.floats(0, 1e16), st.floats(0, 1e16), st.integers(40, 200))
def test_cells_fit_their_columns(estimate: float, below: float, above: float, width: int) -> None:
    growth = Estimate(estimate, estimate - below, estimate + above)
    unit = rate_unit([growth.estimate, growth.low, growth.high])
    assert len(live_text.rate(growth, unit)) <= 13
    assert len(live_text.rate_interval(growth, unit)) <= 16
    assert len(live_text.short_size(abs(estimate))) <= 8
    assert len(live_text.short_duration(abs(estimate) / 1e9)) <= 6
    assert sum(column.width + 1 for column in live_text.columns(width)) < width - 6


def test_sparklines_show_change() -> None:
    assert live_text.sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == "▁▂▃▄▅▆▇█"
    assert live_text.sparkline([100, 100, 100], 5) == "  ▄▄▄"
    grown = live_text.sparkline([1000, 1050, 1100], 3)
    assert grown == "▃▆█"
    assert live_text.sparkline([], 4) == live_text.sparkline([0, 0], 4) == "    "
    peak = [0.0] * 100
    peak[41] = 1.0
    assert "█" in live_text.sparkline(peak, 10)
