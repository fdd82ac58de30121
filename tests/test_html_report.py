"""The HTML report, as a browser shows it: Chromium opens files that `html.write` made."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import recordings
import zoo as zoo_programs
from offheap.analysis.diff import diff
from offheap.analysis.leaks import suspects
from offheap.analysis.results import Estimate
from offheap.analysis.results_diff import Diff
from offheap.errors import UserError
from offheap.quantities import format_size
from offheap.recording.model import LIVE, SERIES, Frame, Info, OwnersOverTime, Recording
from offheap.report import html
from offheap.report.payload import payload

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

    from zoo import Zoo

WEB = Path(__file__).resolve().parents[1] / "web"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
# The sandwich has two more, out of sight.
GRAPH = "#flame > .flame canvas"
LEAK = "com.example.shop.ImageService.thumbnail"
HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "com.example.\u202egpj.exe\u202c",
    "bell\x07 nul\x00 line\nfeed",
    "lone \ud800 surrogate",
    "${7*7} &amp; $& `x`",
)


# --- a template and a browser ---


@pytest.fixture(scope="session")
def web_build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("web_build", WEB / "build.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def template(web_build: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The template built from the sources as they are now, in its place for the session."""
    output = html.TEMPLATE
    sources = [path for path in WEB.rglob("*") if "node_modules" not in path.parts and path.is_file()]
    newest = max(path.stat().st_mtime for path in sources)
    if not output.exists() or output.stat().st_mtime < newest:
        output = tmp_path_factory.mktemp("template") / "report.html"
        try:
            web_build.build(WEB, output)
        except web_build.BuildError as error:
            pytest.skip(f"the report's template cannot be built here: {error}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html, "TEMPLATE", output)
        yield output


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM:
        pytest.skip("no chromium on PATH: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()


Open = Callable[..., "Page"]


@pytest.fixture
def open_report(browser: Browser, template: Path, tmp_path: Path) -> Iterator[Open]:
    """Opens a report, or the one it writes of a recording; whatever the page asks of the network, or any
    error or dialog in it, fails the test."""
    contexts, wrong = [], []

    def refuse(dialog: Dialog) -> None:
        wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open_(source: Recording | Path, **context_options: Any) -> Page:
        path = source if isinstance(source, Path) else tmp_path / "report.html"
        if isinstance(source, Recording):
            html.write(source, suspects(source), path)
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **context_options})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("dialog", refuse)
        page.on(
            "request",
            lambda request: wrong.append(request.url) if request.url != path.as_uri() else None,
        )
        page.goto(path.as_uri())
        page.wait_for_selector("main[data-ready]")
        assert page.get_attribute("main", "data-ready") != "failed", page.inner_text("main")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not wrong


# --- recordings ---


@pytest.fixture(scope="module")
def leaking() -> Recording:
    process = recordings.Process(duration=30, seed=3)
    process.add(recordings.inflater(LEAK), recordings.Leak(rate=200, size=7160))
    process.add(
        recordings.inflater("com.example.shop.Search.index"),
        recordings.Churn(rate=300, size=9000, lifetime=1),
    )
    process.add(recordings.compiler(), recordings.JustInTime(blocks=400, size=32768))
    return process.record(exact=True)


@pytest.fixture(scope="module")
def bare() -> Recording:
    """One snapshot, of no JVM, sampled, with gaps and losses."""
    process = recordings.Process(duration=30, seed=2)
    process.add(recordings.native_stack("handle", "main"), recordings.Churn(rate=300, size=90000, lifetime=1))
    recording = process.record(snapshots=1)
    return with_info(
        recording,
        java_version="",
        main_class="",
        command_line=("/usr/sbin/nginx", "-g", "daemon off;"),
        coverage=("blocks allocated before the probe was attached are not known",),
        lost={"lost_blocks": 12, "truncated": 3},
    )


def with_info(recording: Recording, **changes: Any) -> Recording:
    return dataclasses.replace(recording, info=dataclasses.replace(recording.info, **changes))


