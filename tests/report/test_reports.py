"""Text and JSON reports: their content equals docs/json.md, and no name steers a terminal."""

from __future__ import annotations

import io
import json as standard_json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from harness.paths import ROOT
from harness.simulation import (
    Churn,
    JustInTime,
    Leak,
    Process,
    compiler,
    inflater,
    java,
    large,
    native,
    native_stack,
)
from offheap.analysis.leaks.answer import answer
from offheap.analysis.leaks.conclusion import conclude
from offheap.analysis.leaks.leaks import ranking, suspects
from offheap.analysis.leaks.ticket import ticket
from offheap.analysis.stacks.namesakes import apart
from offheap.analysis.totals.stats import stats
from offheap.analysis.totals.summary import summary
from offheap.analysis.totals.totals import live_by_kind
from offheap.analysis.totals.tree import tree
from offheap.quantities import format_size
from offheap.recording.model import Budget, Frame, OwnersOverTime, Recording
from offheap.report.json import schemas
from offheap.report.terminal.recording.leaks import print_leaks
from offheap.report.terminal.recording.stats import print_stats
from offheap.report.terminal.recording.summary import print_summary
from offheap.report.terminal.recording.tree import print_tree
from offheap.report.text import wording
from offheap.report.text.printable import place, printable
from offheap.report.ticket import markdown
from offheap.report.ticket import ticket as ticket_report

DOCUMENT = ROOT / "docs" / "json.md"
DEEP = tuple(f"com.example.Deep.call{i}" for i in range(30))


@pytest.fixture(scope="module")
def shop() -> Recording:
    process = Process(20, 1)
    process.add(inflater("com.example.Images.decode", *DEEP, "com.example.Main.main"), Leak(200, 40_000))
    process.add(inflater("com.example.Images.zip", "com.example.Main.main"), Churn(900, 7160, 0.5))
    process.add(compiler(), JustInTime(800, 32_768))
    process.add(native_stack("map_segment"), Leak(2, 1 << 20), kind=2)
    recording = process.record()
    return replace(
        recording,
        info=replace(
            recording.info,
            lost={"lost_blocks": 3, "lost_unwinds": 1},
            coverage=("one thing", "another thing"),
        ),
    )


def written(
    recording: Recording, report: str, *, top: int = 10, everything: bool = False, **options: Any
) -> str:
    """The output of a report on a pipe."""
    out = Console(file=io.StringIO(), soft_wrap=True, highlight=False, markup=False, emoji=False)
    figures = stats(recording)
    match report:
        case "leaks":
            found = ranking(recording)
            words = answer(found)
            shown = [s for s in found if everything or s.verdict in ("leak", "growing")][:top]
            names = apart([s.site for s in shown], [s.blamed for s in shown])
            counts = found.counts()
            print_leaks(
                out,
                shown,
                words,
                figures,
                counts,
                found.rate_unit,
                everything=everything,
                namesakes=names,
                **options,
            )
        case "summary":
            print_summary(out, summary(recording), figures, top=top, **options)
        case "tree":
            print_tree(out, tree(recording), figures, **options)
        case "stats":
            print_stats(out, figures)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def leaks(recording: Recording) -> dict[str, Any]:
    """The output of `offheap leaks --json --all`."""
    found = ranking(recording)
    head = schemas.leaks(
        recording.info, answer(found), conclude(found), found.counts(), live_by_kind(recording)
    )
    value: dict[str, Any] = standard_json.loads(
        "".join(schemas.stream(head, suspects=map(schemas.suspect, found)))
    )
    return value


def test_leaks_answers_first_then_shows_the_stack(shop: Recording) -> None:
    text = written(shop, "leaks")
    lines = text.splitlines()
    assert lines[0].startswith("Leaking: ")
    assert "LEAK" in text
    assert "STEADY" not in text
    assert "Not shown: 1 startup, 1 steady" in text or "Not shown: 1 steady, 1 startup" in text
    assert any(line.startswith("    > java    com.example.Images.decode  Images.java:10") for line in lines)
    assert any(re.match(r" +\.\.\. \d+ frames of [\w. ]+ \(--full\)", line) for line in lines)
    assert "3 sampled blocks not recorded, the live table was full" in text
    assert "1 sample has an incomplete native stack" in text
    assert re.search(r"^not seen +one thing\n +another thing$", text, re.MULTILINE)


