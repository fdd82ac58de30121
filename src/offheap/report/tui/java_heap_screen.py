"""The Java heap, over the table of the live view: its answer, its books, its suspects, its classes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from offheap.analysis.java_heap.answer import answer as java_answer
from offheap.analysis.java_heap.results import JavaHeapReport
from offheap.analysis.leaks.results import Suspect
from offheap.analysis.stacks.namesakes import Mark, apart, brief
from offheap.report.text import java_heap as words
from offheap.report.text import namesakes
from offheap.report.text.printable import printable
from offheap.report.tui import live_text
from offheap.report.tui.screens import Overlay
from offheap.report.tui.widgets import BOLD, DIM, PLAIN, Line, Pager

_EVERY = 1.0  # seconds between questions whether the verdicts are new
_SITES, _CLASSES = 8, 10  # rows: both fit a terminal of 40 lines beside the answer and the books

Heap = Callable[[], JavaHeapReport | None]


class JavaHeapScreen(Overlay):
    """The Java heap as `heap` has it; the same object again means that nothing is new."""

    keys = "Esc back  up down pgup pgdn scroll"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter,left,h", "close", show=False)]

    def __init__(self, heap: Heap) -> None:
        super().__init__()
        self._heap = heap

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(Pager).show([("reading the Java heap ...", DIM)])
        self.run_worker(self._follow())

    async def _follow(self) -> None:
        shown: JavaHeapReport | None = None
        while True:
            # In a thread: keys must not wait for the verdicts of many sites.
            found = await asyncio.to_thread(self._heap)
            if found is not None and found is not shown:
                shown = found
                self.query_one(Pager).show(java_heap_lines(found))
            await asyncio.sleep(_EVERY)


def java_heap_lines(report: JavaHeapReport) -> list[Line]:
    """What leaks first, then how much is live and by what class, then what the figures leave out."""
    facts = [
        words.live(report) and f"live       {words.live(report)}",
        words.books(report) and f"           {words.books(report)}",
        words.uncollected(report) and f"younger    {words.uncollected(report)}",
    ]
    lines: list[Line] = [(printable(java_answer(report)), BOLD), ("", PLAIN)]
    lines += [(printable(fact), PLAIN) for fact in facts if fact]
    sites = report.suspects[:_SITES]
    if sites:
        lines += [("", PLAIN), (_site("live", "growth", "95 % interval", "site"), BOLD)]
        marks = apart([one.site for one in sites], [one.blamed for one in sites], brief)
        lines += [_suspect(report, one, its) for one, its in zip(sites, marks, strict=True)]
    if report.classes:
        lines += [("", PLAIN), (f"  {'live':>8} {'objects':>9}  class", BOLD)]
        for one in report.classes[:_CLASSES]:
            _, objects, _ = words.class_figures(one)
            live = live_text.short_size(one.live_bytes.estimate)
            lines.append((f"  {live:>8} {objects:>9}  {printable(one.name)}", PLAIN))
    lines += [("", PLAIN), *((printable(sentence), DIM) for sentence in report.coverage)]
    return lines


def _suspect(report: JavaHeapReport, one: Suspect, marks: Sequence[Mark]) -> Line:
    """`marks`: what tells the site from others of its name; the caller says more where there are none."""
    beside = f" {printable(namesakes.beside(marks, brief))}" if marks else live_text.called(one)
    unit = report.suspects.rate_unit
    growth = one.growth_bytes_per_second
    text = _site(
        live_text.short_size(one.site.live_bytes.estimate),
        live_text.rate(growth, unit),
        live_text.rate_interval(growth, unit),
        f"{live_text.label(one)}{beside}  new {printable(one.object_class)}",
    )
    return f"{live_text.MARKS[one.verdict]}{text[1:]}", BOLD if one.verdict == "leak" else PLAIN


def _site(live: str, growth: str, interval: str, site: str) -> str:
    return f"  {live:>8} {growth:>12} {interval:>15} {site}"
