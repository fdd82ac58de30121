"""The Java heap beside native memory in the reports at a terminal and in JSON."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from harness.paths import ROOT
from harness.recordings.java_beside_native import shop
from harness.recordings.replay import Whole
from harness.screens.driven_app import Driven, drive
from offheap.analysis.diff.diff import diff
from offheap.analysis.diff.java_heap import java_diff
from offheap.analysis.gate.gate import Limits, gate
from offheap.analysis.java_heap.answer import answer as java_answer
from offheap.analysis.java_heap.conclusion import compared
from offheap.analysis.java_heap.report import report
from offheap.analysis.java_heap.results import Books, ClassTotal, JavaHeapReport, Totals
from offheap.analysis.java_heap.settled.last_collection import as_of, ran
from offheap.analysis.leaks.answer import answer
from offheap.analysis.leaks.conclusion import conclude
from offheap.analysis.leaks.leaks import ranking
from offheap.analysis.leaks.results import Suspect
from offheap.analysis.leaks.ticket import ticket
from offheap.analysis.page.recording_page import recording_page
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.totals.stats import stats
from offheap.analysis.totals.summary import summary
from offheap.analysis.totals.tree import tree
from offheap.api import OpenedRecording
from offheap.live.follower import Follower
from offheap.quantities import PER_MINUTE
from offheap.recording.model import Frame, JavaHeap, Recording
from offheap.report.html import diff_payload
from offheap.report.html.payload import payload
from offheap.report.json import schemas
from offheap.report.json.check import check_json
from offheap.report.json.diff import diff_json
from offheap.report.json.java_heap import java_leaks, java_sampling, java_summary
from offheap.report.terminal.recording.check import print_gate
from offheap.report.terminal.recording.diff import print_diff
from offheap.report.terminal.recording.leaks import print_leaks
from offheap.report.terminal.recording.stats import print_stats
from offheap.report.terminal.recording.summary import print_summary
from offheap.report.terminal.recording.tree import print_tree
from offheap.report.ticket import markdown
from offheap.report.ticket.ticket import document, value
from offheap.report.tui.java_heap_screen import java_heap_lines
from offheap.report.tui.widgets import Pager

MIB = 1 << 20
SHARE = Estimate(0.92, 0.85, 0.99)
DOCUMENT = (ROOT / "docs" / "json.md").read_text()

recorded = cache(shop)


@cache
def judged(native_leak: bool, java_leak: bool) -> JavaHeapReport:
    result = report(recorded(native_leak, java_leak))
    assert result
    return result


def estimate(size: float) -> Estimate:
    return Estimate(size, 0.9 * size, 1.1 * size)


def found(leak: bool = True, **changes: Any) -> JavaHeapReport:
    """The Java heap of the shop, with figures that a test can state."""
    classes = (("byte[]", 90e6), ("java.lang.String", 8e6), ("a.B\x1b[31m", 4e6))
    known = replace(
        judged(True, leak),
        survivors=Totals(estimate(118.0 * MIB), estimate(9000)),
        uncollected=Totals(estimate(12.0 * MIB), estimate(800)),
        books=Books(128.0 * MIB, "hsperfdata", 19.0, estimate(118.0 * MIB), SHARE, True, "as expected"),
        classes=tuple(
            ClassTotal(name, estimate(size), estimate(900), estimate(1000)) for name, size in classes
        ),
        coverage=("objects older than the attach are not known",),
    )
    return replace(known, **changes)


def native(leak: bool) -> Recording:
    return recorded(leak, True)


def console() -> Console:
    return Console(file=io.StringIO(), soft_wrap=True, highlight=False, markup=False, emoji=False)


def text(out: Console) -> str:
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def leaks(recording: Recording, heap: JavaHeapReport | None, **options: Any) -> str:
    out, ranked = console(), ranking(recording)
    shown = [one for one in ranked if one.verdict in ("leak", "growing")]
    print_leaks(
        out,
        shown,
        answer(ranked),
        stats(recording),
        ranked.counts(),
        ranked.rate_unit,
        java=heap,
        compared=compared(conclude(ranked).kind, heap) if heap else "",
        **options,
    )
    return text(out)


def test_without_java_objects_nothing_is_said_of_them() -> None:
    assert "Java heap" not in leaks(native(leak=True), None)
    assert "Native memory" not in leaks(native(leak=True), None)


def test_leaks_says_first_which_of_both_leaks() -> None:
    assert leaks(native(leak=False), found()).splitlines()[0] in (
        "The Java heap leaks, native memory does not.",
        "The Java heap leaks; whether native memory leaks is not known yet.",
    )
    first = leaks(native(leak=True), found(leak=False)).splitlines()[0]
    assert first.startswith("Native memory leaks")
    assert leaks(native(leak=True), found()).startswith("Native memory leaks, and so does the Java heap.\n")
    assert leaks(native(leak=False), found(leak=False)).startswith("Native memory\n")


def test_leaks_shows_the_path_the_class_and_the_books() -> None:
    written = leaks(native(leak=True), found())
    before, _, after = written.partition("\nJava heap\n")
    assert "com.example.Images.decode" in before
    assert "com.example.Carts.open" not in before
    assert re.search(r"^#1  LEAK  confidence \d+%  java$", after, re.MULTILINE)
    assert re.search(r"live .* objects$", after, re.MULTILINE)
    assert re.search(r"^      new     byte\[\]$", after, re.MULTILINE)
    assert re.search(r"new     byte\[\]\n.*com\.example\.Cart\.<init>", after)
    flat = " ".join(after.split())
    assert "118 MiB (106 MiB to 130 MiB)" in flat
    assert "of 128 MiB in use after the last collection, explained 92% (85% to 99%) (hsperfdata)" in flat
    assert "12.0 MiB (10.8 MiB to 13.2 MiB) in 800 (720 to 880) objects not yet collected" in flat
    assert "not known to be live" in flat
    assert "objects older than the attach are not known" in flat
    assert max(map(len, written.splitlines())) <= 80


def test_the_histogram_has_so_many_classes() -> None:
    written = leaks(native(leak=True), found(), classes=2)
    assert "90.0" not in written
    assert re.search(r"^85\.8 MiB .* 900 +1000 B +byte\[\]$", written, re.MULTILINE)
    assert "1 more (--classes N)" in written
    assert r"a.B\x1b[31m" in leaks(native(leak=True), found())


def test_what_cannot_be_told_has_no_suspects() -> None:
    heap = found(
        undecided="cannot tell yet: no collection ran; offheap attach --gc asks for a collection", leak=False
    )
    assert (
        java_answer(heap) == "Cannot tell yet: no collection ran; offheap attach --gc asks for a collection."
    )
    assert java_answer(heap) in leaks(native(leak=True), heap)


def test_scaled_figures_are_marked() -> None:
    assert "scaled by 1.08 to the 128 MiB" in " ".join(leaks(native(True), found(scaled=1.0847)).split())


def test_books_that_disagree_say_so() -> None:
    heap = found()
    assert heap.books
    wrong = replace(heap, books=replace(heap.books, agrees=False, why="the estimate is above the heap"))
    assert "DISAGREES: the estimate is above the heap" in leaks(native(True), wrong)


def test_json_of_leaks() -> None:
    value = json.loads(json.dumps(java_leaks(found()), allow_nan=False))
    assert value["state"] == "followed"
    assert value["survivors"]["bytes"] == {"estimate": 123731968, "low": 111358771, "high": 136105165}
    assert value["books"]["explained"] == {"estimate": 0.92, "low": 0.85, "high": 0.99}
    assert [one["name"] for one in value["classes"]] == ["byte[]", "java.lang.String", "a.B\x1b[31m"]
    assert value["suspects"][0]["class"] == "byte[]"
    assert value["suspects"][0]["verdict"] == "leak"
    assert value["suspects"][0]["stack"][0] == {
        "name": "byte[]",
        "kind": "class",
        "module": "byte",
        "file": "",
        "line": 0,
        "inlined": False,
    }
    assert len(java_leaks(found(), classes=1, top=1)["classes"]) == 1
    assert len(java_leaks(found(), classes=1, top=1)["suspects"]) == 1


def test_summary_shows_both() -> None:
    out = console()
    recording = native(leak=True)
    print_summary(out, summary(recording), stats(recording), java=found())
    _, _, after = text(out).partition("\nJava heap\n")
    assert re.search(r"^ +\S+ MiB +\S+% .*com\.example\.Cart\S+ .*new byte\[\]$", after, re.MULTILINE)
    value = java_summary(found(), top=1)
    assert len(value["sites"]) == 1
    assert value["sites"][0]["class"] == "byte[]"


def test_stats_say_how_java_objects_were_followed() -> None:
    recording = native(leak=True)
    heap = recording.info.java_heap
    assert heap
    thinned = replace(recording, info=replace(recording.info, java_heap=replace(heap, thinned=2)))
    out = console()
    print_stats(out, stats(thinned))
    flat = " ".join(text(out).split())
    assert f"Java heap sampled every 64.0 KiB at last; {heap.followed:,} objects followed of 16,384" in flat
    assert "thinned 2 times" in flat
    assert "2 sites" in flat, "of native memory"
    taken = replace(recording, info=replace(recording.info, java_heap=JavaHeap("taken")))
    out = console()
    print_stats(out, stats(taken))
    assert "another agent holds the JVM's allocation sampler" in " ".join(text(out).split())
    assert java_sampling(None) is None
    sampling = java_sampling(replace(heap, thinned=2))
    assert sampling
    assert (sampling["state"], sampling["interval_bytes"]) == ("followed", 65536)
    assert (sampling["followed"], sampling["thinned"]) == (heap.followed, 2)


def test_samples_with_java_frames_are_a_part_of_what_is_named_before() -> None:
    """The probe counts samples with Java frames over native memory and Java objects together."""
    recording = native(leak=True)
    objects = recorded(True, True).java
    assert objects
    figures = stats(recording)
    total = figures.samples + figures.object_samples
    assert figures.object_samples == int(latest_samples(objects)) > 0
    both = replace(recording, info=replace(recording.info, java_version="17.0.9", joined=total))
    words = f"{figures.samples:,} samples and {figures.object_samples:,} of Java objects, {total:,} of both"
    assert words in " ".join(leaks(both, found()).split())
    out = console()
    print_stats(out, stats(both))
    assert words in " ".join(text(out).split())
    assert words in markdown.write(document(ticket(both), found()))
    alone = replace(both, java=None)
    assert f"{figures.samples:,} samples, {total:,} with Java frames" in " ".join(leaks(alone, None).split())


def latest_samples(recording: Recording) -> int:
    """The last count of each stack, added up."""
    last = {int(row["stack"]): int(row["samples"]) for row in recording.series}
    return sum(last.values())


def test_a_ticket_has_both() -> None:
    recording = native(leak=True)
    page = markdown.write(document(ticket(recording), found()))
    assert "Native memory leaks, and so does the Java heap." in page
    before, _, after = page.partition("## Java heap")
    assert "com.example.Images.decode" in before
    assert "com.example.Cart.&lt;init&gt;" in after or "com.example.Cart.<init>" in after
    assert "new     byte[]" in after
    assert "java.lang.String" in after
    assert "Java heap" not in markdown.write(document(ticket(recording)))
    assert value(ticket(recording), found())["java_heap"]["suspects"][0]["class"] == "byte[]"
    assert value(ticket(recording))["java_heap"] is None


def test_a_tree_shows_survivors_alone() -> None:
    recording = native(leak=True)
    assert recording.java
    survivors = as_of(recording.java, ran(recording).last)
    assert 0 < len(survivors.live) < len(recording.java.live)
    out = console()
    print_tree(out, tree(recording), stats(recording), java=tree(survivors))
    before, _, after = text(out).partition("\nJava heap, callers first: ")
    assert "com.example.Images.decode" in before
    assert "com.example.Carts" not in before
    assert re.search(r"new     byte\[\]$", after, re.MULTILINE)
    assert "inflateInit2_" not in after
    out = console()
    print_tree(out, None, stats(recording), java=tree(survivors))
    assert text(out).startswith("Java heap, callers first: ")
    nodes = schemas.tree(tree(recording), tree(survivors))["java_heap"]["nodes"]
    assert {"byte[]", "java.lang.String"} <= {node["frame"]["name"] for node in nodes}
    assert schemas.tree(tree(recording))["java_heap"] is None


def test_the_document_has_the_keys_of_the_java_heap() -> None:
    example = DOCUMENT.partition("## The Java heap\n")[2].partition("```json\n")[2].partition("```")[0]
    documented = json.loads(example.replace("{...}", "null"))["java_heap"]
    printed = java_leaks(found())
    assert list(documented) == list(printed)
    for key in ("survivors", "books"):
        assert list(documented[key]) == list(printed[key])
    for key in ("classes", "after_collections"):
        assert list(documented[key][0]) == list(printed[key][0])


def test_the_page_has_native_stacks_and_java_stacks_apart() -> None:
    recording = native(leak=True)
    page = payload(recording_page(recording, ranking(recording), java=judged(True, True)))
    kinds = page["stacks"]["kind"]
    assert {"malloc", "java"} == set(kinds)
    java = page["java_heap"]
    assert java["kind"] == "leak"
    assert java["compared"] == "Native memory leaks, and so does the Java heap."
    (worst, *_others) = java["suspects"]
    assert {kinds[stack] for stack in worst["stacks"]} == {"java"}
    assert page["frames"]["kind"][worst["stack"][0]] == "class"
    assert {kinds[stack] for stack in page["suspects"][0]["stacks"]} == {"malloc"}
    held = sum(size for size, kind in zip(page["stacks"]["live_bytes"], kinds, strict=True) if kind == "java")
    assert held == pytest.approx(java["live"]["estimate"], rel=1e-3), "what survived, and nothing younger"
    lengths = {len(column) for column in java["after_collections"].values()}
    assert lengths == {len(judged(True, True).after_collections)}
    assert json.loads(json.dumps(page, allow_nan=False))
    assert payload(recording_page(recording, ranking(recording)))["java_heap"] is None


def test_all_rates_of_a_page_have_one_unit() -> None:
    """GIVEN native memory that leaks by the second WHEN the Java heap leaks 1,000 times more slowly."""
    recording = recorded(True, True)
    slow = judged(True, True)
    growth = slow.suspects._judgements.growth
    slower = replace(slow.suspects._judgements, growth=growth.over(np.array(1000.0)))
    slow = replace(slow, suspects=replace(slow.suspects, _judgements=slower))
    assert "/min of" in java_answer(slow)
    page = recording_page(recording, ranking(recording), java=slow)
    assert page.rate_unit.name == "s"
    assert page.java
    told = [
        java_answer(page.java.report),
        *(one.why for one in (*page.table.suspects, *page.java.table.suspects)),
    ]
    units = {unit for text in told for unit in re.findall(r"[KMG]?i?B/(s|min|h)\b", text)}
    assert units == {page.rate_unit.name}


def test_the_live_view_shows_the_java_heap(tmp_path: Path) -> None:
    watch = Follower(Whole(native(leak=True)))
    view = watch.advance()
    assert view

    async def steps(app: Driven) -> None:
        await app.press("h")
        await app.see(lambda: "Leaking: " in app.app.screen.query_one(Pager).text)
        shown = app.app.screen.query_one(Pager).text
        assert "of byte[] allocated by com.example.Cart.<init>" in " ".join(shown.split())
        assert re.search(r"^!.*Cart\.<init> ← Carts\.open  new byte\[\]$", shown, re.MULTILINE)
        assert re.search(r" java\.lang\.String$", shown, re.MULTILINE)
        await app.press("escape")
        assert "byte[]" not in app.table.text

    drive(watch, view, steps, tmp_path)
    assert watch.java_heap() is watch.java_heap()


def test_the_live_view_tells_sites_of_one_name_apart() -> None:
    """GIVEN two sites of one method with one caller THEN the methods that they call distinguish them."""

    class Suspects(list[Suspect]):
        rate_unit = PER_MINUTE

    one = judged(True, True).suspects[0]
    at = one.site.stack.index(one.blamed)
    stacks = [
        (one.site.stack[0], Frame(f"java.lang.{callee}", "java"), *one.site.stack[at:])
        for callee in ("String.getBytes", "StringBuilder.append")
    ]
    two: Any = Suspects(replace(one, site=replace(one.site, stack=stack)) for stack in stacks)
    heap = replace(found(), suspects=two, undecided="no answer of so few")
    shown = "\n".join(line for line, _ in java_heap_lines(heap))
    for callee in ("String.getBytes", "StringBuilder.append"):
        assert f"Cart.<init> through {callee}  new byte[]" in shown


def test_a_notebook_has_the_java_heap() -> None:
    opened = OpenedRecording(native(leak=True))
    assert opened.java_heap
    assert opened.java_heap.suspects[0].object_class == "byte[]"
    assert "Java heap" in opened._repr_markdown_()
    rows = opened.sql("SELECT class, live_bytes_low <= live_bytes FROM java_classes ORDER BY live_bytes DESC")
    assert rows.fetchall()[0] == ("byte[]", True)
    ((objects,),) = opened.sql("SELECT count(*) FROM java_live").fetchall()
    assert objects == len(opened.java_live) > 0
    kinds = opened.sql("SELECT DISTINCT kind FROM java_collections ORDER BY kind").fetchall()
    assert kinds == [("full",), ("young",)]
    joined = opened.sql("SELECT DISTINCT kind FROM java_live JOIN stacks USING (stack)").fetchall()
    assert joined == [("java",)]


def test_where_objects_were_not_followed_the_reports_say_why_and_no_more() -> None:
    recording = native(leak=True)
    taken = replace(recording, java=None, info=replace(recording.info, java_heap=JavaHeap("taken")))
    heap = report(taken)
    assert heap
    _, _, after = leaks(taken, heap).partition("\nJava heap\n")
    lines = " ".join(after.partition("\nrecording ")[0].split())
    assert "another agent holds the JVM's allocation sampler" in lines
    assert "objects" not in lines.replace("Java objects", "")
    out = console()
    print_summary(out, summary(taken), stats(taken), java=heap)
    assert "another agent holds" in text(out)
    page = payload(recording_page(taken, ranking(taken), java=heap))["java_heap"]
    assert (page["followed"], page["suspects"]) == (False, [])
    assert any("another agent holds" in sentence for sentence in page["coverage"])


def test_a_diff_has_both() -> None:
    old, new = recorded(False, False), recorded(True, True)
    compared_heaps = java_diff(old, new, stacks=True)
    assert compared_heaps
    out = console()
    print_diff(out, diff(old, new), java=compared_heaps)
    before, _, after = text(out).partition("\nJava heap\n")
    assert before.startswith("Native memory\n1 site leaks in NEW and not in OLD. Live malloc memory grew")
    assert "Cart" not in before
    assert after.startswith("1 site leaks in NEW and not in OLD. Live Java objects grew")
    assert re.search(r"com\.example\.Cart\.<init>  Cart\.java:10  new byte\[\]$", after, re.MULTILINE)
    value = diff_json(diff(old, new), compared_heaps)
    assert value["java_heap"]["sites"][0]["kind"] == "java"
    assert value["java_heap"].keys() == value.keys() - {"schema", "old", "new", "per", "java_heap"}
    assert diff_json(diff(old, new))["java_heap"] is None
    page = diff_payload.payload(diff(old, new, stacks=True), compared_heaps)
    assert page["java_heap"]["sites"][0]["leaks"]
    assert json.loads(json.dumps(page, allow_nan=False))


@pytest.mark.parametrize("native_leak", [True, False])
def test_a_leak_of_the_java_heap_fails_the_gate(native_leak: bool) -> None:
    result = gate(recorded(native_leak, True), Limits(max_growth=10e6, max_java_growth=1024.0))
    failed = [check.name for check in result.checks if check.outcome == "failed"]
    assert failed == ["max-java-growth 60.0 KiB/min"]
    out = console()
    print_gate(out, result)
    assert "com.example.Cart.<init>" in text(out)
    (recording,) = check_json([result], "failed", [])["recordings"]
    assert recording["java_power"]["conclusion"] == "leak"
    assert [site["kind"] for check in recording["checks"] for site in check["sites"]][-1] == "java"