def test_a_folded_stack_hides_as_many_frames_as_it_says(shop: Recording) -> None:
    folded, full = written(shop, "leaks", top=1), written(shop, "leaks", top=1, full=True)
    left_out = re.findall(r"\.\.\. (\d+) frames of ", folded)
    frames = re.compile(r"^ +>? *(?:native|java|jvm) ", re.MULTILINE)
    assert len(frames.findall(folded)) + sum(map(int, left_out)) == len(frames.findall(full)) == 38
    assert left_out
    assert "frames of" not in full


def test_options_of_leaks(shop: Recording) -> None:
    assert len(re.findall(r"^#\d", written(shop, "leaks", top=1), re.MULTILINE)) == 1
    everything = written(shop, "leaks", everything=True)
    assert len(re.findall(r"^#\d", everything, re.MULTILINE)) == 4
    assert "the JVM's own" in everything
    assert "threads" in written(shop, "leaks", threads=True)


@pytest.mark.parametrize("report", ["leaks", "stats"])
def test_lines_of_figures_fit_eighty_columns(shop: Recording, report: str) -> None:
    assert max(map(len, written(shop, report).splitlines())) <= 80


def test_summary_shows_sites_and_their_sum(shop: Recording) -> None:
    text = written(shop, "summary", top=2)
    assert "com.example.Images.decode" in text
    assert "in 2 more sites" in text


@pytest.fixture(scope="module")
def twins() -> Recording:
    """Two leaks with the same blamed method and different callers."""
    process = Process(30, 4)
    for caller in ("com.example.Nightly.importAll", "com.example.Admin.importOne"):
        process.add(inflater("com.example.Feed.open", "com.example.Retry.again", caller), Leak(200, 9000))
    process.add(inflater("com.example.Images.decode"), Leak(100, 9000))
    return process.record(exact=True)


def test_sites_of_one_name_are_told_apart_by_their_callers(twins: Recording) -> None:
    marked = re.compile(r"com\.example\.Feed\.open(?:  Feed\.java:\d+)?\s+← com\.example\.(\w+\.\w+)")
    both = {"Nightly.importAll", "Admin.importOne"}
    assert set(marked.findall(written(twins, "leaks"))) == both
    assert set(marked.findall(written(twins, "summary"))) == both
    ticket_text = markdown.write(ticket_report.document(ticket(twins)))
    assert set(marked.findall(ticket_text)) == both
    for text in (written(twins, "leaks"), written(twins, "summary"), ticket_text):
        assert "Images.decode ←" not in text


def test_tree_shows_callers_first(shop: Recording) -> None:
    text = written(shop, "tree")
    assert (
        text.index("java.lang.Thread.run") < text.index("com.example.Main.main") < text.index("inflateInit2_")
    )


def test_an_empty_recording_is_reported() -> None:
    recording = Process(5).record()
    for report in ("leaks", "summary", "tree", "stats"):
        assert written(recording, report)
    for value in (
        leaks(recording),
        schemas.summary(summary(recording)),
        schemas.tree(tree(recording)),
        schemas.stats(stats(recording)),
    ):
        assert standard_json.loads(schemas.dumps(value)) == value


HOSTILE = "com.example.\x1b[2J\x1b]0;owned\x07[bold]Evil\u202e\u200b\r\n<script>.run"


def test_names_do_not_steer_the_terminal() -> None:
    process = Process(20, 1)
    process.add(
        (*inflater("com.example.A.a")[:5], Frame(HOSTILE, "java", "", "Evil\x1b[31m.java", 3)),
        Leak(200, 40_000),
        thread="\x1b[31mthread\x9b",
    )
    recording = process.record()
    recording = replace(
        recording, info=replace(recording.info, main_class=HOSTILE, path=HOSTILE, command_line=(HOSTILE,))
    )
    for report, options in (
        ("leaks", {"threads": True, "full": True}),
        ("summary", {"full": True}),
        ("tree", {}),
        ("stats", {}),
    ):
        text = written(recording, report, **options)
        assert all(character.isprintable() or character == "\n" for character in text)
        assert r"\x1b[2J" in text
        assert "[bold]" in text, "markup is shown, not obeyed"
    value = leaks(recording)
    assert value["suspects"][0]["stack"][-1]["name"] == HOSTILE, "JSON has the name as it is"
    assert "\x1b" not in schemas.dumps(value)