def with_stacks(
    stacks: Sequence[Sequence[Frame]], *, blocks: int, snapshots: int = 1, seed: int = 1
) -> Recording:
    """Blocks of heavy-tailed sizes spread over the stacks at random; every stack changes at each snapshot."""
    random = np.random.default_rng(seed)
    live = np.zeros(blocks, LIVE)
    live["stack"] = random.integers(1, len(stacks) + 1, blocks)
    sizes = np.floor(random.pareto(1.2, blocks) * 5000 + 100)
    live["size"], live["birth"] = sizes, random.uniform(0, 60, blocks)
    live["probability"] = -np.expm1(-sizes / recordings.INTERVAL)
    times = np.linspace(0, 60, snapshots + 1)[1:]
    series = np.zeros(snapshots * len(stacks), SERIES)
    series["time"] = np.repeat(times, len(stacks))
    series["stack"], series["samples"] = np.tile(np.arange(1, len(stacks) + 1), snapshots), 1
    for name in ("live_bytes", "allocated_bytes", "live_blocks", "allocated_blocks"):
        steps = random.pareto(1.2, (snapshots, len(stacks))) * (5000 if name.endswith("bytes") else 9) + 1
        series[name] = steps.cumsum(axis=0).ravel()
    return recordings.build(
        [(), *stacks],
        [0] + [1] * len(stacks),
        ["worker"],
        live,
        series,
        duration=60,
        interval=recordings.INTERVAL,
        times=times[:1],  # more of them take long to add up, and are in the series
    )


# --- what a reader sees ---


def plain(text: str) -> str:
    """With ordinary spaces where the page has some that do not break."""
    return text.replace("\xa0", " ")


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
    path.write_text(html.render(leaking, suspects(leaking), 2 << 30, Estimate(754.0, 700.0, float("inf"))))
    text = plain(open_report(path).inner_text("#answer"))
    assert "2.0 GiB of memory are full in about 12 min 34 s (95 %: 11 min 40 s to never)." in text
    assert "memory are full" not in open_report(leaking).inner_text("#answer")


def test_a_suspect_opens_to_its_whole_stack_and_copies_it(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking, permissions=["clipboard-read", "clipboard-write"])
    rows = page.locator("tr.suspect")
    assert rows.count() == 1  # what does not leak is a click away
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


