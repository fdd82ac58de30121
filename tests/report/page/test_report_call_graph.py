"""The call graph as a file that `offheap report` writes, and in the page."""

from __future__ import annotations

import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

from harness.command_line import offheap
from harness.paths import ROOT
from harness.recordings.imported_profiles import SAMPLES
from harness.screens.report_pages import LEAK, Open, plain
from harness.warm_command import warm
from offheap.recording.model import Recording
from offheap.report.callgraph import svg


def test_the_page_shows_the_picture_once_it_is_asked_for(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    assert page.locator(".call-graph").count() == 0
    page.click("#calls summary")
    page.wait_for_selector(".call-graph")
    assert LEAK in plain(page.locator(".call-graph").text_content() or "")
    colour = page.locator(".call-graph rect.cg-java").first.evaluate("one => getComputedStyle(one).fill")
    assert colour == page.evaluate(
        "() => { const chip = document.createElement('span'); chip.style.color = 'var(--java)';"
        "document.body.append(chip); return getComputedStyle(chip).color; }"
    )
    wide = page.locator(".call-graph").bounding_box()
    page.click("#calls button")
    fitted = page.locator(".call-graph").bounding_box()
    view = page.locator(".call-graph-view").bounding_box()
    assert wide
    assert fitted
    assert view
    assert fitted["width"] <= view["width"]


def test_text_has_room_in_its_box(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    page.click("#calls summary")
    page.wait_for_selector(".call-graph")
    wrong = page.evaluate(
        """() => [...document.querySelectorAll(".call-graph g > g")].flatMap(group => {
            const box = group.querySelector(".cg-box").getBoundingClientRect();
            return [...group.querySelectorAll("text")].filter(text => {
                const its = text.getBoundingClientRect();
                return its.left < box.left || its.right > box.right || its.bottom > box.bottom + 1;
            }).map(text => text.textContent);
        })"""
    )
    assert wrong == []


def test_the_page_has_the_rules_of_the_file() -> None:
    css = (ROOT / "web" / "src" / "style" / "call-graph.css").read_text()

    def rules(text: str) -> set[tuple[str, str]]:
        return {
            (name, one.strip().replace(": ", ":"))
            for name, body in re.findall(r"\.call-graph (\.cg-[a-z]+)\s*\{([^}]*)\}", text)
            for one in body.split(";")
            if one.strip()
        }

    assert rules(css) == rules(svg._RULES)
    theme = (ROOT / "web" / "src" / "style" / "theme.css").read_text()
    for name in ("java", "native", "jvm", "kernel", "class", "unknown"):
        for colours in (svg._DAY, svg._NIGHT):
            (colour,) = re.findall(f"--{name}:([^;]+)", colours)
            assert f"--{name}: {colour};" in theme


def test_report_writes_the_picture(tmp_path: Path) -> None:
    recording, output = tmp_path / "a.offheap", tmp_path / "calls.svg"
    imported = offheap("import", SAMPLES / "jemalloc.heap", "-o", recording)
    assert subprocess.run(imported, capture_output=True, timeout=60).returncode == 0
    done = warm("report", recording, "-o", output)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"wrote {output}")
    assert ET.parse(output).getroot().get("class") == "call-graph"
    # A second picture may replace the first, and nothing else.
    again = offheap("report", recording, "-o", output)
    assert subprocess.run(again, capture_output=True, timeout=60).returncode == 0
    output.write_text("<svg/>")
    assert subprocess.run(again, capture_output=True, timeout=60).returncode == 2
