"""The owners panel of `offheap live` and the answer above its table agree with `leaks` and `where`."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.recordings.blocks_and_levels import BLOCKS, LEVELS, MIB, owners, recorded
from harness.recordings.replay import Replay, Whole, leaky
from harness.screens.driven_app import Driven, drive
from harness.simulation import Churn, Process, inflater
from offheap.analysis.leaks.answer import answer
from offheap.analysis.leaks.leaks import ranking
from offheap.analysis.leaks.owners_with_blocks import owners_with_blocks
from offheap.analysis.live.live_owners import with_owners
from offheap.live.follower import Follower
from offheap.recording.model import OwnersOverTime
from offheap.report.tui.widgets import Pager

PID = 4711


def until(over: OwnersOverTime, time: float) -> OwnersOverTime:
    """The looks up to this time."""
    known = over.times <= time
    return replace(over, times=over.times[known], bytes=over.bytes[known], rss=over.rss[known])


@pytest.mark.parametrize(("blocks", "level"), list(itertools.product(BLOCKS, LEVELS)))
def test_live_says_of_a_recording_what_leaks_and_where_say(blocks: str, level: str) -> None:
    recording = recorded(blocks, level)
    ranked = ranking(recording)
    watch = Follower(Whole(recording))
    view = watch.advance()
    assert view
    assert view.names.answer == answer(ranked)
    over, found = watch.owners()
    assert over is recording.owners
    assert ranked.owners
    assert found == owners_with_blocks(ranked.owners, ranked)


def test_a_leak_of_blocks_is_one_in_the_panel_whatever_the_pages_did() -> None:
    process, _ = leaky(60.0)
    watch = Follower(Replay(process, [20.0, 40.0, 60.0]))
    flat, found = owners("malloc", 0.0), None
    for time in (20.0, 40.0, 60.0):
        watch.advance()
        found = watch.see(until(flat, time), PID)
    assert found is not None
    assert found.verdict.kind == "native-malloc"
    assert found.verdict.why.startswith("blocks leak: 1.4 MiB/s")
    assert "called by com.example.Foo.leak; by the pages alone the verdict is stable: " in found.verdict.why


def quiet() -> Process:
    process = Process(120.0, 3)
    process.add(inflater("com.example.Feed.open"), Churn(300, 7160, 0.1))
    return process


def test_pages_that_no_site_explains_are_growth_above_the_table_too() -> None:
    watch = Follower(Replay(quiet(), [20.0, 59.0, 60.0, 61.0, 63.0, 119.0, 120.0]))
    watch.advance()
    before = watch.advance()
    assert before
    assert before.names.answer.startswith("No leak found in ")
    much = owners("malloc", 4.0 * MIB)
    found = watch.see(until(much, 59.0), PID)
    for _ in range(3):
        view = watch.advance()
        assert view
        assert view.names.answer.startswith(
            "Growing, and not shown to be a leak: malloc's memory grew by 240 MiB/min ("
        )
        assert "no site explains it" in view.names.answer
        assert view.names.owners_time == 58.0
    assert found.verdict.kind == "native-malloc"
    assert "no site explains it" in found.verdict.why
    assert str(PID) in " ".join(found.verdict.next)
    # No reading follows: after a while the old readings say nothing about the present.
    late = watch.advance()
    assert late
    assert late.names.answer.startswith("No leak found in ")
    assert late.names.owners_time is None


def test_what_is_counted_beside_owners_says_nothing_about_their_pages() -> None:
    """Without readings only the gauges of a live file are known: metaspace that gains a kilobyte a second."""
    recording = quiet().record(exact=True)
    times = np.linspace(3, 120, 40)
    gauges = {"metaspace-used": 2e7 + 1000 * times, "old-collections": np.floor(times / 10)}
    nothing = np.zeros((len(times), 0))
    recording = replace(recording, owners=OwnersOverTime(times, [], nothing, nothing.sum(axis=1), gauges))
    view = Follower(Whole(recording)).advance()
    assert view
    assert "metaspace" not in view.names.answer
    assert view.names.answer == answer(with_owners(ranking(recording), None))


def test_the_panel_shows_the_verdict_of_both(tmp_path: Path) -> None:
    watch = Follower(Whole(recorded("leak", "flat")))
    view = watch.advance()
    assert view

    async def steps(app: Driven) -> None:
        await app.press("o")
        pager = app.app.screen.query_one(Pager)
        await app.see(lambda: "RSS by owner, 30 readings in 58.0 s: native-malloc" in pager.text)
        text = " ".join(pager.text.split())
        assert "blocks leak: " in text
        assert "com.example.Feed.open; by the pages alone the verdict is stable: nothing above" in text
        assert all(len(line) <= 80 for line in pager.text.splitlines())
        await app.press("escape")
        assert "Leaking: " in app.head

    drive(watch, view, steps, tmp_path, owners=watch.owners)


def test_the_screen_says_how_old_the_readings_are(tmp_path: Path) -> None:
    watch = Follower(Replay(quiet(), [20.0, 59.0, 70.0, 120.0]))
    watch.advance()
    watch.advance()
    watch.see(until(owners("malloc", 4.0 * MIB), 59.0), PID)
    view = watch.advance()
    assert view

    async def steps(app: Driven) -> None:
        assert "RSS by owner: as of 12 s ago" in app.head
        assert "no site explains it" in app.head

    drive(watch, view, steps, tmp_path, size=(160, 40))