@given(st.text(max_size=60))
def test_any_text_becomes_printable(text: str) -> None:
    assert printable(text).isprintable()
    assert printable(text) == text or not text.isprintable()


def test_places() -> None:
    assert place(Frame("f", "native", "libz.so", "/src/zlib/inflate.c", 12)) == "inflate.c:12"
    assert place(native("f", "libz.so")) == "libz.so"
    assert place(java("a.B.c", 3)) == "B.java:3"
    assert place(java("a.B.c")) == "B.java"
    assert place(Frame("gap", "unknown")) == ""


def documented(schema: str) -> dict[str, Any]:
    """The example of docs/json.md for a schema."""
    section = DOCUMENT.read_text().partition(f"## {schema}\n")[2]
    example = section.partition("```json\n")[2].partition("```")[0]
    value: dict[str, Any] = standard_json.loads(example.replace("{...}", "{}"))
    assert value["schema"] == schema
    return value


def shape(value: Any) -> Any:
    """Keys in order and types; for a list the shape of its first element; int and float are one type."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items() if key not in ("recording", "lost")}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return (
        "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
    )


def test_docs_show_what_json_prints(shop: Recording) -> None:
    shop = replace(shop, info=replace(shop.info, jvm_flags=("-Xmx1g",), command_line=("java",)))
    process = shop.process.copy()
    process["rss_bytes"] = 300 << 20
    times, held = np.arange(20.0), np.full((20, 1), 30e6)
    owners = OwnersOverTime(times, ["malloc"], held, held.sum(axis=1))
    limited = replace(shop, process=process, owners=owners)
    real = {
        "offheap.leaks/1": leaks(shop),
        "offheap.summary/1": schemas.summary(summary(shop)),
        "offheap.tree/1": schemas.tree(tree(shop)),
        "offheap.stats/1": schemas.stats(stats(shop)),
        "offheap.ticket/1": ticket_report.value(ticket(limited, ranking(limited, 1 << 30))),
    }
    for schema, value in real.items():
        value = standard_json.loads(schemas.dumps(value))
        example = documented(schema)
        if schema == "offheap.ticket/1":
            example["suspects"] = documented("offheap.leaks/1")["suspects"]
            example["suspects"][0]["seconds_to_limit"] = example["seconds_to_limit"]
        assert shape(example) == shape(value), schema
        assert next(iter(value)) == "schema"
    assert list(documented("offheap.leaks/1")["recording"]) == list(schemas.recording(shop.info))


def test_tree_in_json_points_to_parents(shop: Recording) -> None:
    nodes = schemas.tree(tree(shop))["nodes"]
    for index, node in enumerate(nodes):
        assert node["parent"] is None or node["parent"] < index
        if node["parent"] is not None:
            assert node["live_blocks"] <= nodes[node["parent"]]["live_blocks"] + 1


def test_lost_samples_are_summed(shop: Recording) -> None:
    assert schemas.recording(shop.info)["lost"] == {"samples": 3, "lost_blocks": 3, "lost_unwinds": 1}


def test_docs_name_every_schema_that_is_printed() -> None:
    source = Path(schemas.__file__).parents[2]
    printed = {
        schema
        for path in source.rglob("*.py")
        for schema in re.findall(r'(?:"schema": |SCHEMA = )"(offheap\.\w+/\d)"', path.read_text())
    }
    assert len(printed) >= 9
    # docs/recording-format.md describes meta.json of a recording.
    missing = {schema for schema in printed if schema not in DOCUMENT.read_text()} - {"offheap.recording/1"}
    assert not missing


def test_growths_of_a_ranking_are_those_of_its_suspects(shop: Recording) -> None:
    quiet = Process(20, 1)
    quiet.add(inflater("com.example.Zip.churn"), Churn(1000, 7160, 0.2))
    for recording in (shop, quiet.record(), Process(5).record()):
        found = ranking(recording)
        for verdict in ("leak", "growing", "steady"):
            assert found.growths(verdict) == [
                suspect.growth_bytes_per_second for suspect in found if suspect.verdict == verdict
            ]


def test_notable_are_what_matters_and_the_largest_others() -> None:
    process = Process(20, 1)
    for index in range(6):
        stack = (*inflater(f"com.example.Zip{index}.churn"), java("com.example.Main.main"))
        process.add(stack, Churn(300 * (index + 1), 7160, 1.0))
    process.add(inflater("com.example.Shop.serve"), Leak(200, 40_000))
    found = ranking(process.record())
    assert found.verdicts.count("leak") == 1
    notable = list(found.notable(4))
    assert [suspect.rank for suspect in notable] == sorted(suspect.rank for suspect in notable)
    assert notable[0].verdict == "leak"
    others = sorted(found[1:], key=lambda suspect: -suspect.site.live_bytes.estimate)
    assert {suspect.rank for suspect in notable[1:]} == {suspect.rank for suspect in others[:3]}
    assert list(found.notable(100)) == suspects(process.record())


def test_mappings_are_told_apart_from_blocks(shop: Recording) -> None:
    """A JVM's reserved heap, in full, beside a smaller RSS: no report may show the sum as memory in use."""
    live = live_by_kind(shop)
    mapped = shop.stack_kinds[shop.live["stack"]] == 2
    weights = shop.live["size"] / shop.live["probability"]
    assert live.mapped_bytes.estimate == pytest.approx(weights[mapped].sum())
    assert live.malloc_bytes.estimate == pytest.approx(weights[~mapped].sum())
    assert min(live.mapped_bytes.estimate, live.malloc_bytes.estimate) > 1 << 20
    for report in ("leaks", "summary", "tree", "stats"):
        text = " ".join(written(shop, report).split())
        assert f"malloc {format_size(live.malloc_bytes.estimate)}" in text, report
        assert re.search(rf"mapped {format_size(live.mapped_bytes.estimate)} .*of address space", text), (
            report
        )
    for value in (
        leaks(shop),
        schemas.summary(summary(shop)),
        schemas.tree(tree(shop)),
        schemas.stats(stats(shop)),
    ):
        assert value["mapped_bytes"] == schemas.quantity(live.mapped_bytes)
        assert value["malloc_bytes"] == schemas.quantity(live.malloc_bytes)


