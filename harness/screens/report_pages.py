"""Fixtures: HTML reports as a browser shows them.  Chromium opens files that `html.write` made."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from harness import needs, simulation
from harness.paths import WEB
from offheap.analysis.leaks.leaks import suspects
from offheap.analysis.page.recording_page import recording_page
from offheap.recording.model import LIVE, SERIES, Frame, Recording
from offheap.report.html import page as html

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
# The hidden sandwich has two more canvases.
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
            needs.skip(f"the report's template ({error})", needs.INTERNET)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html, "TEMPLATE", output)
        yield output


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    # Not for the session: Playwright keeps an event loop running, and other tests need asyncio.run().
    if not CHROMIUM:
        needs.program("chromium")
    needs.playwright()
    from playwright import sync_api

    with sync_api.sync_playwright() as playwright:
        # A Chromium that ends while it writes leaves its temporary file in pytest's folder, which goes.
        variables: dict[str, str | float | bool] = {
            **os.environ,
            "TMPDIR": str(tmp_path_factory.mktemp("chromium")),
        }
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS, env=variables)
        yield browser
        browser.close()


Open = Callable[..., "Page"]


@pytest.fixture
def open_report(browser: Browser, template: Path, tmp_path: Path) -> Iterator[Open]:
    """Opens a report, or writes one of a recording and opens it. A request to the network, an error or a
    dialog of the page fails the test."""
    contexts, wrong = [], []

    def refuse(dialog: Dialog) -> None:
        wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open_(source: Recording | Path, **context_options: Any) -> Page:
        path = source if isinstance(source, Path) else tmp_path / "report.html"
        if isinstance(source, Recording):
            html.write(recording_page(source, suspects(source)), path)
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
    process = simulation.Process(duration=30, seed=3)
    process.add(simulation.inflater(LEAK), simulation.Leak(rate=200, size=7160))
    process.add(
        simulation.inflater("com.example.shop.Search.index"),
        simulation.Churn(rate=300, size=9000, lifetime=1),
    )
    process.add(simulation.compiler(), simulation.JustInTime(blocks=400, size=32768))
    return process.record(exact=True)


@pytest.fixture(scope="module")
def bare() -> Recording:
    """A sampled recording of a program without a JVM: one snapshot, with gaps and losses."""
    process = simulation.Process(duration=30, seed=2)
    process.add(simulation.native_stack("handle", "main"), simulation.Churn(rate=300, size=90000, lifetime=1))
    recording = process.record(snapshots=1)
    return with_info(
        recording,
        java_version="",
        main_class="",
        command_line=("/usr/sbin/nginx", "-g", "daemon off;"),
        coverage=("blocks allocated before the attach are not recorded",),
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
    live["probability"] = -np.expm1(-sizes / simulation.INTERVAL)
    times = np.linspace(0, 60, snapshots + 1)[1:]
    series = np.zeros(snapshots * len(stacks), SERIES)
    series["time"] = np.repeat(times, len(stacks))
    series["stack"], series["samples"] = np.tile(np.arange(1, len(stacks) + 1), snapshots), 1
    for name in ("live_bytes", "allocated_bytes", "live_blocks", "allocated_blocks"):
        steps = random.pareto(1.2, (snapshots, len(stacks))) * (5000 if name.endswith("bytes") else 9) + 1
        series[name] = steps.cumsum(axis=0).ravel()
    return simulation.build(
        [(), *stacks],
        [0] + [1] * len(stacks),
        ["worker"],
        live,
        series,
        duration=60,
        interval=simulation.INTERVAL,
        times=times[:1],  # more of them take long to add up, and are in the series
    )


def plain(text: str) -> str:
    """The text with ordinary spaces in place of no-break spaces."""
    return text.replace("\xa0", " ")
