"""The HTML page of a diff, in a browser."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from harness import simulation
from harness.screens.report_pages import GRAPH, HOSTILE, LEAK, Open, plain
from offheap.analysis.diff.diff import diff
from offheap.analysis.diff.results import Diff
from offheap.errors import UserError
from offheap.report.html import page as html


@pytest.fixture(scope="module")
def grown() -> Diff:
    """OLD leaks slowly and expands images; NEW leaks faster, has a new cache and expands no images."""
    old, new = simulation.Process(duration=30, seed=4), simulation.Process(duration=30, seed=5)
    old.add(simulation.inflater(LEAK), simulation.Leak(rate=50, size=7160))
    new.add(simulation.inflater(LEAK), simulation.Leak(rate=200, size=7160))
    old.add(simulation.native_stack("expand_image"), simulation.Leak(rate=100, size=9000))
    new.add(simulation.native_stack("cache_put"), simulation.Leak(rate=30, size=9000))
    new.add(simulation.native_stack(HOSTILE[1]), simulation.Leak(rate=1, size=9000))
    return diff(old.record(exact=True), new.record(exact=True), stacks=True)


def test_a_diff_says_what_changed_and_lists_the_certain_first(
    open_report: Open, grown: Diff, tmp_path: Path
) -> None:
    path = tmp_path / "diff.html"
    html.write_diff(grown, path)
    page = open_report(path)
    change = grown.live_bytes.change.estimate
    assert f"Live malloc memory grew by {change / 2**20:.1f} MiB" in plain(page.inner_text("#answer h1"))
    changes = page.locator("tr.suspect .badge").all_inner_texts()
    assert changes == [site.change for site in grown.sites if site.significant]
    assert {"grown", "new", "gone"} <= set(changes)
    row = plain(page.locator("tr.suspect", has_text=LEAK).inner_text())
    site = next(site for site in grown.sites if site.blamed.name == LEAK)
    assert f"+{site.live_bytes.change.estimate / 2**20:.1f} MiB" in row
    assert page.locator("img, main script").count() == 0  # the hostile name adds none
    # A page of a diff may be overwritten, a foreign file may not.
    html.write_diff(grown, path)
    path.write_text("mine")
    with pytest.raises(UserError, match="not an offheap report"):
        html.write_diff(grown, path)


def test_a_differential_flame_graph_colours_growth_red_and_novelty_blue(
    open_report: Open, grown: Diff, tmp_path: Path
) -> None:
    html.write_diff(grown, tmp_path / "diff.html")
    page = open_report(tmp_path / "diff.html")

    def colour(function: str) -> tuple[int, int, int]:
        """The colour of the zoomed frame; at most the frame and its caller have neighbours."""
        page.keyboard.press("Escape")
        page.focus(GRAPH)
        for first, second in itertools.product(range(2), range(3)):
            keys = ["Home", "ArrowDown", *["ArrowRight"] * first, "ArrowDown", *["ArrowRight"] * second]
            for key in keys:
                page.keyboard.press(key)
            if page.inner_text(".tooltip .name") == function:
                page.keyboard.press("Enter")
                return pixel()
        raise AssertionError(function)

    def pixel() -> tuple[int, int, int]:
        top = page.locator(".flame-outline").evaluate("outline => parseFloat(outline.style.top) + 3")
        found = page.locator(GRAPH).evaluate(
            "(canvas, y) => Array.from(canvas.getContext('2d')"
            ".getImageData(2, y * canvas.width / canvas.clientWidth, 1, 1).data)",
            top,
        )
        return found[0], found[1], found[2]

    red, green, blue = colour(LEAK)
    assert red > max(green, blue) + 40
    assert "→" in page.inner_text(".tooltip")
    red, green, blue = colour("expand_image")
    assert green > max(red, blue) + 20
    red, green, blue = colour("cache_put")
    assert blue > max(red, green) + 20
    page.keyboard.press("Escape")
    page.select_option("#width", "old")
    page.fill("#search", "cache_put")
    assert plain(page.inner_text("#matched")) == "0.0 % matched (0 B)"
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("main[data-ready]")
    assert page.input_value("#width") == "old"
    assert plain(page.inner_text("#matched")) == "0.0 % matched (0 B)"
    page.focus("#search")
    page.keyboard.press("Escape")
    page.keyboard.press("i")
    assert (page.input_value("#search"), page.input_value("#view")) == ("", "inverted")