def test_without_mappings_none_are_mentioned() -> None:
    process = Process(20, 1)
    process.add(inflater("com.example.Shop.serve"), Leak(200, 40_000))
    recording = process.record()
    for report in ("leaks", "summary", "tree", "stats"):
        assert "mapped" not in written(recording, report)


def test_colours_change_no_character(shop: Recording) -> None:
    def text(**options: Any) -> str:
        out = Console(
            file=io.StringIO(), soft_wrap=True, highlight=False, markup=False, emoji=False, **options
        )
        found = ranking(shop)
        print_leaks(out, found[:], answer(found), stats(shop), found.counts(), found.rate_unit)
        assert isinstance(out.file, io.StringIO)
        return out.file.getvalue()

    plain = text()
    assert "\x1b" not in plain
    coloured = text(force_terminal=True, color_system="standard")
    assert "\x1b[1;31mLEAK\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    # NO_COLOR leaves bold and dim, as in rich.
    monochrome = text(force_terminal=True, color_system="standard", no_color=True)
    assert set(re.findall(r"\x1b\[([\d;]*)m", monochrome)) == {"0", "1", "2", "1;2"}


def test_a_long_list_costs_little_more_than_finding_it() -> None:
    recording = large(20_000, 2_000)
    found = ranking(recording)
    figures = stats(recording, found.sites.grouping)
    out = Console(file=io.StringIO(), soft_wrap=True, highlight=False, markup=False, emoji=False)

    def seconds(act: Callable[[], object]) -> float:
        start = time.process_time()
        act()
        return time.process_time() - start

    finding = min(seconds(lambda: found[:]) for _ in range(3))
    listed = found[:]
    printing = min(
        seconds(
            lambda: print_leaks(out, listed, "", figures, found.counts(), found.rate_unit, everything=True)
        )
        for _ in range(3)
    )
    # CPU time of both in turn; rich's own printing takes 25 times as long as finding the suspects.
    assert printing < 6 * finding


def test_what_sampling_spent_is_compared_with_what_it_was_granted() -> None:
    """A process that hardly computes is granted a share of one CPU: more than that share of its own time."""
    quiet = Budget(0.01, 1.6, 0.08, 32 << 10, 512 << 10, 32 << 10)
    assert "taking samples took 5.00% of 1.6 s of CPU (0.16% of one CPU), one" in wording.budget(quiet, 50.0)
    busy = Budget(0.01, 80.0, 0.72, 32 << 10, 512 << 10, 32 << 10)
    assert "taking samples took 0.90% of 1 min 20 s of CPU, one" in wording.budget(busy, 50.0)
