"""One quantity has one value everywhere: in text, JSON, TUI, page, diff, ticket and Python."""

from __future__ import annotations

import contextlib
import io
import json as standard_json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import offheap
from harness.command_line import offheap as command_line
from harness.jvms.zoo import Running, Zoo, programs
from harness.recordings.replay import Whole
from harness.screens.driven_app import Driven, drive
from harness.screens.terminal import Terminal
from harness.simulation import MALLOC, Churn, Leak, Process, WarmUp, inflater, java, native, native_stack
from harness.warm_command import warm
from offheap import recording as recordings_on_disk
from offheap.analysis.diff.diff import diff, diff_in_time
from offheap.analysis.gate.gate import Limits, gate
from offheap.analysis.leaks.answer import answer
from offheap.analysis.leaks.leaks import Ranking, ranking
from offheap.analysis.leaks.ticket import ticket
from offheap.analysis.live.view import View
from offheap.analysis.page.recording_page import recording_page
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.totals.stats import stats
from offheap.analysis.totals.summary import summary
from offheap.analysis.totals.totals import live_by_kind
from offheap.analysis.totals.tree import Node, tree
from offheap.api import OpenedRecording
from offheap.live.follower import Follower
from offheap.quantities import format_count, format_size
from offheap.recording.capture.live_source import follow
from offheap.recording.model import MMAP, Recording
from offheap.report.html.payload import payload
from offheap.report.json import schemas
from offheap.report.json.check import check_json
from offheap.report.terminal.recording import check
from offheap.report.terminal.recording import diff as diff_report
from offheap.report.terminal.recording.leaks import print_leaks
from offheap.report.ticket import fragment, markdown, plain
from offheap.report.ticket import ticket as ticket_report
from offheap.report.tui import live_text

FEED, TABLE = "com.example.Feed.open", "com.example.Table.grow"
# A blank stands before the unit: a command has 1MiB/min, which is a limit.
_RATE = re.compile(r"\d [KMGT]?i?B/(s|min|h|d)\b")
_NUMBER = r"([\d,.]+ ?[KMGT]?i?B?)"


def shop(exact: bool) -> Recording:
    """A leak by two call paths of one site, 1.4 MiB/s, one of 60 KiB/s, churn and a mapping."""
    process = Process(30.0, seed=4)
    process.add(inflater(FEED), Leak(200, 7160))
    process.add(inflater(FEED, zcalloc=True), Leak(200, 112))
    process.add(inflater(TABLE), Leak(60, 1024))
    process.add(native_stack("churn"), Churn(400, 20_000, 0.3))
    process.add((native("mmap", ""), native("map_file")), Leak(0.5, 1 << 20), kind=MMAP)
    recorded = process.record(exact=exact) if exact else process.record(interval=16384)
    return replace(recorded, info=replace(recorded.info, ended="exited"))