def test_the_flame_graph_answers_to_the_keyboard(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    total = leaking.live["size"].sum()
    page.keyboard.press("/")
    page.keyboard.type("ImageService")
    leaked = leaking.live["size"][leaking.live["stack"] == 1].sum()
    matched = plain(page.inner_text("#matched"))
    assert matched.startswith(f"{100 * leaked / total:.1f} % matched ({leaked / 2**20:.1f} MiB, 1 function)")
    page.focus(GRAPH)
    page.keyboard.press("ArrowDown")  # the largest child of the root
    assert page.inner_text(".tooltip .name") == "java.lang.Thread.run"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.inner_text(".tooltip .name") == LEAK
    assert page.inner_text("#matched").startswith("100")
    page.keyboard.press("Escape")
    assert page.input_value("#search") == ""
    assert page.locator("#reset").is_disabled()


def test_the_flame_graph_answers_to_the_mouse(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    canvas = page.locator(GRAPH)
    height = canvas.bounding_box()["height"]  # type: ignore[index]
    canvas.hover(position={"x": 20, "y": 30})  # the second row: below the root
    assert page.inner_text(".tooltip .name") == "java.lang.Thread.run"
    canvas.click(position={"x": 20, "y": 50})
    assert page.locator("#reset").is_enabled()
    assert page.inner_text(".tooltip .name") == LEAK
    canvas.click(position={"x": 20, "y": 10})  # the root, above what is zoomed
    assert page.locator("#reset").is_disabled()
    assert canvas.bounding_box()["height"] == height  # type: ignore[index]


def test_inverted_puts_the_allocator_on_top_and_another_measure_changes_the_total(
    open_report: Open, leaking: Recording
) -> None:
    page = open_report(leaking)

    def described(*keys: str) -> str:
        page.focus(GRAPH)
        for key in ("Home", *keys):
            page.keyboard.press(key)
        return plain(page.inner_text(".tooltip"))

    assert described().startswith("all live bytes")
    page.select_option("#view", "inverted")
    assert described("ArrowDown").startswith("malloc\n")
    page.select_option("#unit", "blocks")
    assert f"{len(leaking.live):,} blocks" in described()


def test_a_source_without_a_stack_weighs_nothing(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    page.locator(GRAPH).click(position={"x": 20, "y": 50})
    page.select_option("#source", "mmap")
    assert page.locator("#reset").is_disabled()  # what was zoomed holds none of it
    page.focus(GRAPH)
    page.keyboard.press("Home")
    assert "0 B" in plain(page.inner_text(".tooltip"))
    page.select_option("#source", "malloc")
    page.focus(GRAPH)
    page.keyboard.press("ArrowDown")
    assert page.inner_text(".tooltip .name") == "java.lang.Thread.run"


@pytest.mark.parametrize("leak", ["malloc", "mmap"])
def test_the_flame_graph_opens_on_what_leaks_not_on_reservations(
    open_report: Open, leak: Literal["malloc", "mmap"]
) -> None:
    process = recordings.Process(duration=30, seed=3)
    behaviour: dict[str, recordings.Behaviour] = {
        "malloc": recordings.Born((0.2,), 9000),
        "mmap": recordings.Born((0.2,), 4 << 30),
    }
    behaviour[leak] = recordings.Leak(rate=200, size=8192)
    process.add(recordings.inflater(LEAK), behaviour["malloc"])
    process.add(recordings.native_stack("map_segment"), behaviour["mmap"], kind=2)
    process.add(recordings.native_stack("reserve_heap"), recordings.Born((0.1,), 4 << 30), kind=2)
    recording = process.record(exact=True)
    page = open_report(recording)
    first = suspects(recording)[0]
    assert (first.verdict, page.input_value("#source")) == ("leak", leak)

    def graph() -> str:
        page.focus(GRAPH)
        page.keyboard.press("Home")
        return plain(page.inner_text(".tooltip"))

    ofkind = recording.stack_kinds[recording.live["stack"]] == (1 if leak == "malloc" else 2)
    held = format_size(recording.live["size"][ofkind].sum())
    assert graph().startswith(f"all live bytes by {leak}\n\n{held}")
    # The rest of the page is about both.
    assert page.locator("#clear").is_hidden()
    assert plain(page.inner_text("#not-drawn")).startswith("Not drawn: ")
    assert plain(page.inner_text("#totals")).startswith(
        f"Whole recording: {format_size(recording.live['size'].sum())}"
    )
    assert "#" not in page.url
    page.select_option("#source", "all")
    page.goto(page.url)
    page.reload()
    page.wait_for_selector("main[data-ready]")
    assert page.input_value("#source") == "all"
    assert graph().startswith("all live bytes\n\n")


def test_find_shows_the_kind_of_memory_that_the_suspect_holds(open_report: Open) -> None:
    process = recordings.Process(duration=30, seed=3)
    process.add(recordings.inflater(LEAK), recordings.Leak(rate=200, size=8192))
    process.add(recordings.native_stack("map_segment"), recordings.Leak(rate=20, size=8192), kind=2)
    page = open_report(process.record(exact=True))
    assert page.input_value("#source") == "malloc"
    page.locator("tr.suspect button.open").nth(1).click()
    page.locator("tr.detail").nth(1).get_by_text("Find in the flame graph").click()
    assert page.input_value("#source") == "mmap"
    assert plain(page.inner_text("#matched")).startswith("100 % matched")
    assert "source=mmap" in page.url


def test_a_half_typed_pattern_is_said_to_be_none(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    page.fill("#search", "a(")
    assert page.get_attribute("#search", "aria-invalid") == "true"
    assert page.inner_text("#matched") == "not a regular expression"


def test_find_in_the_flame_graph_searches_the_blamed_function(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    page.click("text=Find in the flame graph")
    assert page.input_value("#search") == f"^{re.escape(LEAK)}$"
    assert "1 function" in page.inner_text("#matched")


def test_history_is_drawn_and_read_off_under_the_cursor(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    assert page.locator("#time canvas").count() == 2
    last = leaking.process["live_bytes"][-1]
    readout = page.locator("#chart-live output")
    assert plain(readout.inner_text()).endswith(f"→ {last / 2**20:.1f} MiB")
    plot = page.locator("#chart-live .u-over")
    width = plot.bounding_box()["width"]  # type: ignore[index]
    plot.hover(position={"x": width - 2, "y": 20})
    page.locator("#chart-live output", has_text=" at ").wait_for()
    assert plain(readout.inner_text()) == f"{last / 2**20:.1f} MiB at 30.0 s"


def test_a_bare_live_file_of_no_jvm_says_what_it_cannot_show(open_report: Open, bare: Recording) -> None:
    page = open_report(bare)
    assert page.inner_text("header .name") == "nginx"
    assert "no JVM met" in page.inner_text("header")
    assert "one snapshot" in page.inner_text("#time")
    unseen = plain(page.inner_text("#coverage"))
    assert "Blocks allocated before the probe was attached are not known." in unseen
    assert "so that live memory is understated: 12" in unseen
    assert "Stacks cut at the depth limit: 3" in unseen
    assert "Java heap" not in unseen


def test_a_recording_of_nothing_does_not_claim_that_all_is_well(open_report: Open) -> None:
    page = open_report(recordings.Process(duration=2).record())
    assert "so nothing can be said" in page.inner_text("#answer")
    assert "No allocation was recorded" in page.inner_text("#flame")


@pytest.mark.parametrize("many", [0, 3000], ids=["json", "gzip"])
def test_hostile_names_are_text(open_report: Open, many: int) -> None:
    names = [*HOSTILE, *(f"com.example.Class{i}.method" for i in range(many))]
    stacks = [
        [recordings.MALLOC, Frame(name, "java", name, name, 3), Frame("main", "native", name)]
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_until_the_reader_chooses(
    open_report: Open, leaking: Recording, scheme: str
) -> None:
    page = open_report(leaking, color_scheme=scheme)
    other = {"light": "dark", "dark": "light"}[scheme]
    assert page.get_attribute("html", "data-theme") == scheme
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") == other
    page.reload()
    page.wait_for_selector("main[data-ready]")
    assert page.get_attribute("html", "data-theme") == other


def test_a_telephone_needs_no_sideways_scrolling(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking, viewport={"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("#suspect-1 .stack").bounding_box()["width"] <= 390  # type: ignore[index]


def test_paper_gets_no_controls(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    page.emulate_media(media="print")
    assert page.locator("#theme").is_hidden()
    assert page.locator("#search").is_hidden()
    assert page.locator("#suspect-1 .stack").is_visible()


def test_twenty_thousand_stacks_open_in_two_seconds_and_take_less_than_five_megabytes(
    browser: Browser, template: Path, tmp_path: Path
) -> None:
    random = np.random.default_rng(1)
    methods = [
        Frame(f"com.example.package{i % 60}.Component{i % 900}.operation{i}", "java", "", "C.java", i % 500)
        for i in range(8000)
    ]
    trunks = [[methods[j] for j in random.integers(0, 8000, 14)] for _ in range(300)]
    stacks = [
        [recordings.MALLOC, *(methods[j] for j in random.integers(0, 8000, 16)), *trunks[i % 300]]
        for i in range(20_000)
    ]
    recording = with_stacks(stacks, blocks=60_000, snapshots=20)
    ranked = suspects(with_stacks(stacks[:500], blocks=1500))  # judging 20,000 sites is not timed here
    path = tmp_path / "large.html"
    assert html.write(recording, ranked, path) < 5_000_000
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    metrics = page.context.new_cdp_session(page)
    # Of the page's own thread: others use this machine too.
    metrics.send("Performance.enable", {"timeDomain": "threadTicks"})

    def cpu_seconds() -> float:
        found = metrics.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in found if each["name"] == "TaskDuration"))

    page.goto(path.as_uri())
    page.wait_for_selector("main[data-ready]")
    opened = cpu_seconds()
    assert opened < 2
    page.click("text=Last half")
    page.wait_for_selector("#scope.active")
    assert cpu_seconds() - opened < 1
    page.fill("#search", "operation77")
    assert "functions" in page.inner_text("#matched")
    page.close()


def test_a_real_leak_is_named_with_its_native_and_java_callers(
    open_report: Open, zoo: Zoo, jres: dict[int, Path], tmp_path: Path
) -> None:
    program = zoo_programs.programs()["inflaters"]
    java = zoo.command(program, jres[max(jres)], rate=200, seconds=8)

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
    assert page.inner_text("#answer h1") == "Yes, it leaks native memory."
    names = iter(page.locator("#suspect-1 .stack .name").all_inner_texts())
    assert all(name in names for name in program.stack)  # in this order
    offheap("diff", "app.offheap", "--from", "5s", "-o", "diff.html")
    compared = open_report(tmp_path / "diff.html")
    names = iter(compared.locator("tr.detail").first.locator(".stack .name").all_inner_texts())
    assert all(name in names for name in program.stack)
    assert page.locator("#time canvas").count() == 2
    assert "Java heap" in page.inner_text(".owners")


# --- ranges, filters, views ---


def test_a_range_recomputes_totals_table_and_graph(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    plot = page.locator("#chart-live .u-over")
    box = plot.bounding_box()
    assert box
    y = box["y"] + 60
    page.mouse.move(box["x"] + box["width"] / 3, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 2 / 3, y, steps=4)
    page.mouse.up()
    # The leak is the first stack: what it held at the snapshots nearest to 10 s and 20 s.
    snapshots = {
        round(float(row["time"])): row["live_bytes"] for row in leaking.series if int(row["stack"]) == 1
    }
    rate = (snapshots[20] - snapshots[10]) / 10
    assert plain(page.inner_text("#range")) == "10.0 s to 20.0 s"
    row = plain(page.inner_text("tr.suspect"))
    assert f"{rate / 2**20:.1f} MiB/s" in row
    assert f"{snapshots[20] / 2**20:.1f} MiB" in row
    assert "verdicts are of the whole recording" in page.inner_text("#scoped")
    live = sum({int(row["stack"]): row["live_bytes"] for row in leaking.series if row["time"] <= 20}.values())
    assert plain(page.inner_text("#totals")).startswith(f"{live / 2**20:.1f} MiB live at 20.0 s")
    page.select_option("#measure", "grown")
    page.fill("#search", "ImageService")
    assert f"({(snapshots[20] - snapshots[10]) / 2**20:.1f} MiB" in plain(page.inner_text("#matched"))
    page.focus("#range-to")
    page.keyboard.press("ArrowRight")
    assert plain(page.inner_text("#range")) == "10.0 s to 21.0 s"
    page.click("#clear")
    assert page.locator("#scoped").is_hidden()


def test_what_comes_and_goes_is_temporary_and_does_not_grow(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    shares = {}
    for measure in ("live", "grown", "allocated", "temporary"):
        page.select_option("#measure", measure)
        page.fill("#search", "Search.index")
        shares[measure] = float(page.inner_text("#matched").split()[0])
    assert shares["temporary"] > 99
    assert shares["grown"] < 10 < shares["allocated"]
    page.click("h1")  # out of the search field, where m is a letter
    page.keyboard.press("m")
    assert page.input_value("#measure") == "live"


def test_filters_leave_the_stacks_of_a_thread_a_module_or_a_function(
    open_report: Open, leaking: Recording
) -> None:
    page = open_report(leaking)
    held = {stack: leaking.live["size"][leaking.live["stack"] == stack].sum() for stack in (1, 2, 3)}

    def total(**filters: str) -> str:
        for name in ("thread", "module", "only"):
            page.fill(f"#{name}", filters.get(name, ""))
        return plain(page.inner_text("#totals"))

    def size(stacks: Sequence[int]) -> str:
        return f"What the filters leave: {sum(held[stack] for stack in stacks) / 2**20:.1f} MiB live"

    assert total(module="libzip").startswith(size([1, 2]))
    assert total(module="libjvm").startswith(size([3]))
    assert page.locator("tr.suspect >> visible=true").count() == 0  # of the leak nothing is left
    assert total(only="^com.*index$").startswith(size([2]))
    assert total(thread="worker", only="thumbnail").startswith(size([1]))
    assert total(thread="nobody").startswith("What the filters leave: 0 B live")
    page.fill("#thread", "a(")
    assert page.get_attribute("#thread", "aria-invalid") == "true"


def test_a_thread_of_a_shared_stack_counts_as_much_as_it_holds(open_report: Open) -> None:
    process = recordings.Process(duration=30, seed=3)
    process.add(recordings.inflater(LEAK), recordings.Leak(rate=200, size=7160))
    recording = process.record(exact=True)
    live = recording.live.copy()
    live["thread"] = np.arange(len(live)) % 4 == 0
    recording = dataclasses.replace(recording, live=live, threads=["Uploader", "Cleaner"])
    page = open_report(recording)
    page.fill("#thread", "cleaner")
    quarter = live["size"][live["thread"] == 1].sum()
    assert f"{quarter / 2**20:.1f} MiB live" in plain(page.inner_text("#totals"))
    page.fill("#thread", "er$")
    assert page.locator("#clear").is_visible()
    assert plain(page.inner_text("#totals")).startswith(
        f"Whole recording: {live['size'].sum() / 2**20:.1f} MiB"
    )


def test_a_function_stands_between_its_callers_and_its_callees(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    page.select_option("#view", "sandwich")
    page.locator(".functions .name", has_text=re.compile(r"^java\.util\.zip\.Inflater\.<init>$")).click()
    both = leaking.live["size"][leaking.live["stack"] < 3].sum()
    assert f"{both / 2**20:.1f} MiB" in plain(page.inner_text(".between"))
    callers, callees = page.locator("#sandwich canvas").all()
    callers.focus()
    page.keyboard.press("ArrowUp")  # the caller that holds most, one row up
    assert page.inner_text("#sandwich .tooltip >> visible=true").startswith(LEAK)
    callees.focus()
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#sandwich .tooltip >> visible=true").startswith("java.util.zip.Inflater.init")
    page.keyboard.press("Escape")
    assert page.input_value("#view") == "callers"


def test_an_address_opens_the_same_view(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    page.locator(GRAPH).click(position={"x": 20, "y": 50})
    page.select_option("#measure", "grown")
    page.select_option("#unit", "blocks")
    page.fill("#only", "zip")
    page.fill("#search", "inflateInit2_")
    page.click("text=Last half")
    page.click("#more")
    page.locator("tr.suspect button.open").nth(1).click()
    seen = ["#totals", "#matched", "#zoomed", "tr.suspect >> nth=0", "tr.detail >> nth=1"]
    before = [page.inner_text(selector) for selector in seen]
    assert LEAK in before[2]
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("main[data-ready]")
    assert [page.inner_text(selector) for selector in seen] == before
    assert page.input_value("#measure") == "grown"
    page.keyboard.press("Escape")  # search and zoom
    page.keyboard.press("Escape")  # range and filters
    assert plain(page.inner_text("#totals")).startswith("Whole recording")
    # An address that somebody mistyped still opens the report.
    page.goto("about:blank")
    page.goto(
        address.partition("#")[0]
        + "#range=9-2&zoom=99999&measure=%3Cb%3E&open=x,77&only=a(&view=sandwich&fn=none"
    )
    page.wait_for_selector("main[data-ready]")
    assert page.input_value("#measure") == "live"
    assert page.locator(".functions li").count() > 5


def test_keys_are_listed_and_act(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("m")  # not through the dialog
    page.keyboard.press("Escape")
    assert page.locator("#help").is_hidden()
    assert page.input_value("#measure") == "live"
    page.keyboard.press("i")
    page.keyboard.press("b")
    assert (page.input_value("#view"), page.input_value("#unit")) == ("inverted", "blocks")
    page.keyboard.press("h")
    assert plain(page.inner_text("#range")) == "15.0 s to 30.0 s"
    page.focus("#search")
    page.keyboard.type("mib")
    assert page.input_value("#search") == "mib"
    assert page.input_value("#unit") == "blocks"


def test_ages_and_courses_are_drawn_for_a_suspect(open_report: Open, leaking: Recording) -> None:
    page = open_report(leaking)
    bars = page.locator("#suspect-1 .ages rect")
    assert bars.count() == 24
    tall = [float(bar.get_attribute("height") or 0) for bar in bars.all()]
    births = np.histogram(leaking.live["birth"][leaking.live["stack"] == 1], 24, (0, 30))[0]
    assert np.argmax(tall) == np.argmax(births)
    assert min(tall) > 0  # born all along
    assert page.locator("tr.suspect svg.sparkline").count() == 1


def test_owners_of_rss_are_stacked_and_follow_the_range(open_report: Open, leaking: Recording) -> None:
    times = np.linspace(1, 30, 30)
    held = np.outer(times, np.arange(12)) * 2**20
    held[:, 0] = 40 * 2**20
    names = ["java-heap", *(f"<b>{number}" for number in range(10)), "unattributed"]
    owners = OwnersOverTime(times, names, held, held.sum(axis=1))
    page = open_report(dataclasses.replace(leaking, owners=owners))
    assert page.locator("#time canvas").count() == 2  # RSS is the owners' upper edge
    rows = page.locator(".owners li")
    assert plain(rows.first.inner_text()).split("\n") == ["unattributed", "330 MiB", "+319 MiB"]
    assert "4 others" in plain(rows.last.inner_text())  # the smallest, Java's heap among them
    shown = plain(page.inner_text(".owners"))
    assert "<b>9" in shown
    page.click("text=Last half")
    assert plain(rows.first.inner_text()).split("\n") == ["unattributed", "330 MiB", "+165 MiB"]
    page.click("#theme")
    page.wait_for_timeout(100)  # a chart draws itself a moment after it is made
    colours = page.locator("#chart-owners canvas").evaluate(
        "canvas => new Set(new Uint32Array(canvas.getContext('2d')"
        ".getImageData(canvas.width / 2, 0, 1, canvas.height).data.buffer)).size"
    )
    assert colours > 8  # one an owner
    page.locator("#chart-owners .u-over").hover(position={"x": 200, "y": 30})
    assert "unattributed" in page.inner_text("#chart-owners output")


# --- the page of a diff ---


@pytest.fixture(scope="module")
def grown() -> Diff:
    """OLD leaks slowly and expands images; NEW leaks faster, has a new cache and expands no images."""
    old, new = recordings.Process(duration=30, seed=4), recordings.Process(duration=30, seed=5)
    old.add(recordings.inflater(LEAK), recordings.Leak(rate=50, size=7160))
    new.add(recordings.inflater(LEAK), recordings.Leak(rate=200, size=7160))
    old.add(recordings.native_stack("expand_image"), recordings.Leak(rate=100, size=9000))
    new.add(recordings.native_stack("cache_put"), recordings.Leak(rate=30, size=9000))
    new.add(recordings.native_stack(HOSTILE[1]), recordings.Leak(rate=1, size=9000))
    return diff(old.record(exact=True), new.record(exact=True), stacks=True)


def test_a_diff_says_what_changed_and_lists_the_certain_first(
    open_report: Open, grown: Diff, tmp_path: Path
) -> None:
    path = tmp_path / "diff.html"
    html.write_diff(grown, path)
    page = open_report(path)
    change = grown.live_bytes.change.estimate
    assert f"Live memory grew by {change / 2**20:.1f} MiB" in plain(page.inner_text("#answer h1"))
    changes = page.locator("tr.suspect .badge").all_inner_texts()
    assert changes == [site.change for site in grown.sites if site.significant]
    assert {"grown", "new", "gone"} <= set(changes)
    row = plain(page.locator("tr.suspect", has_text=LEAK).inner_text())
    site = next(site for site in grown.sites if site.blamed.name == LEAK)
    assert f"+{site.live_bytes.change.estimate / 2**20:.1f} MiB" in row
    assert page.locator("img, main script").count() == 0  # of the hostile name
    # A page of a diff is replaced by another, a foreign file is not.
    html.write_diff(grown, path)
    path.write_text("mine")
    with pytest.raises(UserError, match="no offheap report"):
        html.write_diff(grown, path)


def test_a_differential_flame_graph_colours_growth_red_and_novelty_blue(
    open_report: Open, grown: Diff, tmp_path: Path
) -> None:
    html.write_diff(grown, tmp_path / "diff.html")
    page = open_report(tmp_path / "diff.html")

    def colour(function: str) -> tuple[int, int, int]:
        """Of the frame, when it is zoomed to; at most its caller and itself have neighbours."""
        page.keyboard.press("Escape")
        page.focus(GRAPH)
        for first, second in itertools.product(range(2), range(3)):
            keys = ["Home", "ArrowDown", *["ArrowRight"] * first, "ArrowDown", *["ArrowRight"] * second]
            for key in keys:
                page.keyboard.press(key)
            if page.inner_text(".tooltip .name") == function:
                page.keyboard.press("Enter")
                return pixel()
        raise AssertionError(function)

    def pixel() -> tuple[int, int, int]:
        top = page.locator(".flame-outline").evaluate("outline => parseFloat(outline.style.top) + 3")
        found = page.locator(GRAPH).evaluate(
            "(canvas, y) => Array.from(canvas.getContext('2d')"
            ".getImageData(2, y * canvas.width / canvas.clientWidth, 1, 1).data)",
            top,
        )
        return found[0], found[1], found[2]

    red, green, blue = colour(LEAK)
    assert red > max(green, blue) + 40
    assert "→" in page.inner_text(".tooltip")
    red, green, blue = colour("expand_image")
    assert green > max(red, blue) + 20
    red, green, blue = colour("cache_put")
    assert blue > max(red, green) + 20
    page.keyboard.press("Escape")
    page.select_option("#width", "old")
    page.fill("#search", "cache_put")
    assert plain(page.inner_text("#matched")) == "0.0 % matched (0 B)"
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("main[data-ready]")
    assert page.input_value("#width") == "old"
    assert plain(page.inner_text("#matched")) == "0.0 % matched (0 B)"


# --- the file ---


def test_the_policy_allows_nothing_but_the_pages_own_script_and_style(template: Path) -> None:
    page = template.read_text("utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    directives = dict(part.split(" ", 1) for part in policy[1].split("; "))
    assert directives["default-src"] == "'none'"
    assert re.fullmatch(r"'sha256-[\w+/]+=*'", directives["script-src"])
    assert re.fullmatch(r"'sha256-[\w+/]+=*'", directives["style-src"])
    assert directives.keys() == {"default-src", "script-src", "style-src", "base-uri", "form-action"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(), values, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(st.characters(), max_size=30), json_values, max_size=4))
def test_embedded_data_comes_back_and_cannot_end_its_element(data: dict[str, Any]) -> None:
    encoding, text = html.embed(data)
    assert encoding == "json"
    assert "<" not in text
    assert text.isascii()
    assert json.loads(text) == data


def test_quantities_that_json_cannot_write_are_null(leaking: Recording) -> None:
    first = suspects(leaking)[0]
    unbounded = dataclasses.replace(first, growth_bytes_per_second=Estimate(1.0, float("-inf"), float("inf")))
    data = payload(leaking, [unbounded])
    assert data["suspects"][0]["growth_bytes_per_second"] == {"estimate": 1.0, "low": None, "high": None}
    json.dumps(data, allow_nan=False)


def test_weights_are_those_of_the_recording(leaking: Recording) -> None:
    stacks = payload(leaking, [])["stacks"]
    assert sum(stacks["live_bytes"]) == leaking.live["size"].sum()
    assert sum(stacks["live_blocks"]) == len(leaking.live)
    assert all(
        live <= allocated
        for live, allocated in zip(stacks["live_bytes"], stacks["allocated_bytes"], strict=True)
    )
    names = [leaking.frames[frame].name for frame in stacks["frames"][0]]
    assert names == [frame.name for frame in leaking.stack(1)]


def test_passwords_on_the_command_line_stay_behind(leaking: Recording) -> None:
    command = ("java", "-Ddb.password=geheim", "--api-key=geheim", "-Dsize=3", "-Dtoken=geheim=geheim")
    info: Info = with_info(leaking, command_line=command, jvm_flags=command[1:]).info
    data = payload(dataclasses.replace(leaking, info=info), [])
    assert "geheim" not in json.dumps(data)
    assert "-Dsize=3" in data["info"]["command_line"]


def test_a_report_replaces_an_older_one_but_no_other_file(
    template: Path, tmp_path: Path, leaking: Recording
) -> None:
    path = tmp_path / "report.html"
    assert html.write(leaking, [], path) == path.stat().st_size
    html.write(leaking, suspects(leaking), path)
    assert LEAK in path.read_text()
    path.write_text("<p>my own page</p>")
    with pytest.raises(UserError, match="no offheap report"):
        html.write(leaking, [], path)
    assert path.read_text() == "<p>my own page</p>"
    with pytest.raises(UserError, match="cannot write"):
        html.write(leaking, [], tmp_path / "missing" / "report.html")
    with pytest.raises(UserError, match="is no file"):
        html.write(leaking, [], tmp_path)
    assert os.listdir(tmp_path) == ["report.html"]


def test_without_its_template_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, leaking: Recording
) -> None:
    monkeypatch.setattr(html, "TEMPLATE", tmp_path / "report.html")
    with pytest.raises(UserError, match=r"web/build\.py"):
        html.render(leaking, [])
    (tmp_path / "report.html").write_text('<script data-encoding="json">@OFFHEAP_PAYLOAD@</script>')
    with pytest.raises(UserError, match="of another version"):
        html.render(leaking, [])


def test_the_command_refuses_what_is_no_recording(tmp_path: Path) -> None:
    foreign = tmp_path / "notes.txt"
    foreign.write_text("no recording")
    for path in (foreign, tmp_path / "missing"):
        done = subprocess.run(
            [sys.executable, "-m", "offheap", "report", str(path)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_the_scripts_own_tests_pass(web_build: ModuleType, tmp_path: Path) -> None:
    try:
        npm, environment = web_build.npm_command()
    except web_build.BuildError as error:
        pytest.skip(str(error))
    copy = tmp_path / "web"
    shutil.copytree(WEB, copy, ignore=shutil.ignore_patterns("node_modules"))
    install = subprocess.run(
        [*npm, "ci", "--prefer-offline"], cwd=copy, env=environment, capture_output=True, text=True
    )
    if install.returncode:
        pytest.skip(f"npm cannot install vitest here: {install.stderr.strip().splitlines()[-1:]}")
    done = subprocess.run([*npm, "test"], cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
