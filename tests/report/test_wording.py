"""Messages, help and documents contain none of these unclear wordings."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from harness.paths import ROOT
from harness.simulation import Process
from offheap.report.text.wording import mode

SOURCES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "src" / "offheap").rglob("*.py")),
    *sorted((ROOT / "web" / "src").rglob("*.ts")),
    *sorted((ROOT / "web" / "test").rglob("*.ts")),
    *sorted(
        path
        for room in ("probe", "tests", "harness", "benchmarks", "examples")
        for path in (ROOT / room).rglob("*.*")
        if path.suffix in (".c", ".h", ".java", ".md", ".py") and path != Path(__file__)
    ),
]

# The rule for a replacement: subject, verb, object; the fact; one term for one state.
STUMBLES = (
    "find it, open the report",
    "told from chance",
    "give back what malloc keeps",
    "stops nobody",
    "may only wait for",
    " is no file",
    " is no folder",
    " is no header",
    " is no URL",
    "cannot be made in its folder",
    "the live file cannot be made",
    "the probe is out again",
    "the probe is out of",
    "taken out again",
    "the probe is idle",
    "probe taken out",
    "probe was detached",
    "then detached",
    "was detached from",
    "still being recorded when",
    "of it freed again",
    "taken otherwise than",
    "whose Java frames could not be had",
    "means nothing",
    "in vain",
    "heap it cannot be told",
    "memory it cannot be told",
    "no object it is known",
    "what of it is",
    "what is live of Java",
    "counts from each to the next",
    "than chance stands in",
    "of interest is the",
)
# Inverted sentences and fragments: "Of a leak, nothing stays"; "Of live bytes, born early".
_INVERTED = re.compile(r"\bOf [a-z0-9`]")

# Python and C join adjacent string literals, and long sentences are split into such literals.
_JOINT = re.compile(r'" f?"')
# What begins a line of a comment in Python, in TypeScript or C, and in a block of C.
_MARGIN = re.compile(r"^\s*(?:#|//|\*)\s", re.MULTILINE)

ENDS: dict[Literal["recording", "detached", "exited", "killed"], str] = {
    "recording": "while the process ran on",
    "detached": "until the probe was stopped",
    "exited": "until the process exited",
    "killed": "until the process was killed",
}


def sentences(text: str) -> str:
    """One line, without the breaks between lines and literals, and without the margin of comments."""
    return _JOINT.sub("", " ".join(_MARGIN.sub(" ", text).split()))


def around(text: str, found: re.Match[str]) -> str:
    return text[max(0, found.start() - 40) : found.end() + 60]


def test_a_sentence_is_found_across_lines_and_literals() -> None:
    assert sentences('say(\n    "it survived, and "\n    f"may only wait for {one}"\n)') == (
        'say( "it survived, and may only wait for {one}" )'
    )
    assert sentences("the probe\nis idle") == "the probe is idle"
    assert sentences("/* the probe\n * is idle */\n") == "/* the probe is idle */"
    assert sentences("    # the probe\n    # is idle\n") == "the probe is idle"


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """The sentences of each source, by its path."""
    return {path.relative_to(ROOT).as_posix(): sentences(path.read_text()) for path in SOURCES}


@pytest.mark.parametrize("words", STUMBLES)
def test_nobody_stumbles(words: str, texts: dict[str, str]) -> None:
    found = [name for name, text in texts.items() if words in text]
    assert not found, f"{words!r} is back in {', '.join(found)}"


def test_sentences_begin_with_their_subject(texts: dict[str, str]) -> None:
    found = {name: around(text, where) for name, text in texts.items() if (where := _INVERTED.search(text))}
    assert found == {}


@pytest.mark.parametrize(
    "name",
    [
        "CHANGELOG.md",
        "Makefile",
        "web/src/panels/answer.ts",
        "web/test/state.test.ts",
        "probe/recording.h",
        "probe/jvm/agent.c",
        "harness/paths.py",
        "benchmarks/cost/budget.py",
        "examples/leaks/README.md",
        "tests/conftest.py",
    ],
)
def test_every_kind_of_text_is_read(name: str, texts: dict[str, str]) -> None:
    assert texts[name]


def test_a_recording_says_how_it_ended() -> None:
    """A recording of `attach --duration` is over, although its process still runs."""
    process = Process(5.0, 1)
    said = {ended: mode(replace(process.record(exact=True).info, ended=ended)) for ended in ENDS}
    assert said == {ended: f"every block, 5.0 s {words}" for ended, words in ENDS.items()}
