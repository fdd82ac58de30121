"""Messages, help and documents contain none of these unclear wordings."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

import pytest

from harness.paths import ROOT
from harness.simulation import Process
from offheap.report.text.wording import mode

SOURCES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "src" / "offheap").rglob("*.py")),
    *sorted((ROOT / "web" / "src").glob("*.ts")),
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
    "the probe is out again",
    "the probe is idle",
    "probe taken out",
    "probe was detached",
    "then detached",
    "still being recorded when",
    "of it freed again",
    "taken otherwise than",
    "whose Java frames could not be had",
    "means nothing",
    "in vain",
)


# Python joins adjacent string literals, and long sentences are split into such literals.
_JOINT = re.compile(r'" f?"')

ENDS: dict[Literal["recording", "detached", "exited", "killed"], str] = {
    "recording": "while the process ran on",
    "detached": "until the probe was stopped",
    "exited": "until the process exited",
    "killed": "until the process was killed",
}


def sentences(text: str) -> str:
    """One line, without the breaks between lines and literals."""
    return _JOINT.sub("", " ".join(text.split()))


def test_a_sentence_is_found_across_lines_and_literals() -> None:
    assert sentences('say(\n    "it survived, and "\n    f"may only wait for {one}"\n)') == (
        'say( "it survived, and may only wait for {one}" )'
    )
    assert sentences("the probe\nis idle") == "the probe is idle"


@pytest.mark.parametrize("words", STUMBLES)
def test_nobody_stumbles(words: str) -> None:
    found = [path.relative_to(ROOT) for path in SOURCES if words in sentences(path.read_text())]
    assert not found, f"{words!r} is back in {', '.join(map(str, found))}"


def test_a_recording_says_how_it_ended() -> None:
    """A recording of `attach --duration` is over, although its process still runs."""
    process = Process(5.0, 1)
    said = {ended: mode(replace(process.record(exact=True).info, ended=ended)) for ended in ENDS}
    assert said == {ended: f"every block, 5.0 s {words}" for ended, words in ENDS.items()}
