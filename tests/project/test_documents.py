"""The documents: their links lead somewhere, the files that they name exist, their lines fit a screen."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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


# Figures that several texts state: the pattern of each in each text.
FIGURES = {
    "make test, minutes": {
        "README.md": r"make test +the tests, .*; (\d+) minutes on 2 CPUs",
        "CONTRIBUTING.md": r"make test +all tests .*: (\d+) minutes on 2 CPUs",
        "Makefile": r"\ntest:.*: (\d+) minutes on 2 CPUs",
    },
    "the first make test, minutes": {
        "README.md": r"(\d+) more for `make test`",
        "CONTRIBUTING.md": r"(\d+) more for `make test`",
        "Makefile": r"\ntest:.*the first time (\d+) more to set up",
    },
    "make demo, seconds": {
        "README.md": r"make demo +leak .*; (\d+) seconds",
        "CONTRIBUTING.md": r"make demo +see .*: (\d+) seconds",
        "Makefile": r"\ndemo:.*: (\d+) seconds",
    },
    "the first make demo, minutes": {
        "README.md": r"(\d+) minutes for `make demo`",
        "CONTRIBUTING.md": r"(\d+) minutes for `make demo`",
        "Makefile": r"\ndemo:.*the first time (\d+) minutes",
    },
    "make lint, minutes": {
        "CONTRIBUTING.md": r"make lint .*: (\d+) minute",
        "Makefile": r"\nlint:.*: (\d+) minute",
    },
}


def stated(patterns: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The figure that each text states."""
    return {name: one(pattern, (folder / name).read_text()) for name, pattern in patterns.items()}


def one(pattern: str, text: str) -> str:
    """The only match of the pattern's group in the text."""
    (found,) = re.findall(pattern, text)
    return str(found)


@pytest.mark.parametrize("figure", FIGURES)
def test_texts_state_one_figure(figure: str) -> None:
    found = stated(FIGURES[figure], ROOT)
    assert len(set(found.values())) == 1, found


def tutorial_contradictions(text: str) -> list[str]:
    """What the figures of the exact recording say against each other, and against the program's arguments."""
    text = " ".join(text.split())
    rate, seconds = map(int, re.findall(r"run --exact .*? leaks\.Inflaters (\d+) (\d+) ", text)[0])
    mib, blocks, mib_of_path, blocks_of_path = (
        float(figure.replace(",", ""))
        for figure in re.findall(
            r"live ([\d.]+) MiB in ([\d,]+) blocks; "
            r"the call path shown holds ([\d.]+) MiB in ([\d,]+) blocks",
            text,
        )[0]
    )
    wrong = []
    if blocks_of_path * 2 != blocks or "has half of the blocks" not in text:
        wrong.append("the path shown has not half of the blocks")
    if not mib / 2 < mib_of_path < mib:
        wrong.append("the path shown has not most of the bytes")
    # The program may make a few Inflaters more, or fewer, than it was asked for.
    if abs(blocks - 2 * rate * seconds) > rate or "twice the number of Inflaters" not in text:
        wrong.append("the blocks are not twice the Inflaters")
    return wrong


def test_the_tutorials_figures_agree() -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text()
    assert tutorial_contradictions(text) == []
    assert tutorial_contradictions(text.replace("8,002", "4,002")) == [
        "the path shown has not half of the blocks",
        "the blocks are not twice the Inflaters",
    ]
    assert tutorial_contradictions(text.replace("4,001", "8,002")) == [
        "the path shown has not half of the blocks"
    ]
    assert tutorial_contradictions(text.replace("27.3", "28.3")) == [
        "the path shown has not most of the bytes"
    ]
    assert tutorial_contradictions(text.replace("Inflaters 200 20", "Inflaters 400 20")) == [
        "the blocks are not twice the Inflaters"
    ]


def test_a_figure_that_differs_is_noticed(tmp_path: Path) -> None:
    figure = FIGURES["make lint, minutes"]
    for name in figure:
        (tmp_path / name).write_text((ROOT / name).read_text())
    makefile = tmp_path / "Makefile"
    makefile.write_text(
        makefile.read_text().replace("for both machines: 1 minute", "for both machines: 2 minutes")
    )
    assert stated(figure, tmp_path) == {"CONTRIBUTING.md": "1", "Makefile": "2"}


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
