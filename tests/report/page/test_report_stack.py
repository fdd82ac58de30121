"""The HTML report's stack of a suspect: a button unfolds it; and an agent's callback."""

from __future__ import annotations

from dataclasses import replace

from harness import simulation
from harness.recordings.framework_stacks import recorded
from harness.screens.report_pages import Open, plain
from offheap.analysis.leaks.leaks import ranking
from offheap.analysis.stacks.folding import folds
from offheap.recording.model import Recording


def leaking(name: str) -> Recording:
    stack, main = recorded(name)
    process = simulation.Process(duration=30, seed=3)
    process.add(stack, simulation.Leak(rate=100, size=8192))
    recording = process.record(exact=True)
    return replace(recording, info=replace(recording.info, main_class=main))


def test_a_long_stack_is_folded_and_whole_at_a_button(open_report: Open) -> None:
    recording = leaking("netty")
    (first,) = ranking(recording)
    page = open_report(recording)
    answer = plain(page.inner_text("#answer"))
    assert "What com.example.audit.AuditServer$AuditHandler.record (AuditServer.java:" in answer
    assert "allocates through io.netty.buffer.AbstractByteBufAllocator.directBuffer grows by" in answer
    left_out = folds(first.site.stack, first.blamed)
    lines = page.locator("#suspect-1 ol.stack li")
    shown = len(first.site.stack) - sum(fold.stop - fold.start for fold in left_out) + len(left_out)
    assert lines.count() == shown < len(first.site.stack)
    texts = page.locator("#suspect-1 li.left-out").all_inner_texts()
    assert texts == [fold.text for fold in left_out]
    assert page.inner_text("#suspect-1 li.blamed .name").endswith("AuditHandler.record")
    page.click("#suspect-1 button.fold")
    assert lines.count() == len(first.site.stack)
    page.click("#suspect-1 button.fold")
    assert lines.count() == shown


def test_an_agents_callback_is_named(open_report: Open) -> None:
    page = open_report(leaking("agent"))
    answer = plain(page.inner_text("#answer"))
    assert "What liblifetimes.so callback (SampledObjectAlloc), in lifetimes::remember" in answer
    assert "triggered by allocations in com.example.parsing.OrderParser.parse" in answer
    row = plain(page.inner_text("tr.suspect"))
    assert "liblifetimes.so callback (SampledObjectAlloc)" in row
