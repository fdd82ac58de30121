"""The HTML report's charts, ranges of time and filters, and the address that keeps them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from harness import simulation
from harness.screens.report_pages import GRAPH, LEAK, Open, plain
from offheap.analysis.leaks.leaks import ranking
from offheap.quantities import format_count, format_size
from offheap.recording.model import OwnersOverTime, Recording


def test_history_is_drawn_and_read_off_under_the_cursor(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    assert page.locator("#time canvas").count() == 2
    last = leaking.process["live_bytes"][-1]
    readout = page.locator("#chart-live output")
    leaked = leaking.live["size"][leaking.live["stack"] == 1].sum()
    before, leaks = plain(readout.inner_text()).split("; what leaks ")
    assert before.endswith(f"→ {last / 2**20:.1f} MiB")
    assert leaks.endswith(f"→ {leaked / 2**20:.1f} MiB")
    plot = page.locator("#chart-live .u-over")
    width = plot.bounding_box()["width"]  # type: ignore[index]
    plot.hover(position={"x": width - 2, "y": 20})
    page.locator("#chart-live output", has_text=" at ").wait_for()
    assert plain(readout.inner_text()).startswith(f"{last / 2**20:.1f} MiB at 30.0 s; what leaks ")


def test_owners_of_rss_are_stacked_and_follow_the_range(open_report: Open, leaking: Recording) -> None:
    times = np.linspace(1, 30, 30)
    held = np.outer(times, np.arange(12)) * 2**20
    held[:, 0] = 40 * 2**20
    names = ["java-heap", *(f"<b>{number}" for number in range(10)), "unattributed"]
    owners = OwnersOverTime(times, names, held, held.sum(axis=1))
    page = open_report(dataclasses.replace(leaking, owners=owners))
    assert page.locator("#time canvas").count() == 2  # RSS is the upper edge of the owners
    rows = page.locator(".owners li")
    assert plain(rows.first.inner_text()).split("\n") == ["unattributed", "330 MiB", "+319 MiB"]
    assert "4 others" in plain(rows.last.inner_text())  # the smallest owners, with Java's heap among them
    shown = plain(page.inner_text(".owners"))
    assert "<b>9" in shown
    page.click("text=Last half")
    assert plain(rows.first.inner_text()).split("\n") == ["unattributed", "330 MiB", "+165 MiB"]
    page.click("#theme")
    page.wait_for_timeout(100)  # a chart draws itself a moment after its creation
    colours = page.locator("#chart-owners canvas").evaluate(
        "canvas => new Set(new Uint32Array(canvas.getContext('2d')"
        ".getImageData(canvas.width / 2, 0, 1, canvas.height).data.buffer)).size"
    )
    assert colours > 8  # one for each owner
    page.locator("#chart-owners .u-over").hover(position={"x": 200, "y": 30})
    assert "unattributed" in page.inner_text("#chart-owners output")


def test_a_range_recomputes_totals_table_and_graph(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    plot = page.locator("#chart-live .u-over")
    box = plot.bounding_box()
    assert box
    y = box["y"] + 60
    page.mouse.move(box["x"] + box["width"] / 3, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 2 / 3, y, steps=4)
    page.mouse.up()
    # The leak is the first stack: its bytes at the snapshots nearest to 10 s and 20 s.
    snapshots = {
        round(float(row["time"])): row["live_bytes"] for row in leaking.series if int(row["stack"]) == 1
    }
    rate = (snapshots[20] - snapshots[10]) / 10
    assert plain(page.inner_text("#range")) == "10.0 s to 20.0 s"
    row = plain(page.inner_text("tr.suspect"))
    assert f"{rate / 2**20:.1f} MiB/s" in row
    assert f"{snapshots[20] / 2**20:.1f} MiB" in row
    assert "verdicts are of the whole recording" in page.inner_text("#scoped")
    live = sum({int(row["stack"]): row["live_bytes"] for row in leaking.series if row["time"] <= 20}.values())
    assert plain(page.inner_text("#totals")).startswith(f"{live / 2**20:.1f} MiB live by malloc at 20.0 s")
    page.select_option("#measure", "grown")
    page.fill("#search", "ImageService")
    assert f"({(snapshots[20] - snapshots[10]) / 2**20:.1f} MiB" in plain(page.inner_text("#matched"))
    page.focus("#range-to")
    page.keyboard.press("ArrowRight")
    assert plain(page.inner_text("#range")) == "10.0 s to 21.0 s"
    page.click("#clear")
    assert page.locator("#scoped").is_hidden()


def test_what_comes_and_goes_is_temporary_and_does_not_grow(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    shares = {}
    for measure in ("live", "grown", "allocated", "temporary"):
        page.select_option("#measure", measure)
        page.fill("#search", "Search.index")
        shares[measure] = float(page.inner_text("#matched").split()[0])
    assert shares["temporary"] > 99
    assert shares["grown"] < 10 < shares["allocated"]
    page.click("h1")  # leaves the search field, where m is a letter
    page.keyboard.press("m")
    assert page.input_value("#measure") == "live"


def test_filters_leave_the_stacks_of_a_thread_a_module_or_a_function(
    open_report: Open, leaking: Recording
) -> None:
    page = open_report(leaking)
    held = {stack: leaking.live["size"][leaking.live["stack"] == stack].sum() for stack in (1, 2, 3)}

    def total(**filters: str) -> str:
        for name in ("thread", "module", "only"):
            page.fill(f"#{name}", filters.get(name, ""))
        return plain(page.inner_text("#totals"))

    def size(stacks: Sequence[int]) -> str:
        return f"What the filters leave: {sum(held[stack] for stack in stacks) / 2**20:.1f} MiB live"

    assert total(module="libzip").startswith(size([1, 2]))
    assert total(module="libjvm").startswith(size([3]))
    assert page.locator("tr.suspect >> visible=true").count() == 0  # this filter leaves nothing of the leak
    assert total(only="/^com.*index$/").startswith(size([2]))
    assert total(thread="worker", only="thumbnail").startswith(size([1]))
    assert total(thread="nobody").startswith("What the filters leave: 0 B live")
    page.fill("#thread", "/a(/")
    assert page.get_attribute("#thread", "aria-invalid") == "true"


def test_a_thread_of_a_shared_stack_counts_as_much_as_it_holds(open_report: Open) -> None:
    process = simulation.Process(duration=30, seed=3)
    process.add(simulation.inflater(LEAK), simulation.Leak(rate=200, size=7160))
    recording = process.record(exact=True)
    live = recording.live.copy()
    live["thread"] = np.arange(len(live)) % 4 == 0
    recording = dataclasses.replace(recording, live=live, threads=["Uploader", "Cleaner"])
    page = open_report(recording)
    page.fill("#thread", "cleaner")
    quarter = live["size"][live["thread"] == 1].sum()
    assert f"{quarter / 2**20:.1f} MiB live" in plain(page.inner_text("#totals"))
    page.fill("#thread", "/er$/")
    assert page.locator("#clear").is_visible()
    assert plain(page.inner_text("#totals")).startswith(
        f"Whole recording: {live['size'].sum() / 2**20:.1f} MiB"
    )


def test_an_address_opens_the_same_view(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    page.locator(GRAPH).click(position={"x": 20, "y": 50})
    page.select_option("#measure", "grown")
    page.select_option("#unit", "blocks")
    page.fill("#only", "zip")
    page.fill("#search", "inflateInit2_")
    page.click("text=Last half")
    page.click("#more")
    page.locator("tr.suspect button.open").nth(1).click()
    seen = ["#totals", "#matched", "#zoomed", "tr.suspect >> nth=0", "tr.detail >> nth=1"]
    before = [page.inner_text(selector) for selector in seen]
    assert LEAK in before[2]
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("main[data-ready]")
    assert [page.inner_text(selector) for selector in seen] == before
    assert page.input_value("#measure") == "grown"
    page.keyboard.press("Escape")  # search and zoom
    page.keyboard.press("Escape")  # range and filters
    assert plain(page.inner_text("#totals")).startswith("Whole recording")
    # A mistyped address still opens the report.
    page.goto("about:blank")
    page.goto(
        address.partition("#")[0]
        + "#range=9-2&zoom=99999&measure=%3Cb%3E&open=x,77&only=/a(/&view=sandwich&fn=none"
    )
    page.wait_for_selector("main[data-ready]")
    assert page.input_value("#measure") == "live"
    assert page.locator(".functions li").count() > 5


def test_blocks_are_those_of_the_whole_site_in_any_range(open_report: Open) -> None:
    process = simulation.Process(30.0, seed=2)
    feed = "com.example.Feed.open"
    process.add(simulation.inflater(feed), simulation.Leak(40, 7_160))
    process.add(simulation.inflater(feed, zcalloc=True), simulation.Leak(40, 112))
    recording = process.record(interval=4096, until=30.0)
    page = open_report(recording)
    whole = page.inner_text("tr.suspect td:last-child").split()[0]
    page.goto(page.url + "#range=0-30")
    page.reload()
    page.wait_for_selector("#scope.active")
    assert page.inner_text("tr.suspect td:last-child").split()[0] == whole
    page.click("tr.suspect")
    text = page.inner_text("main").replace("\u00a0", " ")
    assert "malloc, 2 stacks" in text
    site = ranking(recording)[0].site
    assert site.part_shown
    in_bytes, blocks = site.part_shown.live_bytes, site.part_shown.live_blocks
    held = f"{format_size(in_bytes.estimate)} in {format_count(blocks.estimate)} blocks"
    assert f"the stack below holds {held}" in text
