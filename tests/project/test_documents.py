"""The documents: their links lead somewhere, the files that they name exist, their lines fit a screen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.paths import ROOT

DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
]
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
COLUMNS = 120
BELOW = (ROOT, ROOT / "src" / "offheap")  # the architecture page names rooms of the package from there
# A link of Markdown to another page or a place in it; links to the web are not followed.
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
NAMED = re.compile(r"`((?:benchmarks|examples|harness|probe|src|tests|web)/[\w./-]+\.(?:c|h|java|py|ts))`")
GENERATED = re.compile(r"^<!-- (?!end).*?^<!-- end -->", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(text: str) -> Iterator[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    for heading in re.findall(r"^#+ (.*)$", FENCED.sub("", text), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def broken_links(page: Path) -> Iterator[str]:
    for name, anchor in LINK.findall(FENCED.sub("", page.read_text())):
        target = (page.parent / name).resolve() if name else page
        if not target.exists():
            yield f"{name} does not exist"
        elif anchor and anchor not in anchors(target.read_text()):
            yield f"{name}#{anchor}: {target.name} has no such heading"


def long_lines(text: str) -> list[str]:
    """Lines of sentences above COLUMNS: not of tables, code, measurements, or one word."""
    plain = FENCED.sub("", GENERATED.sub("", text))
    return [
        line
        for line in plain.split("\n")
        if len(line) > COLUMNS and not line.startswith(("|", "    ")) and " " in line.strip()
    ]


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    assert list(broken_links(ROOT / name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_named_files_exist(name: str) -> None:
    named = NAMED.findall((ROOT / name).read_text())
    assert [path for path in named if not any((folder / path).exists() for folder in BELOW)] == []


@pytest.mark.parametrize("name", NAMES)
def test_lines_fit(name: str) -> None:
    assert long_lines((ROOT / name).read_text()) == []


def test_a_fault_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page, and more\n\n[here](#a-page-and-more) [there](gone.md) [deeper](#nowhere)\n")
    assert list(broken_links(page)) == [
        "gone.md does not exist",
        "#nowhere: page.md has no such heading",
    ]
    assert long_lines("word " * 30) == ["word " * 30]
    assert long_lines("| " + "cell " * 30) == []
