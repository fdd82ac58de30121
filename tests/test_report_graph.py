"""The HTML report's flame graph, its inverted view and its view of one function."""

from __future__ import annotations

import re
from typing import Literal

import pytest

import recordings
from offheap.analysis.leaks import suspects
from offheap.quantities import format_size
from offheap.recording.model import Recording
from report_pages import GRAPH, LEAK, Open, plain


def test_the_flame_graph_answers_to_the_keyboard(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    total = leaking.live["size"].sum()
    page.keyboard.press("/")
    page.keyboard.type("ImageService")
    leaked = leaking.live["size"][leaking.live["stack"] == 1].sum()
    matched = plain(page.inner_text("#matched"))
    assert matched.startswith(f"{100 * leaked / total:.1f} % matched ({leaked / 2**20:.1f} MiB, 1 function)")
    page.focus(GRAPH)
    page.keyboard.press("ArrowDown")  # the largest child of the root
    assert page.inner_text(".tooltip .name") == "java.lang.Thread.run"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.inner_text(".tooltip .name") == LEAK
    assert page.inner_text("#matched").startswith("100")
    page.keyboard.press("Escape")
    assert page.input_value("#search") == ""
    assert page.locator("#reset").is_disabled()


def test_the_flame_graph_answers_to_the_mouse(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    canvas = page.locator(GRAPH)
    height = canvas.bounding_box()["height"]  # type: ignore[index]
    canvas.hover(position={"x": 20, "y": 30})  # the second row: below the root
    assert page.inner_text(".tooltip .name") == "java.lang.Thread.run"
    canvas.click(position={"x": 20, "y": 50})
    assert page.locator("#reset").is_enabled()
    assert page.inner_text(".tooltip .name") == LEAK
    canvas.click(position={"x": 20, "y": 10})  # the root, above what is zoomed
    assert page.locator("#reset").is_disabled()
    assert canvas.bounding_box()["height"] == height  # type: ignore[index]


def test_inverted_puts_the_allocator_on_top_and_another_measure_changes_the_total(
    open_report: Open, leaking: Recording
) -> None:
    page = open_report(leaking)

    def described(*keys: str) -> str:
        page.focus(GRAPH)
        for key in ("Home", *keys):
            page.keyboard.press(key)
        return plain(page.inner_text(".tooltip"))

    assert described().startswith("all live bytes")
    page.select_option("#view", "inverted")
    assert described("ArrowDown").startswith("malloc\n")
    page.select_option("#unit", "blocks")
    assert f"{len(leaking.live):,} blocks" in described()


def test_a_source_without_a_stack_weighs_nothing(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    page.locator(GRAPH).click(position={"x": 20, "y": 50})
    page.select_option("#source", "mmap")
    assert page.locator("#reset").is_disabled()  # what was zoomed holds none of it
    page.focus(GRAPH)
    page.keyboard.press("Home")
    assert "0 B" in plain(page.inner_text(".tooltip"))
    page.select_option("#source", "malloc")
    page.focus(GRAPH)
    page.keyboard.press("ArrowDown")
    assert page.inner_text(".tooltip .name") == "java.lang.Thread.run"


@pytest.mark.parametrize("leak", ["malloc", "mmap"])
def test_the_flame_graph_opens_on_what_leaks_not_on_reservations(
    open_report: Open, leak: Literal["malloc", "mmap"]
) -> None:
    process = recordings.Process(duration=30, seed=3)
    behaviour: dict[str, recordings.Behaviour] = {
        "malloc": recordings.Born((0.2,), 9000),
        "mmap": recordings.Born((0.2,), 4 << 30),
    }
    behaviour[leak] = recordings.Leak(rate=200, size=8192)
    process.add(recordings.inflater(LEAK), behaviour["malloc"])
    process.add(recordings.native_stack("map_segment"), behaviour["mmap"], kind=2)
    process.add(recordings.native_stack("reserve_heap"), recordings.Born((0.1,), 4 << 30), kind=2)
    recording = process.record(exact=True)
    page = open_report(recording)
    first = suspects(recording)[0]
    assert (first.verdict, page.input_value("#source")) == ("leak", leak)

    def graph() -> str:
        page.focus(GRAPH)
        page.keyboard.press("Home")
        return plain(page.inner_text(".tooltip"))

    ofkind = recording.stack_kinds[recording.live["stack"]] == (1 if leak == "malloc" else 2)
    held = format_size(recording.live["size"][ofkind].sum())
    assert graph().startswith(f"all live bytes by {leak}\n\n{held}")
    # The rest of the page is about both.
    assert page.locator("#clear").is_hidden()
    assert plain(page.inner_text("#not-drawn")).startswith("Not drawn: ")
    assert plain(page.inner_text("#totals")).startswith(
        f"Whole recording: {format_size(recording.live['size'].sum())}"
    )
    assert "#" not in page.url
    page.select_option("#source", "all")
    page.goto(page.url)
    page.reload()
    page.wait_for_selector("main[data-ready]")
    assert page.input_value("#source") == "all"
    assert graph().startswith("all live bytes\n\n")


def test_find_shows_the_kind_of_memory_that_the_suspect_holds(open_report: Open) -> None:
    process = recordings.Process(duration=30, seed=3)
    process.add(recordings.inflater(LEAK), recordings.Leak(rate=200, size=8192))
    process.add(recordings.native_stack("map_segment"), recordings.Leak(rate=20, size=8192), kind=2)
    page = open_report(process.record(exact=True))
    assert page.input_value("#source") == "malloc"
    page.locator("tr.suspect button.open").nth(1).click()
    page.locator("tr.detail").nth(1).get_by_text("Find in the flame graph").click()
    assert page.input_value("#source") == "mmap"
    assert plain(page.inner_text("#matched")).startswith("100 % matched")
    assert "source=mmap" in page.url


def test_a_half_typed_pattern_is_said_to_be_none(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    page.fill("#search", "a(")
    assert page.get_attribute("#search", "aria-invalid") == "true"
    assert page.inner_text("#matched") == "not a regular expression"


def test_find_in_the_flame_graph_searches_the_blamed_function(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    page.click("text=Find in the flame graph")
    assert page.input_value("#search") == f"^{re.escape(LEAK)}$"
    assert "1 function" in page.inner_text("#matched")


def test_a_function_stands_between_its_callers_and_its_callees(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    page.select_option("#view", "sandwich")
    page.locator(".functions .name", has_text=re.compile(r"^java\.util\.zip\.Inflater\.<init>$")).click()
    both = leaking.live["size"][leaking.live["stack"] < 3].sum()
    assert f"{both / 2**20:.1f} MiB" in plain(page.inner_text(".between"))
    callers, callees = page.locator("#sandwich canvas").all()
    callers.focus()
    page.keyboard.press("ArrowUp")  # the caller that holds most, one row up
    assert page.inner_text("#sandwich .tooltip >> visible=true").startswith(LEAK)
    callees.focus()
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#sandwich .tooltip >> visible=true").startswith("java.util.zip.Inflater.init")
    page.keyboard.press("Escape")
    assert page.input_value("#view") == "callers"
