"""The screens of `offheap live`, driven by keys, over simulated processes."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from harness.recordings.replay import leaky, unfinished, until
from harness.screens.driven_app import Driven, drive
from harness.simulation import Leak, Process, inflater, native_stack
from offheap.analysis.owners.verdict import judge
from offheap.recording.model import OwnersOverTime
from offheap.report.tui.screens import HelpScreen, SiteScreen
from offheap.report.tui.widgets import Lines, Pager


def test_the_first_screen_fits_80_by_24_without_colour(tmp_path: Path) -> None:
    async def steps(app: Driven) -> None:
        head = app.head.splitlines()
        assert head[0].startswith("PID 4711")
        assert head[0].endswith("recording, 30 s")
        assert any(line.startswith("Leaking: ") for line in head)
        assert any(line.startswith("RSS ") and "█" in line for line in head)
        assert any(line.startswith("malloc ") and "+" in line for line in head)
        assert "3 sites  growth: of what survived, by its birth, as of 20 s ago" in app.head
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
        # A key leads to the end of a stack that is longer than the screen.
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
        assert "the recording has ended" in app.keys

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
        # An entry that does not fit is left out whole.
        keys = app.app.screen.query_one("#keys", Lines).text
        assert len(keys) <= width
        assert set(keys.split("  ")) <= {"Esc back", "e export", "up down pgup pgdn scroll"}
        assert (
            "growth" not in app.head or "growth: of what survived, by its birth, as of 20 s ago" in app.head
        )

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


@pytest.mark.parametrize("start", ["=", "+", "-", "@", " =", "\t=", "\r@", "\n+", "\u3000-", "＝"])
def test_a_hostile_name_is_no_formula(start: str, tmp_path: Path) -> None:
    process = Process(duration=60.0, seed=3)
    process.add(native_stack(f'{start}HYPERLINK("http://evil","a,b")'), Leak(rate=50, size=9000))

    async def steps(app: Driven) -> None:
        await app.press("e")
        (path,) = app.folder.glob("live-*.csv")
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        site = rows[0]["site"]
        assert site.endswith('HYPERLINK("http://evil","a,b")')
        # No formula begins after an escaped blank: a tab is written as \\x09.
        assert site.startswith(("'", "\\"))
        assert site.startswith("'") == (start.strip("\t\r\n\u3000") == start)
        assert not [
            cell for row in rows for cell in row.values() if cell.lstrip().startswith(("=", "+", "@"))
        ]

    drive(*unfinished(process), steps, tmp_path)


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
        await app.see(lambda: "RSS by owner, 40 readings in 39.0 s" in pager.text)
        # Without the wrapped sentences, this is the view of a user at 80 columns.
        table = pager.text[pager.text.index("owner  ") :].splitlines()
        assert table[1].split()[:4] == ["Java", "heap", "64", "MiB"]
        malloc = next(line for line in table if "49 MiB" in line)
        assert "+1.0 MiB/s" in malloc
        assert malloc.endswith("█")
        assert table[-1].split()[:3] == ["RSS", "113", "MiB"]
        await app.press("escape")
        assert app.rows[0].startswith(">!")

    drive(*unfinished(leaky(60.0)[0]), steps, tmp_path, owners=lambda: (over, judge(over)))


def test_owners_that_nobody_read_are_said_to_be_missing(tmp_path: Path) -> None:
    async def steps(app: Driven) -> None:
        await app.press("o")
        assert "the owners of its RSS were not read" in app.keys

    drive(*unfinished(leaky(60.0)[0]), steps, tmp_path)


@pytest.mark.parametrize("width", [80, 100, 160, 60])
def test_two_sites_of_one_name_show_their_callers(width: int, tmp_path: Path) -> None:
    process = Process(duration=60.0, seed=3)
    name = "com.example.shop.PriceImport.openFeed"
    for caller in ("com.example.shop.Nightly.importAll", "com.example.shop.Admin.importOne"):
        process.add(inflater(name, "com.example.shop.Retry.again", caller), Leak(rate=90, size=9000))
    process.add(inflater("com.example.shop.Images.open", "com.example.shop.Main.run"), Leak(10, 9000))

    async def steps(app: Driven) -> None:
        await app.pilot.resize_terminal(width, 24)
        await app.pilot.pause()
        assert any("importAll" in row for row in app.rows)
        assert any("importOne" in row for row in app.rows)
        other = next(row for row in app.rows if "Images.open" in row)
        assert ("←" in other) == (width >= 100)
        await app.press("enter")
        heading = app.app.screen.query_one(Pager).text.replace("\n", " ")
        assert "PriceImport.openFeed ← " in " ".join(heading.split())

    drive(*unfinished(process), steps, tmp_path)


def test_cpp_names_are_folded_and_whole_at_a_key(tmp_path: Path) -> None:
    whole = "std::_Rb_tree<int, std::pair<int const, app::Thread<char>>, std::less<int>>::emplace(int&&)"
    process = Process(duration=60.0, seed=3)
    process.add(native_stack(whole, "app::remember(int)"), Leak(rate=50, size=9000))

    async def steps(app: Driven) -> None:
        await app.pilot.resize_terminal(120, 40)
        await app.press("enter")
        pager = app.app.screen.query_one(Pager)
        assert "std::_Rb_tree<…>::emplace" in pager.text
        assert "std::less" not in pager.text
        assert "app::remember(" not in pager.text
        assert "f full" in app.keys
        await app.press("f")
        assert whole in pager.text
        assert "f fold" in app.keys
        await app.press("e")
        (exported,) = app.folder.glob("live-4711-*.txt")
        assert whole in exported.read_text()

    drive(*unfinished(process), steps, tmp_path)
