"""`offheap.open`: the code of docs/notebook.md on a real recording; its tables match the document."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import offheap
from harness import needs
from harness.command_line import offheap as command
from harness.jvms.zoo import Zoo, programs
from harness.paths import ROOT
from harness.simulation import Churn, Leak, Process, inflater, native_stack
from offheap.api import TABLES, OpenedRecording
from offheap.errors import UserError
from offheap.recording.model import OwnersOverTime

DOCUMENT = ROOT / "docs" / "notebook.md"


@pytest.fixture(scope="module")
def folder(
    jres: dict[int, Path], zoo: Zoo, probe_library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The folder with the recording that the document opens."""
    needs.jre(17, 17 in jres)
    folder = tmp_path_factory.mktemp("notebook")
    program = zoo.command(programs()["inflaters"], jres[17], rate=200, seconds=8)
    done = subprocess.run(
        command("run", "--interval", "64KiB", "-o", "inflaters.offheap", "--", *program),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    before = Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


def test_the_examples_of_the_document_are_true(folder: Path) -> None:
    examples = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL))
    assert examples.count(">>>") > 15
    test = doctest.DocTestParser().get_doctest(examples, {}, DOCUMENT.name, str(DOCUMENT), 0)
    told: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(test, out=told.append).failed == 0, "".join(told)


def simulated() -> OpenedRecording:
    process = Process(20, 1)
    process.add(inflater("com.example.Images.decode"), Leak(200, 40_000))
    process.add(inflater("com.example.Images.zip"), Churn(900, 7160, 0.5))
    process.add(native_stack("map_segment"), Leak(2, 1 << 20), kind=2)
    recording = process.record()
    owners = OwnersOverTime(
        np.array([1.0, 2.0]),
        ["java-heap", "malloc"],
        np.array([[3.0, 4.0], [5.0, 6.0]]),
        np.array([7.0, 11.0]),
    )
    return OpenedRecording(replace(recording, owners=owners))


@pytest.mark.parametrize("table", [table for table in TABLES if not table.startswith("java_")])
def test_every_table_has_the_columns_that_the_document_names(table: str) -> None:
    (line,) = re.findall(rf"^\| `{table}` \| (.*) \|$", DOCUMENT.read_text(), re.MULTILINE)
    described = re.findall(r"`(\w+)`", re.sub(r"\((?:`\w+`(?:, )?)+\)|\(its place [^)]*\)", "", line))
    columns = simulated().relation(table).columns
    ends = ("_variance", "_low", "_high")
    assert {name for name in columns if not name.endswith(ends)} == set(described) - set(ends)
    assert any(name.endswith(ends) for name in columns) == any(end in described for end in ends)
    assert simulated().relation(table).fetchall() or table == "modules"


def test_tables_agree_with_the_objects() -> None:
    opened = simulated()
    sites = opened.sql(
        "SELECT site, rank, blamed, live_bytes, live_bytes_low FROM sites ORDER BY site"
    ).fetchall()
    assert len(sites) == len(opened.sites) == len(opened.suspects) == 3
    for (number, rank, blamed, live, low), site in zip(sites, opened.sites, strict=True):
        suspect = opened.suspects[rank - 1]
        assert suspect.site == site
        assert (blamed, live, low) == (suspect.blamed.name, site.live_bytes.estimate, site.live_bytes.low)
        members = opened.sql(f"SELECT stack FROM stacks WHERE site = {number} ORDER BY stack").fetchall()
        assert tuple(stack for (stack,) in members) == site.stacks
    for number, stack in enumerate(opened.stacks):
        names = opened.sql(
            "SELECT name FROM stack_frames JOIN frames USING (frame) "
            f"WHERE stack = {number} ORDER BY position"
        ).fetchall()
        assert [name for (name,) in names] == [frame.name for frame in stack]
    assert opened.relation("owners").fetchall()[1] == (1.0, "malloc", 4.0)
    assert opened.stacks[-1] == opened.stacks[1:][-1]
    with pytest.raises(IndexError):
        opened.stacks[len(opened.stacks)]


def test_an_empty_recording_has_every_table() -> None:
    opened = OpenedRecording(Process(5).record())
    assert opened.sites == []
    assert opened.relation("sites").fetchall() == []
    assert opened.sql("SELECT upper(name) FROM frames").fetchall() == []


def test_names_that_are_no_text_are_escaped() -> None:
    process = Process(20, 1)
    process.add(inflater("com.example.\ud800<script>.run"), Leak(200, 40_000), thread="\udcff")
    opened = OpenedRecording(process.record())
    assert opened.sql("SELECT blamed FROM sites").fetchall() == [("com.example.\\ud800<script>.run",)]
    assert ("\\udcff",) in opened.sql("SELECT name FROM threads").fetchall()
    assert "<script>" not in opened._repr_html_()


def test_a_notebook_shows_the_answer() -> None:
    opened = simulated()
    page = opened._repr_html_()
    tags: list[str] = []

    class Check(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert tags.pop() == tag

    Check().feed(page)
    assert tags == [], "every element is closed"
    for text in (page, opened._repr_markdown_()):
        # The names contain characters that Markdown and HTML escape.
        assert opened.answer in unescape(text.replace("\\", ""))
        assert "com.example.Images.decode" in text


def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        offheap.open(tmp_path / "none.offheap")
    with pytest.raises(UserError, match="choose one of live, series"):
        simulated().relation("blocks")


def test_importing_it_loads_nothing_heavy() -> None:
    program = "import sys, offheap; print(*(m for m in ('numpy', 'duckdb', 'rich') if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""
