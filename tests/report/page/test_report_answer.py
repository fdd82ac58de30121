"""The first screen of the HTML report: its words, the process it names, and hostile names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from harness import simulation
from harness.jvms import zoo as zoo_programs
from harness.screens.report_pages import HOSTILE, LEAK, Open, plain, with_info, with_stacks
from offheap.analysis.leaks.answer import answer
from offheap.analysis.leaks.leaks import ranking, suspects
from offheap.analysis.page.recording_page import recording_page
from offheap.analysis.statistics.estimate import Estimate
from offheap.quantities import format_size
from offheap.recording.model import Frame, Recording
from offheap.report.html import page as html

if TYPE_CHECKING:
    from harness.jvms.zoo import Zoo


def test_the_answer_comes_first_and_names_the_leak(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    answer = plain(page.inner_text("#answer"))
    assert answer.startswith("Yes, it leaks native memory.")
    assert f"What {LEAK} (ImageService.java:10) allocates through java.util.zip.Inflater.<init>" in answer
    suspect = suspects(leaking)[0]
    assert f"{suspect.site.live_bytes.estimate / 2**20:.1f} MiB" in answer
    assert plain(page.inner_text(".figures")).split("\n")[:3] == [
        "Live by malloc",
        f"{leaking.live['size'].sum() / 2**20:.1f} MiB",
        "to the byte",
    ]
    assert page.title() == "com.example.Main · offheap"


def test_the_answer_says_when_memory_is_full(open_report: Open, leaking: Recording, tmp_path: Path) -> None:
    path = tmp_path / "limited.html"
    path.write_text(
        html.render(recording_page(leaking, suspects(leaking), 2 << 30, Estimate(754.0, 700.0, float("inf"))))
    )
    text = plain(open_report(path).inner_text("#answer"))
    assert "2.0 GiB of memory are full in about 12 min 34 s (95 %: 11 min 40 s to never)." in text
    assert "memory are full" not in open_report(leaking).inner_text("#answer")


def test_a_suspect_opens_to_its_whole_stack_and_copies_it(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking, permissions=["clipboard-read", "clipboard-write"])
    rows = page.locator("tr.suspect")
    assert rows.count() == 1  # healthy sites are a click away
    assert "steady" in page.inner_text("#more")
    page.click("#more")
    assert rows.count() == len(suspects(leaking))
    first = rows.first.locator("button.open")
    assert first.get_attribute("aria-expanded") == "true"  # the leak is open from the start
    names = page.locator("#suspect-1 .stack .name").all_inner_texts()
    assert names == [frame.name for frame in suspects(leaking)[0].site.stack]
    assert page.inner_text("#suspect-1 .blamed .name") == LEAK
    page.click("#suspect-1 button.copy")
    page.wait_for_selector("text=Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.splitlines()[0] == "\tat malloc"
    assert f"\tat {LEAK} (ImageService.java:10)" in copied.splitlines()
    first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#suspect-1").is_hidden()


def test_ages_and_courses_are_drawn_for_a_suspect(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    bars = page.locator("#suspect-1 .ages rect")
    assert bars.count() == 24
    tall = [float(bar.get_attribute("height") or 0) for bar in bars.all()]
    births = np.histogram(leaking.live["birth"][leaking.live["stack"] == 1], 24, (0, 30))[0]
    assert np.argmax(tall) == np.argmax(births)
    assert min(tall) > 0  # births continue all the time
    assert page.locator("tr.suspect svg.sparkline").count() == 1


def test_a_bare_live_file_of_no_jvm_says_what_it_cannot_show(open_report: Open, bare: Recording) -> None:
    page = open_report(bare)
    assert page.inner_text("header .name") == "nginx"
    assert "no JVM met" in page.inner_text("header")
    assert "one snapshot" in page.inner_text("#time")
    allocated = format_size(bare.series["allocated_bytes"].sum())
    assert f"; {allocated} allocated, " in plain(page.inner_text("#totals"))
    unseen = plain(page.inner_text("#coverage"))
    assert "Blocks allocated before the attach are not recorded." in unseen
    assert "so that live memory is understated: 12" in unseen
    assert "Stacks cut at the depth limit: 3" in unseen
    assert "Java heap" not in unseen


def test_a_recording_of_nothing_does_not_claim_that_all_is_well(open_report: Open) -> None:
    page = open_report(simulation.Process(duration=2).record())
    assert "so nothing can be said" in page.inner_text("#answer")
    assert "No allocation was recorded" in page.inner_text("#flame")


@pytest.mark.parametrize("many", [0, 3000], ids=["json", "gzip"])
def test_hostile_names_are_text(open_report: Open, many: int) -> None:
    names = [*HOSTILE, *(f"com.example.Class{i}.method" for i in range(many))]
    stacks = [
        [simulation.MALLOC, Frame(name, "java", name, name, 3), Frame("main", "native", name)]
        for name in names
    ]
    recording = with_info(
        with_stacks(stacks, blocks=20 * len(stacks)),
        main_class=HOSTILE[0],
        command_line=HOSTILE,
        coverage=HOSTILE,
        lost={HOSTILE[1]: 3},
    )
    page = open_report(recording)
    encoding = page.get_attribute("#payload", "data-encoding")
    assert encoding == ("gzip-base64" if many else "json")
    assert page.inner_text("header .name") == HOSTILE[0]
    if page.locator("#more").is_visible():
        page.click("#more")
    shown = page.locator("main").evaluate("main => main.textContent")
    assert not set(shown) & set("\u202e\u202c\x07\x00\ud800")
    assert "com.example.\\u{202e}gpj.exe\\u{202c}" in shown
    assert page.locator("img, iframe, main script").count() == 0


def test_a_real_leak_is_named_with_its_native_and_java_callers(
    open_report: Open, zoo: Zoo, jres: dict[int, Path], tmp_path: Path
) -> None:
    program = zoo_programs.programs()["inflaters"]
    java = zoo.command(program, jres[max(jres)], rate=200, seconds=20)

    def offheap(*arguments: str) -> str:
        command = [sys.executable, "-m", "offheap", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        ).stdout

    offheap("run", "-o", "app.offheap", "--exact", "--", *java)
    written = json.loads(offheap("report", "app.offheap", "--json"))
    assert written["path"] == str(tmp_path / "app.html")
    assert written["bytes"] == (tmp_path / "app.html").stat().st_size
    page = open_report(tmp_path / "app.html")
    assert page.inner_text("header .name") == program.main
    # After eight seconds on a busy machine the leak may look as if it slowed down, and the page doubted it.
    assert page.inner_text("#answer h1") == "Yes, it leaks native memory."
    names = iter(page.locator("#suspect-1 .stack .name").all_inner_texts())
    assert all(name in names for name in program.stack)  # all in this order
    offheap("diff", "app.offheap", "--from", "5s", "-o", "diff.html")
    compared = open_report(tmp_path / "diff.html")
    names = iter(compared.locator("tr.detail").first.locator(".stack .name").all_inner_texts())
    assert all(name in names for name in program.stack)
    assert page.locator("#time canvas").count() == 2
    assert "Java heap" in page.inner_text(".owners")


def test_the_answer_says_what_the_recording_can_exclude(open_report: Open) -> None:
    process = simulation.Process(30, 1)
    process.add(
        simulation.inflater("com.example.Shop.serve", "com.example.Main.main"),
        simulation.Churn(300, 7160, 0.1),
    )
    for interval, words in ((32 << 10, "No leak found in 30.0 s: no site leaks more than "), (1 << 20, "")):
        recording = process.record(interval=interval)
        page = open_report(recording)
        told = answer(ranking(recording))
        assert plain(page.inner_text("#answer")).startswith(words or "Cannot tell yet: no leak above ")
        assert told.startswith(plain(page.inner_text("#answer h1")))
        if not words:
            assert told.endswith(f". {plain(page.inner_text('#advice'))}")
            assert "to exclude one of 4.0 MiB/min" in told
