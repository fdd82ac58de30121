"""Stacks of real frameworks: the names in the headline, and the frames that a short view keeps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.recordings.framework_stacks import recorded
from harness.simulation import Leak, Process
from offheap.analysis.leaks.leaks import ranking
from offheap.analysis.stacks.blame import blamed, nobody_called, through
from offheap.analysis.stacks.folding import folds
from offheap.analysis.stacks.packages import Application
from offheap.report.json import schemas as json_report
from offheap.report.text.site_lines import site_lines
from offheap.report.ticket import suspects as ticket_report
from offheap.report.tui.site_export import stack_lines

MOST_LINES = 20  # a suspect with its figures fits a screen

# By recording: the headline, and the other frames that a short view of the stack must keep.
TRUTH: dict[str, tuple[str, tuple[str, ...]]] = {
    "netty": (
        "io.netty.buffer.AbstractByteBufAllocator.directBuffer, called by "
        "com.example.audit.AuditServer$AuditHandler.record",
        (
            "malloc",
            "java.nio.ByteBuffer.allocateDirect",
            "com.example.audit.AuditServer$AuditHandler.channelRead0",
        ),
    ),
    "jetty": (
        "org.eclipse.jetty.io.ArrayByteBufferPool.acquire, called by "
        "com.example.exports.Exports$ExportHandler.buildExport",
        ("malloc", "com.example.exports.Exports$ExportHandler.handle", "java.lang.Thread.run"),
    ),
    "hikari": (
        "org.sqlite.jdbc3.JDBC3Connection.prepareStatement, called by "
        "com.example.ledger.PooledLedger.balance",
        ("Java_org_sqlite_core_NativeDB_prepare_1utf8", "com.example.ledger.PooledLedger.lambda$main$0"),
    ),
    "tcnative": (
        "io.netty.handler.ssl.ReferenceCountedOpenSslContext.newEngine, called by "
        "com.example.gateway.Upstreams.tryUpstream",
        ("io.netty.internal.tcnative.SSL.bioNewByteBuffer", "com.example.load.Load.lambda$submit$1"),
    ),
    "agent": (
        "liblifetimes.so callback (SampledObjectAlloc), in lifetimes::remember",
        ("on_sampled_allocation", "com.example.parsing.OrderParser.parse"),
    ),
}


def application(main: str) -> Application:
    return Application.of(replace(Process(1).record(exact=True).info, main_class=main))


def matches(shown: str, name: str) -> bool:
    return shown == name or shown.startswith(f"{name}(")


@pytest.mark.parametrize("name", TRUTH)
@pytest.mark.parametrize("launched_by", ["its main class", "a jar"])
def test_the_headline_names_the_library_and_the_application(name: str, launched_by: str) -> None:
    stack, main = recorded(name)
    # The main class of a jar is unknown: only the table of frameworks and the stack tell the application.
    its = application(main if launched_by == "its main class" else "/opt/shop.jar")
    assert through(stack, blamed(stack, its)) == TRUTH[name][0]
    assert nobody_called(stack, its) == ""


@pytest.mark.parametrize("name", TRUTH)
def test_a_short_view_keeps_the_application_and_names_what_it_leaves_out(name: str) -> None:
    stack, main = recorded(name)
    chosen = blamed(stack, application(main))
    found = folds(stack, chosen)
    left_out = {index for fold in found for index in range(fold.start, fold.stop)}
    shown = [frame.name for index, frame in enumerate(stack) if index not in left_out]
    for wanted in (*TRUTH[name][1], chosen.name, stack[-1].name):
        assert any(matches(each, wanted) for each in shown), wanted
    assert len(shown) + len(found) <= MOST_LINES
    assert all(" of " in fold.text for fold in found)


@pytest.mark.parametrize("name", TRUTH)
def test_every_report_says_the_same(name: str) -> None:
    stack, main = recorded(name)
    process = Process(duration=30, seed=2)
    process.add(stack, Leak(100, 8192))
    recording = process.record(exact=True)
    recording = replace(recording, info=replace(recording.info, main_class=main))
    (first,) = ranking(recording)
    chosen, headline = first.blamed.name, TRUTH[name][0]
    value = json_report.suspect(first)
    assert value["headline"].startswith(headline)
    assert value["blamed"]["name"] == chosen
    for lines in (ticket_report.stack(first), stack_lines(first), site_lines(first, 10)):
        (marked,) = [line for line in lines if line.startswith(">")]
        assert chosen.partition("(")[0] in marked
    assert ticket_report.stack(first) == [line.rstrip() for line in stack_lines(first)]


def test_the_reader_says_whose_code_is_the_applications(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stack, _ = recorded("netty")
    process = Process(duration=30, seed=2)
    process.add(stack, Leak(100, 8192))
    recording = process.record(exact=True)
    monkeypatch.setattr("offheap.recording.load", lambda path: recording)
    from offheap.cli.main import main as command

    def headline(*options: str) -> str:
        assert command(["leaks", "x.offheap", "--json", *options]) == 0
        found: str = json.loads(capsys.readouterr().out)["suspects"][0]["headline"]
        return found

    assert headline() == TRUTH["netty"][0]
    assert headline("--app", "io.netty.channel.").endswith(
        "called by io.netty.channel.SimpleChannelInboundHandler.channelRead"
    )
    assert headline("--app", "org.other", "--app", "com.example.audit.*") == TRUTH["netty"][0]
    assert command(["leaks", "x.offheap", "--app", "not a package"]) == 2
    assert "is not a Java package, such as com.acme" in capsys.readouterr().err
