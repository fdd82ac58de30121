"""Exports that speedscope imports in a browser, and writes again in its own format."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness import needs
from harness.recordings.java_beside_native import shop
from harness.recordings.two_keepers import Stack, live
from offheap.formats.exported.content.samples import VALUES, samples
from offheap.formats.exported.formats import FORMATS
from offheap.recording.model import Recording

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SPEEDSCOPE = "npm install -g speedscope"


def imported(browser: Browser, file: Path) -> list[tuple[Counter[Stack], int]]:
    """Weights by stack, outermost first, and what each profile has in all."""
    command = Path(needs.remedied_program("speedscope", SPEEDSCOPE)).resolve()
    page = browser.new_page()
    try:
        page.goto((command.parents[1] / "dist/release/index.html").as_uri())
        page.set_input_files("input[type=file]", file)
        page.get_by_text("Left Heavy").wait_for()
        with page.expect_download() as download:
            page.keyboard.press("Control+s")
        document = json.loads(Path(download.value.path()).read_text())
    finally:
        page.close()
    names = [frame["name"] for frame in document["shared"]["frames"]]
    return [(weights(one, names), one["endValue"] - one["startValue"]) for one in document["profiles"]]


def weights(profile: dict[str, Any], names: list[str]) -> Counter[Stack]:
    """From speedscope's events: a frame opens or closes at a weight."""
    found, stack, last = Counter[Stack](), list[str](), 0
    for event in profile["events"]:
        found[tuple(stack)] += event["at"] - last
        last = event["at"]
        if event["type"] == "O":
            stack.append(names[event["frame"]])
        else:
            assert stack.pop() == names[event["frame"]]
    assert not stack
    return +found


def test_collapsed_has_every_stack_and_byte(
    browser: Browser, exported: dict[str, Path], recording: Recording
) -> None:
    ((found, total),) = imported(browser, exported["collapsed"])
    assert found == live(recording)
    assert total == sum(live(recording).values())


def test_its_own_format_has_the_four_values(
    browser: Browser, exported: dict[str, Path], recording: Recording
) -> None:
    profiles = imported(browser, exported["speedscope"])
    assert profiles[0][0] == live(recording)
    sums = [int(samples(recording).values[value].sum()) for value in VALUES]
    assert sorted(total for _, total in profiles) == sorted(sums)


def test_a_chrome_trace_has_the_collections(browser: Browser, tmp_path: Path) -> None:
    """speedscope leaves out counters: of a Chrome trace it reads spans alone."""
    recording, file = shop(), tmp_path / "shop.json"
    file.write_bytes(FORMATS["chrome-trace"].write(recording, "both", "inuse_space"))
    assert recording.collections is not None
    spans = zip(
        recording.collections.kinds, recording.collections.begun, recording.collections.ended, strict=True
    )
    expected = Counter[str]()
    for kind, begun, ended in spans:
        expected[f"{kind} collection"] += (ended - begun) * 1e6
    ((found, _),) = imported(browser, file)
    assert {stack[-1]: weight for stack, weight in found.items() if stack} == pytest.approx(dict(expected))
