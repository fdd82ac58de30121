"""The HTML page of a recording with Java objects: what leaks, and the switch between both memories."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from harness.recordings.java_beside_native import shop
from harness.screens.report_pages import Open
from offheap.analysis.diff.diff import diff
from offheap.analysis.diff.java_heap import java_diff
from offheap.analysis.java_heap.report import report
from offheap.analysis.leaks.leaks import ranking
from offheap.analysis.page.recording_page import recording_page
from offheap.recording.model import Recording
from offheap.report.html import page as html

recorded = cache(shop)


@pytest.fixture
def page_file(template: Path, tmp_path: Path) -> Path:
    return tmp_path / "report.html"


def written(recording: Recording, path: Path) -> Path:
    path.write_text(html.render(recording_page(recording, ranking(recording), java=report(recording))))
    return path


def test_the_page_says_of_both_memories_whether_they_leak(open_report: Open, page_file: Path) -> None:
    page = open_report(written(recorded(), page_file))
    assert page.inner_text("#compared") == "Native memory leaks, and so does the Java heap."
    assert page.inner_text("#answer h1") == "Yes, it leaks native memory."
    assert page.inner_text("#java-answer h1") == "Yes, it leaks Java objects."
    assert "in use after the last collection" in page.inner_text("#java-answer")
    classes = page.locator(".classes tbody tr").all_inner_texts()
    assert [row.split()[-1] for row in classes] == ["byte[]", "java.lang.String", "com.example.Order"]
    assert page.locator("#chart-java-heap canvas").is_visible()
    assert page.inner_text("#suspects tbody .site .open") == "com.example.Images.decode"
    assert page.inner_text("#java-suspects tbody .site .open") == "com.example.Cart.<init>"
    first = page.locator("#java-suspects ol.stack li").first
    assert first.inner_text().split() == ["new", "byte[]"]


def test_the_switch_shows_one_memory_and_the_address_keeps_it(open_report: Open, page_file: Path) -> None:
    page = open_report(written(recorded(), page_file))
    assert page.input_value("#source") == "malloc"
    page.click("#parts [data-part=java]")
    for hidden in ("#answer", "#time", "#suspects"):
        assert page.locator(hidden).is_hidden(), hidden
    assert page.input_value("#source") == "java"
    assert page.inner_text("#totals").startswith("Whole recording: ")
    assert "malloc" not in page.inner_text("#totals")
    address = page.url
    assert "part=java" in address
    page.reload()
    page.wait_for_selector("main[data-ready]")
    assert page.locator("#answer").is_hidden()
    page.click("#parts [data-part=native]")
    for hidden in ("#java-answer", "#java-heap", "#java-suspects"):
        assert page.locator(hidden).is_hidden(), hidden
    assert page.locator("#suspects").is_visible()
    assert page.input_value("#source") == "malloc"
    page.click("#parts [data-part=both]")
    page.locator("#java-suspects").get_by_text("Find in the flame graph").click()
    assert page.input_value("#source") == "java"
    assert "matched" in page.inner_text("#matched")


def test_a_heap_that_leaks_alone_is_what_the_graph_opens_on(open_report: Open, page_file: Path) -> None:
    page = open_report(written(recorded(False, True), page_file))
    assert page.inner_text("#compared").startswith("The Java heap leaks")
    assert page.input_value("#source") == "java"


def test_the_page_of_a_diff_has_the_java_heap(open_report: Open, page_file: Path) -> None:
    old, new = recorded(False, False), recorded()
    page_file.write_text(html.render_diff(diff(old, new, stacks=True), java_diff(old, new, stacks=True)))
    page = open_report(page_file)
    assert "Live Java objects grew" in page.inner_text("#answer")
    assert "com.example.Cart" not in page.inner_text("#sites")
    assert "com.example.Cart" in page.inner_text("#java-sites")
    assert page.input_value("#memory") == "native"
    page.locator("#java-sites").get_by_text("Find in the flame graph").first.click()
    assert page.input_value("#memory") == "java"
    assert page.inner_text("#matched").startswith("99")
    page.select_option("#memory", "native")
    assert page.inner_text("#matched").startswith("0")
