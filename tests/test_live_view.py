"""`offheap live`: the model over simulated processes, the app by its keys, and both on a real JVM."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

import zoo as zoo_programs
from live_file_writer import LiveFileWriter, hook, native
from offheap.analysis.owners_verdict import judge
from offheap.analysis.results import Estimate
from offheap.analysis.watched import View
from offheap.analysis.watching import Watch
from offheap.cli.live import owners_of
from offheap.jvm import probe
from offheap.recording import live_files
from offheap.recording.contract import Mode, State
from offheap.recording.following import FollowedDirectory, FollowedLiveFile, follow
from offheap.recording.look import Look
from offheap.recording.model import OwnersOverTime, Recording
from offheap.report import live_text
from offheap.report.live import LiveApp
from offheap.report.live_owners import Owners
from offheap.report.live_screens import HelpScreen, SiteScreen
from offheap.report.live_widgets import Lines, Pager, SiteTable
from recordings import Blocks, Cache, Churn, Leak, Process, inflater, native_stack
from waiting_jvm import waiting_jvm

OFFHEAP = [sys.executable, "-m", "offheap"]


def until(process: Process, time: float) -> Process:
    """The process as it was at that time."""
    past = Process(duration=time, seed=process.seed)
    past.stacks, past.kinds, past.threads = process.stacks, process.kinds, process.threads
    past.blocks = [
        Blocks(b.births[b.births <= time], b.deaths[b.births <= time], b.sizes[b.births <= time])
        for b in process.blocks
    ]
    return past


@dataclass
class Replay:
    """A source whose looks find a simulated process at these times, every block recorded."""

    process: Process
    times: list[float]
    exact: bool = True
    _now: Recording | None = None

    def look(self) -> Look | None:
        if not self.times:
            return None
        self._now = until(self.process, self.times.pop(0)).record(exact=self.exact, snapshots=1)
        its = self._now
        over = not self.times
        info = replace(its.info, ended="exited" if over else "recording")
        return Look(info, False, over, its.live, its.series, its.process)

    def recording(self) -> Recording:
        assert self._now
        return self._now


def watched(process: Process, times: list[float], *, exact: bool = True) -> tuple[Watch, View]:
    watch = Watch(Replay(process, list(times), exact))
    views = [watch.advance() for _ in times]
    assert views[-1]
    return watch, views[-1]


def site(view: View, name: str) -> int:
    found = [n for n, suspect in enumerate(view.names.suspects) if suspect.blamed.name == name]
    assert len(found) == 1, [suspect.blamed.name for suspect in view.names.suspects]
    return found[0]


def leaky(duration: float = 30.0, seed: int = 1) -> tuple[Process, int]:
    process = Process(duration=duration, seed=seed)
    leak = process.add(inflater("com.example.Foo.leak"), Leak(rate=200, size=7160), thread="leaker")
    process.add(native_stack("churn_buffers"), Churn(rate=2000, size=65536, lifetime=0.2))
    process.add(native_stack("fill_cache"), Cache(rate=500, size=4096, capacity=2000))
    return process, leak


def test_figures_of_an_exact_recording_are_exact() -> None:
    process, leak = leaky()
    watch, view = watched(process, [float(t) for t in range(1, 31)])
    row = view.row(site(view, "com.example.Foo.leak"))
    assert (row.live_blocks, row.live_bytes) == process.truth(leak)
    assert view.now.live_bytes == pytest.approx(sum(process.truth(n)[1] for n in range(1, 4)))
    # The window is the last two thirds of what was watched.
    assert view.window == pytest.approx(29 * 2 / 3, abs=1)
    then = until(process, 30 - view.window)
    grown = process.truth(leak)[1] - then.truth(leak)[1]
    assert row.growth.estimate == pytest.approx(grown / view.window)
    assert row.growth.low == row.growth.high
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
    watch = Watch(Replay(process, [5.0, 10.0, 12.0, 20.0]))
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
        # One draw of which blocks are sampled: the same blocks are known in every look.
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
        watch = Watch(Sampled(process, [10.0, 30.0]))
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


class Sampled(Replay):
    """Of a process that has sampled blocks only: each with the probability it was sampled with."""

    def look(self) -> Look | None:
        look = super().look()
        if look is None or self._now is None:
            return look
        live, series = look.live, look.series.copy()
        live["probability"] = -np.expm1(-live["size"].astype(float) / (512 * 1024))
        weight = 1 / live["probability"]
        for row in series:
            of = live["stack"] == row["stack"]
            size = live["size"][of].astype(float)
            row["live_bytes"] = (size * weight[of]).sum()
            row["live_bytes_variance"] = (size**2 * (weight[of] - 1) * weight[of]).sum()
            row["live_blocks"] = weight[of].sum()
        info = replace(look.info, mode="sampled", interval_bytes=512 * 1024)
        self._now = replace(self._now, info=info, live=live, series=series)
        return replace(look, info=info, live=live, series=series)


def test_a_long_watch_keeps_few_moments_evenly_and_the_last_is_now() -> None:
    process, leak = leaky(600.0)
    process.blocks = [Blocks(b.births[::50], b.deaths[::50], b.sizes[::50]) for b in process.blocks]
    times = [float(t) for t in range(1, 601, 2)]
    _, view = watched(process, times)
    taken = [moment.time for moment in view.moments]
    assert taken[0] == 1.0
    assert taken[-1] == times[-1]
    assert 20 <= len(taken) <= 48
    gaps = np.diff(taken[:-1])
    assert gaps.max() <= 2.5 * gaps.min()
    assert view.row(site(view, "com.example.Foo.leak")).live_blocks == until(process, 599.0).truth(leak)[0]


def test_order_and_filter() -> None:
    process, _ = leaky()
    _, view = watched(process, [10.0, 20.0, 30.0])

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
    watch = Watch(Replay(process, [10.0, 13.0, 30.0]))
    watch.advance()
    watch._due = float("inf")  # no time for names
    view = watch.advance()
    assert view
    assert view.unnamed_bytes == until(process, 13.0).truth(late)[1] > 0
    last = watch.advance()  # nothing comes after: named whatever it takes
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
        watch = Watch(source)
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
        path.unlink()  # as the recorder does
        last = watch.advance()
        assert last
        assert last.over
        assert last.info.ended == "exited"
        assert last.row(0).live_blocks == 30
        assert watch.advance() is None


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
    assert len(live_text.rate(growth)) <= 13
    assert len(live_text.rate_interval(growth)) <= 16
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


# The app ---------------------------------------------------------------------------------------


@dataclass
class Driven:
    """An app under test with short names for what tests ask of it."""

    app: LiveApp
    pilot: Pilot[None]
    folder: Path = field(default_factory=Path)

    @property
    def head(self) -> str:
        return self.app.main.query_one("#head", Lines).text

    @property
    def keys(self) -> str:
        return self.app.screen.query_one("#keys", Lines).text

    @property
    def table(self) -> SiteTable:
        return self.app.main.query_one(SiteTable)

    @property
    def rows(self) -> list[str]:
        return [line for line in self.table.text.splitlines()[1:] if line.strip()]

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def see(self, what: Callable[[], bool], seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, f"waited in vain:\n{self.head}\n{self.table.text}"
            await asyncio.sleep(0.05)


def drive(
    watch: Watch,
    view: View,
    steps: Callable[[Driven], Awaitable[None]],
    folder: Path,
    *,
    size: tuple[int, int] = (80, 24),
    every: float = 3600.0,
    owners: Owners | None = None,
) -> None:
    async def run() -> None:
        app = LiveApp(watch, view, every=every, folder=folder, owners=owners)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await steps(Driven(app, pilot, folder))

    asyncio.run(run())


def unfinished(process: Process) -> tuple[Watch, View]:
    """Watched for 30 s of many."""
    watch = Watch(Replay(process, [10.0, 20.0, 30.0, 40.0, 50.0]))
    views = [watch.advance() for _ in range(3)]
    assert views[-1]
    return watch, views[-1]


def test_the_first_screen_fits_80_by_24_without_colour(tmp_path: Path) -> None:
    async def steps(app: Driven) -> None:
        head = app.head.splitlines()
        assert head[0].startswith("PID 4711")
        assert head[0].endswith("recording, 30 s")
        assert any(line.startswith("Leaking: ") for line in head)
        assert any(line.startswith("RSS ") and "█" in line for line in head)
        assert any(line.startswith("malloc ") and "+" in line for line in head)
        assert "3 sites  growth: over the last 10 s" in app.head
        title = app.table.text.splitlines()[0]
        assert title.split() == ["live", "growth▾", "95", "%", "interval", "age", "over", "time", "site"]
        # The verdict and the cursor are characters, not colours.
        assert app.rows[0].startswith(">! ")
        assert app.rows[0].endswith("Foo.leak")
        assert "q quit" in app.keys
        assert all(len(line) <= 80 for line in (*head, *app.table.text.splitlines(), app.keys))

    drive(*unfinished(leaky(60.0)[0]), steps, tmp_path)


def test_keys_filter_sort_and_drill(tmp_path: Path) -> None:
    async def steps(app: Driven) -> None:
        await app.press("down")
        assert app.rows[1].startswith(">")
        await app.press("slash", *"CHURN")
        assert len(app.rows) == 1
        assert "1 of 3 sites  filter: CHURN" in app.head
        await app.press("enter")
        assert app.app.focused is app.table
        await app.press("slash", *" no")
        assert "no site has these words" in app.table.text
        await app.press("escape")
        await app.press("escape")
        assert len(app.rows) == 3
        for sort in ("live", "blocks", "age", "allocated", "name"):
            await app.press("s")
            assert f"sorted by {sort}" in app.keys
        assert [row.split()[-1] for row in app.rows] == ["churn_buffers", "fill_cache", "Foo.leak"]
        await app.press("r")
        assert app.rows[0].endswith("Foo.leak")
        await app.press("home", "enter")
        assert isinstance(app.app.screen, SiteScreen)
        text = app.app.screen.query_one(Pager).text
        assert "LEAK, confidence" in text
        assert "threads    leaker" in text
        assert "native  inflateInit2_  libz.so.1" in text
        assert "> java    com.example.Foo.leak" in text
        assert all(len(line) <= 80 for line in text.splitlines())
        # The end of a stack that is longer than the screen.
        assert "java.lang.Thread.run" not in text or "by age" in text
        await app.press("end")
        assert "java.lang.Thread.run" in app.app.screen.query_one(Pager).text
        await app.press("e")
        assert "wrote" in app.keys
        await app.press("escape", "question_mark")
        assert isinstance(app.app.screen, HelpScreen)
        await app.press("escape")
        assert not isinstance(app.app.screen, HelpScreen)
        (exported,) = app.folder.glob("live-4711-*.txt")
        text = exported.read_text()
        assert "java.util.zip.Inflater.init" in text
        assert "java.lang.Thread.run" in text

    drive(*unfinished(leaky(60.0)[0]), steps, tmp_path)


def test_baseline_pause_and_export(tmp_path: Path) -> None:
    process, _ = leaky(60.0)
    watch, view = unfinished(process)

    async def steps(app: Driven) -> None:
        await app.press("b")
        assert "baseline marked" in app.keys
        await app.press("space")
        assert "PAUSED" in app.head
        before = app.table.text
        newer = watch.advance()
        assert newer
        app.app.main.renew(newer)
        assert app.table.text == before
        await app.press("space")
        assert "PAUSED" not in app.head
        assert app.table.text != before
        assert "growth: since the baseline, 10 s ago" in app.head
        await app.press("B")
        assert "no baseline" in app.keys
        await app.press("e")
        (path,) = app.folder.glob("live-4711-*.csv")
        assert str(path) in app.keys
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        assert rows[0]["site"] == "com.example.Foo.leak"
        assert int(rows[0]["live_bytes"]) == until(process, 40.0).truth(1)[1]
        assert "inflateInit2_" in rows[0]["stack"]
        app.app.main._folder = app.folder / "gone"
        await app.press("e")
        assert "cannot be written" in app.keys
        last = watch.advance()
        assert last
        app.app.main.renew(last)
        await app.press("b")
        assert "nothing more comes" in app.keys

    drive(watch, view, steps, tmp_path)


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (160, 50), (40, 12)])
def test_every_size_is_filled_and_not_exceeded(size: tuple[int, int], tmp_path: Path) -> None:
    async def steps(app: Driven) -> None:
        await app.pilot.resize_terminal(*size)
        await app.pilot.pause()
        width, _ = size
        assert app.table.size.width == width
        assert app.table.size.height >= 3
        lines = [*app.head.splitlines(), *app.table.text.splitlines(), app.keys]
        assert all(len(line) <= width for line in lines)
        assert "Foo.leak" in app.rows[0]
        assert "Leaking" in app.head
        assert "q quit" in app.keys
        assert ("interval" in app.table.text) == (width >= 72)
        await app.press("down", "down", "down", "enter")
        assert isinstance(app.app.screen, SiteScreen)
        pager = app.app.screen.query_one(Pager)
        assert all(len(line) <= width for line in pager.text.splitlines())

    drive(*unfinished(leaky(60.0)[0]), steps, tmp_path)


def test_a_hostile_name_does_not_steer_the_terminal(tmp_path: Path) -> None:
    process = Process(duration=60.0, seed=3)
    process.add(native_stack("evil\x1b]0;owned\x07\u202ename[bold]"), Leak(rate=50, size=9000), thread="a\nb")

    async def steps(app: Driven) -> None:
        await app.press("enter")
        text = app.head + app.table.text + app.app.screen.query_one(Pager).text
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "\\x1b" in text
        assert "[bold]" in text

    drive(*unfinished(process), steps, tmp_path)


# Real processes --------------------------------------------------------------------------------


@pytest.fixture
def leaking_jvm(
    zoo: zoo_programs.Zoo, jre: Callable[[int], Path], probe_library: Path, tmp_path: Path
) -> Iterator[zoo_programs.Running]:
    command = zoo.command(zoo_programs.programs()["inflaters"], jre(17), 400)
    variables = {"LD_PRELOAD": str(probe_library), "OFFHEAP": f"interval=65536,dir={tmp_path}"}
    with zoo_programs.Running(command, variables) as running:
        yield running


def test_a_real_jvm_is_watched_to_its_end(leaking_jvm: zoo_programs.Running, tmp_path: Path) -> None:
    (found,) = live_files.inside(tmp_path)
    with contextlib.closing(follow(found.path)) as source:
        watch = Watch(source)
        view = watch.advance()
        assert view

        async def steps(app: Driven) -> None:
            await app.see(lambda: app.rows[0].startswith(">!") and "Inflaters." in app.rows[0])
            assert "Inflater.init" in " ".join(app.head.split())
            await app.press("enter")
            await app.press("end")
            assert "leaks.Inflaters.handleUpload" in app.app.screen.query_one(Pager).text
            await app.press("escape", "o")
            pager = app.app.screen.query_one(Pager)
            await app.see(lambda: "2 looks" in pager.text)
            lines = pager.text.splitlines()
            titles = {line[:25].strip() for line in lines if "iB" in line[25:35]}
            assert {"Java heap", "malloc", "RSS"} <= titles
            assert all(len(line) <= 80 for line in lines)
            os.kill(leaking_jvm.pid, signal.SIGKILL)
            await app.see(lambda: "no more looks" in app.keys)
            assert "Java heap" in pager.text
            await app.press("escape")
            await app.see(lambda: "process was killed" in app.head)
            assert "Inflaters." in app.rows[0]

        drive(watch, view, steps, tmp_path, every=0.25, owners=owners_of(found.path))
    assert owners_of(found.path) is None, "its process has ended"


def test_owners_of_a_recording_are_those_that_its_recorder_saw(tmp_path: Path) -> None:
    over = OwnersOverTime(
        np.arange(40.0),
        ["java-heap", "malloc"],
        np.array([[64.0 * 2**20, (10.0 + n) * 2**20] for n in range(40)]),
        np.array([(74.0 + n) * 2**20 for n in range(40)]),
    )

    async def steps(app: Driven) -> None:
        await app.press("o")
        pager = app.app.screen.query_one(Pager)
        await app.see(lambda: "RSS by owner, 40 looks in 39.0 s" in pager.text)
        # Wrapped sentences apart, this is what a person sees at 80 columns.
        table = pager.text[pager.text.index("owner  ") :].splitlines()
        assert table[1].split()[:4] == ["Java", "heap", "64", "MiB"]
        malloc = next(line for line in table if "49 MiB" in line)
        assert "+1.0 MiB/s" in malloc
        assert malloc.endswith("█")
        assert table[-1].split()[:3] == ["RSS", "113", "MiB"]
        await app.press("escape")
        assert app.rows[0].startswith(">!")

    drive(*unfinished(leaky(60.0)[0]), steps, tmp_path, owners=lambda: (over, judge(over)))


def test_owners_that_nobody_looked_for_are_said_to_be_missing(tmp_path: Path) -> None:
    async def steps(app: Driven) -> None:
        await app.press("o")
        assert "nobody looked who held its RSS" in app.keys

    drive(*unfinished(leaky(60.0)[0]), steps, tmp_path)


def test_a_recording_is_watched_while_it_is_written(
    zoo: zoo_programs.Zoo, jre: Callable[[int], Path], probe_library: Path, tmp_path: Path
) -> None:
    output = tmp_path / "zip.offheap"
    program = zoo.command(zoo_programs.programs()["inflaters"], jre(17), 400)
    recorder = zoo_programs.offheap("run", "--interval", "64k", "--every", "300ms", "-o", output, "--")
    with zoo_programs.Running([*recorder, *program]) as running:
        running.truths(1)
        source = FollowedDirectory(output)
        watch = Watch(source)
        deadline = time.monotonic() + 60
        views: list[View] = []
        while len(views) < 2 or views[-1].now.time < views[0].now.time + 1:
            assert time.monotonic() < deadline
            source._due = 0.0
            view = watch.advance()
            views += [view] if view else []
            time.sleep(0.2)
        assert not views[-1].over
        running.exit()
    source._due = 0.0
    last = watch.advance()
    assert last
    assert last.over
    assert last.info.ended == "exited"
    assert any("Inflater" in frame.name for frame in last.names.suspects[0].site.stack)
    assert watch.advance() is None


@dataclass
class Terminal:
    """A command on a terminal of 80 by 24; what it writes is collected."""

    arguments: list[str]

    def __enter__(self) -> Terminal:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TEXTUAL")}
        self.process = subprocess.Popen(
            [*OFFHEAP, *self.arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environment, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(slave)
        self._read = bytearray()
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)
        self._reader.join(30)
        os.close(self.master)

    @property
    def text(self) -> str:
        """Without the escape sequences."""
        return re.sub(r"\x1b\[[0-9;?<>=$]*[A-Za-z]", "", self._read.decode(errors="replace"))

    def see(self, what: str, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while what not in self.text:
            assert time.monotonic() < deadline, f"no {what!r} in:\n{self.text}"
            assert self.process.poll() is None or what in self.text, self.text
            time.sleep(0.05)

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def _collect(self) -> None:
        with contextlib.suppress(OSError):
            while piece := os.read(self.master, 65536):
                self._read += piece


@pytest.mark.usefixtures("probe_library")
def test_attach_watches_and_leaves_the_jvm_clean(
    jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        pid = str(jvm.pid)
        with Terminal(["live", pid]) as refused:
            assert refused.process.wait(60) == 2
            time.sleep(0.2)
            assert f"there is no probe recording in PID {pid}" in refused.text
            assert "--attach" in refused.text
        for leave in ("q", signal.SIGTERM, signal.SIGHUP):
            with Terminal(["live", pid, "--attach", "--interval", "16k", "-o", str(tmp_path)]) as terminal:
                terminal.see("q quit")
                present = probe.loaded(jvm.pid)
                assert present
                assert present.live_file
                if isinstance(leave, str):
                    terminal.press(leave)
                else:
                    terminal.process.send_signal(leave)
                assert terminal.process.wait(60) == 0, terminal.text
                terminal.see(f"the probe is out of PID {pid} again")
            left = probe.loaded(jvm.pid)
            assert left
            assert left.live_file is None
            assert not present.live_file.exists()
            assert jvm.answers()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["4711"], "needs a terminal"),
        (["4711", "--interval", "0"], "--interval 0 means nothing"),
        (["4711", "--exact"], "are for --attach alone"),
        (["4711", "--budget", "1%"], "are for --attach alone"),
        (["4711", "--every", "0"], "--every 0 means nothing"),
        (["4711", "-o", "/no/such/folder"], "is not a folder"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], said: str) -> None:
    outcome = subprocess.run([*OFFHEAP, "live", *arguments], capture_output=True, text=True, timeout=60)
    assert outcome.returncode == 2
    assert said in outcome.stderr
    assert outcome.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such.offheap"], "does not exist"),
        (["/etc"], "is not a recording"),
        (["/etc/passwd"], "is not a live file"),
        (["./x.offheap", "--attach"], "is a recording, not a process"),
        (["NoSuchMainClass"], "no JVM has"),
    ],
)
def test_bad_targets_are_one_line(arguments: list[str], said: str) -> None:
    with Terminal(["live", *arguments]) as terminal:
        assert terminal.process.wait(60) == 2
        terminal.see(said, 5)
        assert "Traceback" not in terminal.text
