"""`offheap report --format md|txt|json`: a summary fit for a ticket, for any names in it."""

from __future__ import annotations

import json as standard_json
import os
import re
import subprocess
import sys
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from harness.simulation import Churn, JustInTime, Leak, Process, compiler, inflater, native_stack
from harness.warm_command import warm
from offheap.analysis.leaks.leaks import ranking
from offheap.analysis.leaks.ticket import MOST_SUSPECTS, ticket
from offheap.recording.model import OwnersOverTime, Recording
from offheap.report.text.printable import printable
from offheap.report.ticket import fragment, markdown, plain
from offheap.report.ticket import ticket as report
from offheap.report.ticket.document import Block, CodeText, Facts, Heading, Listing, Paragraph, Table

MIB = 1 << 20
LEAKED = 200 * 40_000  # bytes a second
ELEMENTS = {"p", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "code", "pre", "div"}
WRITERS = {"txt": plain.write, "md": markdown.write, "html": fragment.write}


@pytest.fixture(scope="module")
def shop() -> Recording:
    process = Process(20, 1)
    deep = (f"com.example.Deep.call{i}" for i in range(30))
    process.add(
        inflater("com.example.Images.decode", *deep, "com.example.Main.main"), Leak(200, LEAKED // 200)
    )
    process.add(inflater("com.example.Images.zip", "com.example.Main.main"), Churn(900, 7160, 0.5))
    process.add(compiler(), JustInTime(800, 32_768))
    process.add(native_stack("map_segment"), Leak(2, 1 << 20), kind=2)
    recording = process.record()
    info = replace(recording.info, lost={"lost_blocks": 3}, coverage=("the stacks of pthreads",))
    return replace(recording, info=info)


@pytest.mark.parametrize("writer", WRITERS)
def test_a_ticket_has_all_that_a_reader_asks_for(shop: Recording, writer: str) -> None:
    found = ticket(shop)
    # The names contain characters that Markdown and HTML escape.
    text = unescape(" ".join(WRITERS[writer](report.document(found)).replace("\\", "").split()))
    assert found.answer.startswith("Leaking: ")
    for wanted in (
        found.answer,
        "pid 4711, Java 17.0.9, com.example.Main",
        "sampled every 512 KiB, 20.0 s until the process exited",
        "com.example.Images.decode Images.java:10",
        "mmap map_segment",
        "3 sampled blocks not recorded",
        "the stacks of pthreads",
        "offheap leaks simulated.offheap --full",
    ):
        assert wanted in text, wanted
    # The first suspect's growth and live bytes, with intervals that contain the truth.
    for number, truth in ((r"([\d.]+) MiB/s", LEAKED / MIB), (r"([\d.]+) MiB", 20 * LEAKED / MIB)):
        (_, low, high), *_ = re.findall(rf"{number} \(([\d.]+) to ([\d.]+)\)", text)
        assert float(low) < truth < float(high)


def test_a_ticket_says_who_holds_the_rss_and_when_memory_is_full(shop: Recording) -> None:
    times = np.linspace(1, 20, 20)
    held = np.column_stack((np.full(20, 40.0 * MIB), 5 * MIB + LEAKED * times))
    owners = OwnersOverTime(times, ["java-heap", "malloc"], held, held.sum(axis=1))
    process = shop.process.copy()
    process["rss_bytes"] = 300 * MIB
    found = ticket(replace(shop, owners=owners, process=process))
    assert found.limit_bytes is None
    assert "limit" not in dict(report.document(found)[2].facts)  # type: ignore[union-attr]
    limited = replace(shop, owners=owners, process=process)
    found = ticket(limited, ranking(limited, 1 << 30))
    value = report.value(found)
    assert value["limit_bytes"] == 1 << 30
    seconds = value["seconds_to_limit"]
    assert seconds["low"] < (724 * MIB) / (LEAKED + 2 * MIB) < seconds["high"]
    assert [(one["owner"], one["bytes"]) for one in value["owners"]] == [
        ("malloc", round(held[-1, 1])),
        ("java-heap", 40 * MIB),
    ]
    growth = value["owners"][0]["growth_bytes_per_second"]
    assert growth["low"] <= LEAKED <= growth["high"]
    for write in WRITERS.values():
        text = " ".join(re.sub("<[^>]*>", " ", write(report.document(found))).replace("|", " ").split())
        assert "Java heap 40.0 MiB 40.0 MiB" in text
        assert re.search(r"1\.0 GiB of memory, full in 1 min \d+ s", text), text


def test_plain_text_fits_eighty_columns(shop: Recording) -> None:
    lines = plain.write(report.document(ticket(shop))).splitlines()
    commands = [line for line in lines if line.startswith("  offheap ")]
    assert len(commands) == 3
    assert max(len(line) for line in lines if line not in commands) <= 80


def test_shares_are_of_what_malloc_holds(shop: Recording) -> None:
    held = ticket(shop).held
    assert held[0].blamed.name == "com.example.Images.decode"
    assert all(each.site.kind == "malloc" for each in held)
    assert sum(each.share for each in held) == pytest.approx(1.0)


def test_at_most_ten_suspects_and_how_many_more() -> None:
    process = Process(20, 1)
    for number in range(14):
        process.add(inflater(f"com.example.Leak{number}.open"), Leak(40, 40_000))
    found = ticket(process.record())
    assert len(found.suspects) == MOST_SUSPECTS
    assert found.others == 4
    assert "and 4 more" in plain.write(report.document(found))
    assert "|  | and 4 more |  |  |  |  |" in markdown.write(report.document(found)), "no empty code"


def test_what_cannot_be_told_yet_is_listed_only_where_nothing_leaks() -> None:
    process = Process(20, 1)
    for name, leak in (("leak", Leak(40, 40_000)), ("little", Leak(0.1, 2 << 20))):
        process.add(inflater(f"com.example.App.{name}"), leak)
    found = ticket(process.record())
    assert [suspect.verdict for suspect in found.suspects] == ["leak", "cannot tell yet"]
    assert [suspect.verdict for suspect in found.shown] == ["leak"]
    assert found.others == 0
    text = plain.write(report.document(found))
    assert "App.leak" in text
    assert "2. cannot tell yet" not in text
    process = Process(20, 1)
    process.add(inflater("com.example.App.little"), Leak(0.1, 2 << 20))
    assert "1. cannot tell yet" in plain.write(report.document(ticket(process.record())))


def test_an_empty_recording_is_written_too() -> None:
    found = ticket(Process(5).record())
    assert not found.suspects
    assert not found.held
    for write in WRITERS.values():
        assert "Nothing was recorded in 5.0 s" in write(report.document(found))


class _Page(HTMLParser):
    """The visible content of a page: its elements, and the text of its paragraphs and cells."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.texts: list[str] = []
        self._open = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        if tag in ("td", "p", "pre", "li"):
            self.texts.append("")
            self._open = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "p", "pre", "li"):
            self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[-1] += data


NAMES = st.text(
    st.sampled_from("aZ0 _*`|\\<>[]()!&;#$~@:/.-+=\"'\n\x1b\u202e\ud800"), min_size=1, max_size=25
)


@settings(max_examples=150)
@given(NAMES.map(str.strip).filter(bool))
def test_any_name_reads_as_it_is_and_makes_no_markup(name: str) -> None:
    blocks: list[Block] = [
        Paragraph(f"through {name}, called"),
        Facts([("process", f"is {name}.")]),
        Table(("n", "site"), [(f"x{name}x", CodeText(name)), ("2", CodeText(f"a {name} b"))], frozenset({0})),
        Listing([f"> {name}"]),
    ]
    shown = printable(name)
    renderer = MarkdownIt("commonmark").enable("table").enable("strikethrough")
    for page in (renderer.render(markdown.write(blocks)), fragment.write(blocks)):
        read = _Page(page)
        assert set(read.elements) <= ELEMENTS
        texts = [" ".join(text.split()) for text in read.texts]
        for wanted in (f"through {shown}, called", f"x{shown}x", shown, f"a {shown} b", f"> {shown}"):
            assert " ".join(wanted.split()) in texts
    assert "://" not in markdown.write(blocks[:2])
    assert "@" not in markdown.write(blocks[:2])
    text = plain.write(blocks)
    assert all(character.isprintable() or character == "\n" for character in text)


def test_headings_and_strong_words() -> None:
    blocks: list[Block] = [Heading("A_b", 1), Heading("c", 3), Paragraph("yes", strong=True)]
    assert plain.write(blocks) == "A_b\n===\n\nc\n-\n\nyes\n"
    assert markdown.write(blocks) == "## A\\_b\n\n#### c\n\n**yes**\n"
    assert fragment.write(blocks) == "<div><h3>A_b</h3><h5>c</h5><p><strong>yes</strong></p></div>"


def offheap(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return warm("report", *map(str, arguments), cwd=folder)


@pytest.fixture(scope="module")
def live_file(probe_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The live file of a real program: every block of an interpreter that keeps all allocations."""
    folder = tmp_path_factory.mktemp("live")
    program = "import os\nkept = [bytearray(300_000) for _ in range(60)]\nos._exit(0)"
    environment = {**os.environ, "LD_PRELOAD": str(probe_library), "OFFHEAP": f"exact,dir={folder}"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60)
    (live_file,) = folder.glob("*.live")
    return live_file


def test_the_suffix_chooses_the_format_and_an_older_report_is_replaced(
    live_file: Path, tmp_path: Path
) -> None:
    for name, start in (("a.md", f"## {report.TITLE}\n"), ("b.txt", f"{report.TITLE}\n"), ("c.json", "{")):
        for _ in range(2):
            done = offheap(tmp_path, live_file, "-o", name)
            assert done.returncode == 0, done.stderr
            assert done.stdout.startswith(f"wrote {name} (")
        assert (tmp_path / name).read_text().startswith(start)
    (tmp_path / "a.md").write_text("# My notes\n")
    refused = offheap(tmp_path, live_file, "-o", "a.md")
    assert refused.returncode == 2
    assert "a.md exists and is not an offheap report" in refused.stderr
    assert (tmp_path / "a.md").read_text() == "# My notes\n"


def test_a_dash_is_standard_output(live_file: Path, tmp_path: Path) -> None:
    value = standard_json.loads(offheap(tmp_path, live_file, "--format", "json", "-o", "-").stdout)
    assert value["schema"] == "offheap.ticket/1"
    assert value["held"][0]["live_bytes"]["estimate"] >= 60 * 300_000
    assert offheap(tmp_path, live_file, "--format", "md", "-o", "-").stdout.startswith("## ")
    both = offheap(tmp_path, live_file, "--format", "md", "-o", "-", "--json")
    assert both.returncode == 2
    assert os.listdir(tmp_path) == []


def test_without_a_name_it_has_the_recordings_with_the_formats_suffix(
    live_file: Path, tmp_path: Path
) -> None:
    done = offheap(tmp_path, live_file, "--format", "txt", "--json")
    written = tmp_path / f"{live_file.stem}.txt"
    assert standard_json.loads(done.stdout)["path"] == str(written)
    assert written.read_text().startswith(report.TITLE)
