"""The HTML report on every screen and on paper, by keyboard, and with twenty thousand stacks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from harness import simulation
from harness.screens.report_pages import Open, plain, with_stacks
from offheap.analysis.leaks.leaks import suspects
from offheap.analysis.page.recording_page import recording_page
from offheap.recording.model import Frame, Recording
from offheap.report.html import page as html

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_until_the_reader_chooses(
    open_report: Open, leaking: Recording, scheme: str
) -> None:
    page = open_report(leaking, color_scheme=scheme)
    other = {"light": "dark", "dark": "light"}[scheme]
    assert page.get_attribute("html", "data-theme") == scheme
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") == other
    page.reload()
    page.wait_for_selector("main[data-ready]")
    assert page.get_attribute("html", "data-theme") == other


def test_a_telephone_needs_no_sideways_scrolling(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking, viewport={"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("#suspect-1 .stack").bounding_box()["width"] <= 390  # type: ignore[index]


def test_paper_gets_no_controls(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    page.emulate_media(media="print")
    assert page.locator("#theme").is_hidden()
    assert page.locator("#search").is_hidden()
    assert page.locator("#suspect-1 .stack").is_visible()


def test_keys_are_listed_and_act(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("m")  # the dialog blocks this key
    page.keyboard.press("Escape")
    assert page.locator("#help").is_hidden()
    assert page.input_value("#measure") == "live"
    page.keyboard.press("i")
    page.keyboard.press("b")
    assert (page.input_value("#view"), page.input_value("#unit")) == ("inverted", "blocks")
    page.keyboard.press("h")
    assert plain(page.inner_text("#range")) == "15.0 s to 30.0 s"
    page.focus("#search")
    page.keyboard.type("mib")
    assert page.input_value("#search") == "mib"
    assert page.input_value("#unit") == "blocks"
    page.keyboard.press("Escape")  # clears the search and leaves its field
    page.keyboard.press("b")
    assert (page.input_value("#search"), page.input_value("#unit")) == ("", "bytes")


def test_twenty_thousand_stacks_open_in_two_seconds_and_take_less_than_five_megabytes(
    browser: Browser, template: Path, tmp_path: Path
) -> None:
    random = np.random.default_rng(1)
    methods = [
        Frame(f"com.example.package{i % 60}.Component{i % 900}.operation{i}", "java", "", "C.java", i % 500)
        for i in range(8000)
    ]
    trunks = [[methods[j] for j in random.integers(0, 8000, 14)] for _ in range(300)]
    stacks = [
        [simulation.MALLOC, *(methods[j] for j in random.integers(0, 8000, 16)), *trunks[i % 300]]
        for i in range(20_000)
    ]
    recording = with_stacks(stacks, blocks=60_000, snapshots=20)
    ranked = suspects(with_stacks(stacks[:500], blocks=1500))  # judging 20,000 sites is not timed here
    path = tmp_path / "large.html"
    assert html.write(recording_page(recording, ranked), path) < 5_000_000
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    metrics = page.context.new_cdp_session(page)
    # The page's own thread time: other processes use this machine too.
    metrics.send("Performance.enable", {"timeDomain": "threadTicks"})

    def cpu_seconds() -> float:
        found = metrics.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in found if each["name"] == "TaskDuration"))

    page.goto(path.as_uri())
    page.wait_for_selector("main[data-ready]")
    opened = cpu_seconds()
    assert opened < 2
    page.click("text=Last half")
    page.wait_for_selector("#scope.active")
    assert cpu_seconds() - opened < 1
    page.fill("#search", "operation77")
    assert "functions" in page.inner_text("#matched")
    page.close()