@pytest.fixture(scope="module")
def on_disk(
    jre: Callable[[int], Path], zoo: Zoo, probe_library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A recording of a real leak: an Inflater's two blocks, by two call paths."""
    path = tmp_path_factory.mktemp("truth") / "inflaters.offheap"
    command = zoo.command(programs()["inflaters"], jre(17))
    with Running(command_line("run", "--interval", "16KiB", "-o", path, "--", *command)) as running:
        time.sleep(8)
        running.stop_leaking()
        assert running.exit() == 0, running.errors
    return path


@pytest.fixture(scope="module", params=["exact", "sampled", "real"])
def recorded(request: pytest.FixtureRequest) -> tuple[Recording, Path | None]:
    """A recording, and its path on disk."""
    if request.param != "real":
        return shop(request.param == "exact"), None
    path: Path = request.getfixturevalue("on_disk")
    return recordings_on_disk.load(path), path


@pytest.fixture
def found(recorded: tuple[Recording, Path | None]) -> Ranking:
    return ranking(recorded[0])


@pytest.fixture
def view(recorded: tuple[Recording, Path | None]) -> Iterator[View]:
    its, path = recorded
    with contextlib.closing(follow(path)) if path else contextlib.nullcontext(Whole(its)) as source:
        view = Follower(source).advance()
        assert view
        yield view


def printed(write: Callable[[Console], None]) -> str:
    out = Console(file=io.StringIO(), soft_wrap=True, highlight=False, markup=False, emoji=False)
    write(out)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def parts(value: Estimate | dict[str, float | None], digits: int = 0) -> tuple[float | None, ...]:
    """Estimate, low and high; None without an upper end."""
    three = value.values() if isinstance(value, dict) else (value.estimate, value.low, value.high)
    return tuple(None if part is None or part == float("inf") else round(part, digits) for part in three)


def near(value: Estimate | dict[str, float | None]) -> Any:
    return pytest.approx(parts(value, 9), rel=2e-5, abs=1)


def leaks_text(its: Recording, found: Ranking) -> str:
    counts = found.counts()
    shown = found[: counts["leak"] + counts["growing"]]
    return printed(lambda out: print_leaks(out, shown, answer(found), stats(its), counts, found.rate_unit))


def in_words(value: Estimate, write: Callable[[float], str]) -> str:
    if value.low == value.high:
        return write(value.estimate)
    high = "or more" if value.high == float("inf") else f"to {write(value.high)}"
    return f"{write(value.estimate)} ({write(value.low)} {high})"


def test_bytes_and_blocks_of_a_site_are_those_of_all_its_stacks(
    recorded: tuple[Recording, Path | None], found: Ranking, view: View
) -> None:
    its, _ = recorded
    first = found[0]
    site = first.site
    assert first.verdict == "leak"
    assert len(site.paths) > 1
    own = its.live[[row["stack"] in site.stacks for row in its.live]]
    weight = 1 / own["probability"]
    assert site.live_blocks.estimate == pytest.approx(weight.sum())
    assert site.live_bytes.estimate == pytest.approx((own["size"] * weight).sum())
    for name in ("live_bytes", "live_blocks"):
        assert getattr(site, name).estimate == pytest.approx(
            sum(getattr(path, name).estimate for path in site.paths)
        )
    # JSON.
    value = schemas.suspect(first)
    for name in ("live_bytes", "live_blocks", "allocated_bytes", "allocated_blocks"):
        assert parts(value[name]) == parts(getattr(site, name)), name
        of_summary = next(held.site for held in summary(its).held if held.site.stack == site.stack)
        assert getattr(of_summary, name) == getattr(site, name), name
    # Text: live bytes and blocks of the site, and the share of the stack shown.
    text = " ".join(leaks_text(its, found).split())
    in_bytes, blocks = in_words(site.live_bytes, format_size), in_words(site.live_blocks, format_count)
    part = site.paths[0]
    shown = f"{in_words(part.live_bytes, format_size)} in {in_words(part.live_blocks, format_count)} blocks"
    assert f"live {in_bytes} in {blocks} blocks; the call path shown holds {shown}" in text
    # The page, and its flame graph.
    page = payload(recording_page(its, found))
    on_page = page["suspects"][0]
    assert parts(on_page["live_bytes"], 9) == near(site.live_bytes)
    assert parts(on_page["live_blocks"], 9) == near(site.live_blocks)
    assert parts(on_page["part_shown"]["live_blocks"], 9) == near(part.live_blocks)
    for name in ("live_bytes", "live_blocks"):
        graph = sum(page["stacks"][name][stack] for stack in on_page["stacks"])
        assert graph == pytest.approx(on_page[name]["estimate"], rel=1e-4)
    # The terminal view.
    row = view.row(0)
    assert row.suspect.site.stacks == site.stacks
    assert (row.live_bytes, row.live_blocks) == pytest.approx(
        (site.live_bytes.estimate, site.live_blocks.estimate)
    )
    assert [parts(each) for each in view.live_now(0)] == [parts(site.live_bytes), parts(site.live_blocks)]
    assert row.allocated == pytest.approx(site.allocated_bytes.estimate)
    assert f"live       {in_bytes} in {blocks} blocks" in "\n".join(live_text.site_lines(row, view, 0))
    # A diff: the end of the recording is the same memory.
    late = diff_in_time(its, its.info.duration_seconds / 2)
    for compared in (diff(its, its), late):
        change = next(one for one in compared.sites if one.blamed == first.blamed)
        assert parts(change.live_bytes.new) == parts(site.live_bytes)
        assert parts(change.live_blocks.new) == parts(site.live_blocks)
    # The tree: all stacks of the site share this caller, and no other site has it.
    node = next(each for each in nodes(tree(its, 0.0).roots) if each.frame.name == first.blamed.name)
    assert parts(node.live_bytes) == parts(site.live_bytes)
    assert node.live_blocks == pytest.approx(site.live_blocks.estimate)
    # Python and the ticket.
    opened = OpenedRecording(its)
    assert opened.suspects[0].site == site
    assert opened.sql("SELECT live_blocks, live_blocks_low FROM sites WHERE rank = 1").fetchall() == [
        (site.live_blocks.estimate, site.live_blocks.low)
    ]
    page_of_it = markdown.write(ticket_report.document(ticket(its, found)))
    assert f"Live: {in_bytes} in {blocks} blocks; the call path shown holds {shown}." in page_of_it
    sheet = ticket_report.value(ticket(its, found))
    assert sheet["suspects"][0] == value
    held = next(one for one in sheet["held"] if one["blamed"] == value["blamed"])
    assert (held["live_bytes"], held["live_blocks"]) == (value["live_bytes"], value["live_blocks"])


def nodes(roots: tuple[Node, ...]) -> Iterator[Node]:
    for node in roots:
        yield node
        yield from nodes(node.children)


def test_growth_has_one_interval(recorded: tuple[Recording, Path | None], found: Ranking, view: View) -> None:
    its, _ = recorded
    judged = gate(its, Limits(max_growth=1.0)).checks[0]
    page = payload(recording_page(its, found))["suspects"]
    for number, suspect in enumerate(found):
        growth = suspect.growth_bytes_per_second
        assert view.names.suspects[number].site.stacks == suspect.site.stacks
        assert view.row(number).growth == growth, "leaks and live"
        assert view.names.suspects[number].confidence == suspect.confidence
        assert parts(schemas.suspect(suspect)["growth_bytes_per_second"], 3) == parts(growth, 3)
        assert parts(page[number]["growth_bytes_per_second"], 9) == near(growth)
        gated = [one for one in judged.suspects if one.rank == suspect.rank]
        assert [one.growth_bytes_per_second for one in gated] in ([], [growth])
    unit = found.rate_unit
    first = found[0].growth_bytes_per_second
    text = " ".join(leaks_text(its, found).split())
    assert f"growth {in_words(first, unit.format)}" in text
    assert text.startswith(f"Leaking: {unit.format(first.estimate)} ")
    assert view.names.answer == answer(found)
    assert f"{live_text.rate(first, unit)} (" in "\n".join(live_text.site_lines(view.row(0), view, 0))


def test_totals_are_the_same_in_every_report(recorded: tuple[Recording, Path | None], view: View) -> None:
    its, _ = recorded
    live = live_by_kind(its)
    figures = stats(its)
    assert figures.live == summary(its).live == tree(its).live == ticket(its).stats.live == live
    assert figures.live_bytes == summary(its).live_bytes == tree(its).live_bytes
    assert parts(diff(its, its).live_bytes.new) == parts(figures.live_bytes)
    page = payload(recording_page(its, ranking(its)))
    assert parts(page["malloc_bytes"], 9) == near(live.malloc_bytes)
    assert parts(page["mapped_bytes"], 9) == near(live.mapped_bytes)
    assert (view.malloc_bytes[-1], view.mapped_bytes) == pytest.approx(
        (live.malloc_bytes.estimate, live.mapped_bytes.estimate), rel=1e-6, abs=1
    )
    assert sum(ranking(its).counts().values()) == figures.sites
    # The last value of the charts is the headline's.
    assert page["process"]["malloc_bytes"][-1] == pytest.approx(live.malloc_bytes.estimate, rel=0.02)
    assert page["process"]["mapped_bytes"][-1] == pytest.approx(live.mapped_bytes.estimate, rel=0.02)


def test_all_rates_of_an_output_have_one_unit_of_time(
    recorded: tuple[Recording, Path | None], found: Ranking, view: View, tmp_path: Path
) -> None:
    its, _ = recorded
    unit = found.rate_unit.name
    assert units(leaks_text(its, found)) == {unit}
    assert units(standard_json.dumps([schemas.suspect(one) for one in found])) <= {unit}
    assert units(markdown.write(ticket_report.document(ticket(its, found)))) == {unit}
    assert payload(recording_page(its, found))["rate_unit"]["name"] == unit
    for limits in (Limits(max_growth=1.0), Limits(leaks=True)):
        checked = gate(its, limits)
        assert units(printed(lambda out, checked=checked: check.print_gate(out, checked))) == {"min"}  # type: ignore[misc]
    for per_second, expected in ((True, {"s"}), (False, set())):
        compared = diff_in_time(its, its.info.duration_seconds / 2, per_second=per_second)
        written = printed(lambda out, compared=compared: diff_report.print_diff(out, compared))  # type: ignore[misc]
        assert units(written) == expected

    async def steps(app: Driven) -> None:
        assert units(app.head + app.table.text) == {unit}
        await app.press("enter")
        assert units("\n".join(live_text.site_lines(view.row(0), view, 0))) == {unit}

    drive(Follower(Whole(its)), view, steps, tmp_path, size=(120, 40))


def units(text: str) -> set[str]:
    return set(_RATE.findall(text))


def test_the_commands_print_these_figures(on_disk: Path) -> None:
    path = on_disk
    first = ranking(recordings_on_disk.load(path))[0]

    def run(*arguments: str | Path) -> str:
        done = warm(*arguments)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    leaks = standard_json.loads(run("leaks", path, "--json"))["suspects"][0]
    held = standard_json.loads(run("summary", path, "--json"))["sites"]
    (of_summary,) = [one for one in held if one["stack"] == leaks["stack"]]
    compared = standard_json.loads(run("diff", path, path, "--json"))["sites"]
    (of_diff,) = [one for one in compared if one["blamed"] == leaks["blamed"]]
    gated = standard_json.loads(run("check", path, "--max-growth", "1KiB/min", "--json"))
    (of_check, *_) = gated["recordings"][0]["checks"][0]["sites"]
    of_ticket = standard_json.loads(run("report", path, "-o", "-", "--format", "json"))["suspects"][0]
    of_python = schemas.suspect(offheap.open(path).suspects[0])
    assert leaks == schemas.suspect(first) == of_ticket == of_python
    for name in ("live_bytes", "live_blocks"):
        assert of_summary[name] == leaks[name]
        assert parts(of_diff[name]["new"]) == parts(leaks[name])
    for name in ("live_bytes", "growth_bytes_per_second", "confidence"):
        assert of_check[name] == leaks[name]
    text = " ".join(run("leaks", path).split())
    live = re.search(rf"live {_NUMBER} \({_NUMBER} to {_NUMBER}\) in {_NUMBER}", text)
    assert live, text
    assert live[1] == format_size(leaks["live_bytes"]["estimate"])
    assert live[4].rstrip() == format_count(leaks["live_blocks"]["estimate"])


def test_every_command_that_names_the_application_takes_its_packages(on_disk: Path) -> None:
    """With the JDK's packages as the application, each names the JDK method that called the native one."""
    path, said = str(on_disk), ("--app", "java.util.zip")
    init = "java.util.zip.Inflater.<init>"

    def run(*arguments: str) -> str:
        done = warm(*arguments)
        assert done.returncode in (0, 1), done.stderr
        return " ".join(done.stdout.split())

    for command in (
        ("leaks", path),
        ("diff", path, path, "--all", "--top", "999"),
        ("diff", path, "--from", "2s", "--all"),
        ("where", path),
        ("report", path, "--format", "txt", "-o", "-"),
    ):
        assert "Inflater.<init>, called by leaks.Inflaters.openInflater" in run(*command), command
        assert f"java.util.zip.Inflater.init, called by {init}" in run(*command, *said), command
    for command in (("summary", path), ("check", path)):
        assert run(*command, *said) != run(*command)
    with Terminal(["live", path, *said]) as terminal:
        terminal.see("called by")
        terminal.see("java.util.zip.Inflater.<init>; confidence")
        terminal.press("q")
    opened = offheap.open(path, "java.util.zip")
    assert opened.suspects[0].blamed.name == init
    assert offheap.open(path, ["com.acme", "java.util.zip"]).answer == opened.answer
    for misplaced in (("where", str(os.getpid())), ("where", "--all")):
        done = warm(*misplaced, *said)
        assert done.returncode == 2
        assert "--app" in done.stderr


def rocks() -> Recording:
    """The block cache of a known library, which fills ever more slowly."""
    process = Process(120, 1)
    cache = (
        MALLOC,
        native("rocksdb::LRUCacheShard::Insert", "librocksdbjni-linux64.so"),
        java("org.rocksdb.RocksDB.get"),
        java("com.example.Orders.find"),
        java("java.lang.Thread.run"),
    )
    process.add(cache, WarmUp(6000, 8192, 40.0))
    process.collections = [(float(time), "full") for time in range(5, 120, 10)]
    return process.record(exact=True)


def test_every_report_names_the_setting_that_bounds_a_cache_that_fills(tmp_path: Path) -> None:
    its = rocks()
    found = ranking(its)
    first = found[0]
    assert first.verdict == "growing"
    assert first.next.startswith(
        "if it is a cache, compare with what bounds RocksDB: the block cache's capacity (set"
    )
    assert (
        schemas.suspect(first)["next"]
        == payload(recording_page(its, found))["suspects"][0]["next"]
        == first.next
    )
    page = ticket(its, found)
    for written in (
        leaks_text(its, found),
        plain.write(ticket_report.document(page)),
        markdown.write(ticket_report.document(page)).replace("\\", ""),
        unescape(fragment.write(ticket_report.document(page))),
    ):
        assert first.next in " ".join(written.split())
    watch = Follower(Whole(its))
    view = watch.advance()
    assert view
    assert f"next       {first.next}" in live_text.site_lines(view.row(0), view, 0)


def test_no_two_suspects_in_json_have_one_headline() -> None:
    """One method opens feeds for two callers: one leaks, for the other a cache fills."""
    process = Process(60, 1)
    process.add(inflater("com.example.Feed.open", "com.example.Prices.load"), Leak(40, 7160))
    process.add(inflater("com.example.Feed.open", "com.example.Images.load"), WarmUp(2000, 7160, 20.0))
    process.add(inflater("com.example.Shop.serve", "com.example.Main.main"), Leak(10, 7160))
    recording = process.record(interval=16 << 10)
    info = replace(recording.info, process_age=600.0, after_collection=True)
    recording = replace(recording, info=info)
    found = ranking(recording)
    its = "java.util.zip.Inflater.<init>, called by com.example."
    expected = {
        ("leak", f"{its}Feed.open ← com.example.Prices.load"),
        ("growing", f"{its}Feed.open ← com.example.Images.load"),
        ("leak", f"{its}Shop.serve"),
    }
    gated = check_json([gate(recording, Limits(max_growth=1.0))], "failed", [])
    lists = (
        list(schemas.suspects(found)),
        ticket_report.value(ticket(recording, found))["suspects"],
        gated["recordings"][0]["checks"][0]["sites"],
    )
    for listed in lists:
        assert {(one["verdict"], one["headline"]) for one in listed} == expected
