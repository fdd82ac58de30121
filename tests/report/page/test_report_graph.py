"""The HTML report's flame graph, its inverted view and its view of one function."""

from __future__ import annotations

import re
from typing import Literal

import pytest

from harness import simulation
from harness.screens.report_pages import GRAPH, LEAK, Open, plain
from offheap.analysis.leaks.leaks import suspects
from offheap.quantities import format_size
from offheap.recording.model import Recording


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
    canvas.click(position={"x": 20, "y": 10})  # the root, above the zoomed frame
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
    assert page.locator("#reset").is_disabled()  # the zoomed frame has no mmap memory
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
    process = simulation.Process(duration=30, seed=3)
    behaviour: dict[str, simulation.Behaviour] = {
        "malloc": simulation.Born((0.2,), 9000),
        "mmap": simulation.Born((0.2,), 4 << 30),
    }
    behaviour[leak] = simulation.Leak(rate=200, size=8192)
    process.add(simulation.inflater(LEAK), behaviour["malloc"])
    process.add(simulation.native_stack("map_segment"), behaviour["mmap"], kind=2)
    process.add(simulation.native_stack("reserve_heap"), simulation.Born((0.1,), 4 << 30), kind=2)
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
    # The rest of the page covers both sources.
    assert page.locator("#clear").is_hidden()
    assert plain(page.inner_text("#not-drawn")).startswith("Not drawn: ")
    malloc, mapped = (
        format_size(recording.live["size"][recording.stack_kinds[recording.live["stack"]] == kind].sum())
        for kind in (1, 2)
    )
    assert plain(page.inner_text("#totals")).startswith(
        f"Whole recording: {malloc} live by malloc, {mapped} mapped;"
    )
    assert "#" not in page.url
    page.select_option("#source", "all")
    page.goto(page.url)
    page.reload()
    page.wait_for_selector("main[data-ready]")
    assert page.input_value("#source") == "all"
    assert graph().startswith("all live bytes\n\n")


def test_find_shows_the_kind_of_memory_that_the_suspect_holds(open_report: Open) -> None:
    process = simulation.Process(duration=30, seed=3)
    process.add(simulation.inflater(LEAK), simulation.Leak(rate=200, size=8192))
    process.add(simulation.native_stack("map_segment"), simulation.Leak(rate=20, size=8192), kind=2)
    page = open_report(process.record(exact=True))
    assert page.input_value("#source") == "malloc"
    page.locator("tr.suspect button.open").nth(1).click()
    page.locator("tr.detail").nth(1).get_by_text("Find in the flame graph").click()
    assert page.input_value("#source") == "mmap"
    assert plain(page.inner_text("#matched")).startswith("100 % matched")
    assert "source=mmap" in page.url


def test_a_half_typed_pattern_is_said_to_be_none(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    page.fill("#search", "/a(/")
    assert page.get_attribute("#search", "aria-invalid") == "true"
    assert page.inner_text("#matched") == "not a regular expression"


def test_text_is_found_as_it_stands_and_an_expression_between_slashes(
    open_report: Open, leaking: Recording
) -> None:
    page = open_report(leaking)

    def matched(text: str) -> str:
        page.fill("#search", text)
        return plain(page.inner_text("#matched"))

    assert "1 function)" in matched("os::malloc(unsigned long, MEMFLAGS)")
    assert "nothing is called so; /Inflater.*init/ is a regular expression" in matched("Inflater.*init")
    assert "functions)" in matched("/Inflater.*init/")
    assert "1 function)" in matched(f'"{LEAK}"')
    assert "0 functions)" in matched(f'"{LEAK[:-1]}"')


def test_find_in_the_flame_graph_shows_the_name_and_finds_no_longer_ones(open_report: Open) -> None:
    process = simulation.Process(duration=30, seed=3)
    process.add(simulation.inflater(LEAK), simulation.Leak(rate=200, size=7160))
    process.add(simulation.inflater(f"{LEAK}Cached"), simulation.Churn(rate=300, size=9000, lifetime=1))
    page = open_report(process.record(exact=True))
    page.click("text=Find in the flame graph")
    assert page.input_value("#search") == f'"{LEAK}"'
    assert "1 function)" in page.inner_text("#matched")
    # "Only stacks with it" of a zoomed frame also filters by the name.
    page.focus(GRAPH)
    for key in ("Home", "ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    page.click("text=Only stacks with it")
    assert page.input_value("#only") == f'"{LEAK}"'


def test_the_sandwich_begins_without_the_dimming_of_a_search(open_report: Open, leaking: Recording) -> None:
    pictures = "Array.from(document.querySelectorAll('#sandwich canvas'), (canvas) => canvas.toDataURL())"
    page = open_report(leaking)
    page.click("text=Its callers and callees")
    undimmed = page.evaluate(pictures)
    page.fill("#search", "nothing")
    assert page.evaluate(pictures) != undimmed  # the sandwich shows the matches of a search made in it
    for enter in ("text=Its callers and callees", "key", "select"):
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        page.click("text=Find in the flame graph")
        assert page.input_value("#search") == f'"{LEAK}"'
        if enter == "key":
            page.focus(GRAPH)
            for key in ("Home", "ArrowDown", "ArrowDown", "Enter", "s"):
                page.keyboard.press(key)
        elif enter == "select":
            page.select_option("#view", "sandwich")
            page.fill("#search", "thumbnail")  # the list of functions is filtered
            assert page.locator(".functions li").count() == 1
            page.click(".functions button")
        else:
            page.click(enter)
        assert page.input_value("#search") == ""
        assert page.evaluate(pictures) == undimmed


TREE = "std::_Rb_tree<int, std::pair<int const, app::Thread<char>>, std::less<int>>::emplace(int&&)"


def test_cpp_names_are_folded_as_in_the_terminal_and_whole_on_demand(open_report: Open) -> None:
    process = simulation.Process(duration=30, seed=3)
    process.add(simulation.native_stack("app::remember(int)", TREE), simulation.Leak(rate=200, size=7160))
    page = open_report(process.record(exact=True))
    folded = "std::_Rb_tree<…>::emplace"
    name = page.locator("#suspect-1 .stack .name", has_text="Rb_tree")
    assert (name.inner_text(), name.get_attribute("title")) == (folded, TREE)
    assert page.inner_text("tr.suspect button.open") == "app::remember"
    page.click("#suspect-1 button.fold")
    assert name.inner_text() == TREE
    page.focus("#suspect-1 button.fold")
    page.keyboard.press("Enter")
    assert name.inner_text() == folded
    for text in (folded, "std::less<int>"):
        page.fill("#search", text)
        assert "1 function)" in page.inner_text("#matched")
    page.focus(GRAPH)
    for key in ("Home", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    assert page.inner_text("#flame .tooltip .name >> visible=true") == TREE
    page.keyboard.press("Enter")
    assert page.inner_text("#zoomed .name") == folded


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
