"""The HTML report's table of sites: its pages, sites of one name, and figures that must agree."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from harness import simulation
from harness.screens.report_pages import LEAK, Open, plain
from offheap.analysis.diff.diff import diff
from offheap.analysis.leaks.leaks import ranking, suspects
from offheap.analysis.page import recording_page as recording_page_module
from offheap.analysis.page.recording_page import recording_page
from offheap.recording.model import Recording
from offheap.report.html import page as html
from offheap.report.html.payload import payload


@pytest.fixture(scope="module")
def many() -> Recording:
    """Three leaks, two of them by one method, and 80 sites that come and go."""
    process = simulation.Process(duration=30, seed=3)
    for caller in ("com.example.Nightly.importAll", "com.example.Admin.importOne"):
        process.add(
            simulation.inflater(LEAK, "com.example.Retry.again", caller), simulation.Leak(rate=100, size=7160)
        )
    process.add(simulation.native_stack("slow_leak"), simulation.Leak(rate=10, size=900))
    for number in range(80):
        process.add(
            simulation.inflater(f"com.example.Part{number}.work"),
            simulation.Churn(rate=20 + number, size=3000, lifetime=1),
        )
    return process.record(exact=True)


def test_more_than_thirty_sites_are_paged(open_report: Open, many: Recording) -> None:
    ranked = suspects(many)
    assert len(ranked) == 83
    page = open_report(many)
    rows = page.locator("tr.suspect")
    assert rows.count() == 3
    assert page.locator(".pager").is_hidden()
    page.click("#more")
    seen = []
    for first, last in ((1, 30), (31, 60), (61, 83)):
        assert page.inner_text(".pager .place") == f"{first}–{last} of 83 sites"
        seen += [int(rank) for rank in rows.locator(".rank").all_inner_texts()]
        page.focus("[aria-label='Next page']")
        page.keyboard.press("Enter")  # this has no effect on the last page
    assert seen == list(range(1, 84))
    assert page.evaluate("document.activeElement.ariaLabel") == "Next page"
    page.locator("tr.suspect button.open").last.focus()
    page.keyboard.press("Enter")
    assert page.locator("#suspect-83").is_visible()
    # The address restores the page and the open site; an older address without a page finds the site.
    address = page.url
    assert "page=3" in address
    for again in (address, re.sub("&?page=3", "", address)):
        page.goto("about:blank")
        page.goto(again)
        page.wait_for_selector("main[data-ready]")
        assert page.locator("#suspect-83").is_visible()
    # A filter leaves fewer pages.
    page.fill("#only", "Part7")
    assert rows.count() == 11
    assert page.locator(".pager").is_hidden()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.click("[aria-label='First page']")
    assert rows.locator(".rank").first.inner_text() == "1"


def test_sites_beyond_the_bound_are_said_to_be_left_out(
    open_report: Open, many: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert recording_page_module.MOST_SUSPECTS == 2000
    assert open_report(many).locator("#left-out").count() == 0
    monkeypatch.setattr(recording_page_module, "MOST_SUSPECTS", 40)
    page = open_report(many)
    said = "The table has the first 40 sites; the other 43 are in the flame graph only."
    assert page.inner_text("#left-out") == said
    page.click("#more")
    assert page.inner_text(".pager .place") == "1–30 of 40 sites"


def test_sites_of_a_diff_are_paged(open_report: Open, many: Recording, tmp_path: Path) -> None:
    old = simulation.Process(duration=30, seed=3)
    old.add(simulation.native_stack("gone"), simulation.Leak(rate=10, size=900))
    path = tmp_path / "diff.html"
    found = diff(old.record(exact=True), many, stacks=True)
    html.write_diff(found, path)
    page = open_report(path)
    if page.locator("#more").is_visible():
        page.click("#more")
    told = page.locator("tr.suspect .apart").all_inner_texts()
    assert {"called by com.example.Admin.importOne", "called by com.example.Nightly.importAll"} <= set(told)
    count = sum(site.change != "same" for site in found.sites)
    assert page.inner_text(".pager .place") == f"1–30 of {count} sites"
    page.click("[aria-label='Last page']")
    assert page.locator("tr.suspect").count() == count % 30


def test_two_sites_of_one_name_show_their_callers(open_report: Open, many: Recording) -> None:
    page = open_report(many)
    told = page.locator("tr.suspect .apart").all_inner_texts()
    assert sorted(told) == [
        "called by com.example.Admin.importOne",
        "called by com.example.Nightly.importAll",
    ]
    first = suspects(many)[0].site.stack
    caller = next(frame.name for frame in first if ".import" in frame.name)
    assert f"Inflater.<init>, called by {caller}, grows by" in plain(page.inner_text("#answer"))


@pytest.mark.parametrize(("blocks", "unit"), [(40, "s"), (7, "min")])
def test_all_rates_of_a_page_have_one_unit(open_report: Open, blocks: int, unit: str) -> None:
    process = simulation.Process(duration=30, seed=3)
    process.add(simulation.inflater(LEAK), simulation.Leak(rate=blocks, size=7160))
    # Alone these sites would have rates by the minute and by the hour.
    process.add(simulation.native_stack("slow_leak"), simulation.Leak(rate=10, size=900))
    process.add(simulation.native_stack("slower_leak"), simulation.Leak(rate=2, size=50))
    recording = process.record(exact=True)
    page = open_report(recording)
    if page.locator("#more").is_visible():
        page.click("#more")
    while (closed := page.locator("button.open[aria-expanded='false']")).count():
        closed.first.click()
    rates = re.findall(r"[KMG]?i?B/(s|min|h)\b", plain(page.inner_text("main")))
    assert len(rates) >= 8  # in the answer, the figures, the table and the reasons
    assert set(rates) == {unit}
    ranked = ranking(recording)
    assert recording_page(recording, ranked).rate_unit == recording_page(recording, ranked[:]).rate_unit


def test_the_chart_of_malloc_has_no_address_space_in_it(open_report: Open) -> None:
    process = simulation.Process(duration=30, seed=3)
    leak = process.add(simulation.inflater(LEAK), simulation.Leak(rate=200, size=8192))
    process.add(simulation.native_stack("churn"), simulation.Churn(rate=200, size=8192, lifetime=1))
    process.add(simulation.native_stack("reserve_heap"), simulation.Born((0.1, 20.0), 1 << 30), kind=2)
    recording = process.record(exact=True)
    data = payload(recording_page(recording, ranking(recording)))["process"]
    both = np.array(data["malloc_bytes"]) + np.array(data["mapped_bytes"])
    assert both.tolist() == recording.process["live_bytes"].round().tolist()
    assert data["mapped_bytes"][-1] == 2 << 30
    assert data["malloc_suspected"][-1] == process.truth(leak)[1]
    assert max(data["mapped_suspected"]) == 0
    page = open_report(recording)
    assert page.locator("#chart-mapped").count() == 0
    titles = page.locator("#chart-live figcaption > span").all_inner_texts()
    assert titles == ["Live by malloc", "what leaks"]
    malloc = recording.live["size"][recording.live["stack"] < 3].sum()
    assert f"→ {malloc / 2**20:.1f} MiB; what leaks" in plain(page.inner_text("#chart-live output"))


def test_the_axis_of_bytes_begins_at_zero(open_report: Open) -> None:
    """RSS from 100 to 108 MiB fills the chart and has a slight slope."""
    process = simulation.Process(duration=30, seed=3)
    process.add(simulation.inflater(LEAK), simulation.Leak(rate=40, size=7160))
    recording = process.record(exact=True)
    rss = recording.process.copy()
    rss["rss_bytes"] = (np.linspace(100, 108, len(rss)) * 2**20).astype(np.uint64)
    page = open_report(dataclasses.replace(recording, process=rss))
    opacity = page.evaluate(
        """() => {
            const canvas = document.querySelector("#chart-rss canvas");
            const [x, y] = [canvas.width * 0.3, canvas.height * 0.5].map(Math.round);
            const { data } = canvas.getContext("2d").getImageData(x, y, 3, 3);
            return Array.from(data).filter((_value, index) => index % 4 === 3);
        }"""
    )
    assert len(opacity) == 9
    assert min(opacity) > 0, "the area below the line begins at the axis of time"


def test_an_open_site_says_what_bounds_a_cache_that_fills(open_report: Open) -> None:
    process = simulation.Process(duration=120, seed=1)
    stack = (simulation.MALLOC, simulation.native("page1Alloc", "libsqlitejdbc.so"), simulation.java(LEAK))
    process.add(stack, simulation.WarmUp(6000, 8192, 40.0))
    process.add(simulation.native_stack("slow_leak"), simulation.Leak(rate=10, size=900))
    process.collections = [(float(time), "full") for time in range(5, 120, 10)]
    recording = process.record(exact=True)
    page = open_report(recording)
    while (closed := page.locator("button.open[aria-expanded='false']")).count():
        closed.first.click()
    said = "Next: if it is a cache, compare with what bounds SQLite: PRAGMA cache_size."
    assert page.locator("p.next").all_inner_texts() == [said]
