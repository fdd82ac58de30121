"""Every report on a recording with every kind of loss: the report states the loss and does not fail."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import offheap
from harness.peers.answering_server import AnsweringServer, Serve
from harness.recordings.live_file_writer import LiveFileWriter, gap, hook, java, java_class, native
from harness.screens.driven_app import Driven, drive
from offheap.analysis.live.view import View
from offheap.cli.main import main
from offheap.formats.exported.formats import FORMATS
from offheap.jfr.event_text import requests
from offheap.jfr.recorded_events import events
from offheap.live.follower import Follower
from offheap.probe.contract import Coverage, Loss, MethodState, Mode, Section, StackKind, State
from offheap.push.destination import KINDS
from offheap.recording import load
from offheap.recording.capture.live_source import follow
from offheap.recording.capture.recorder import record
from offheap.recording.storage.parquet_parts import connect, write_parquet

TICKS = 3000  # of 10 ms: half a minute
BLOCKS = 3000
COUNT = 1234  # of lost records
MIB = 1 << 20
OWNERS = ("java-heap", "malloc", "thread-stacks", "unattributed")

Fault = Callable[[LiveFileWriter], Sequence[int]]


def _whole(writer: LiveFileWriter) -> list[int]:
    method = writer.method("Lcom/example/Shop;", "open", "Shop.java", ((0, 10), (5, 11)))
    return [hook("malloc"), native(writer.module("/usr/lib/libz.so.1", b"\1" * 20), 0x1000), java(method, 2)]


def _no_stack(writer: LiveFileWriter) -> list[int]:
    return []


def _no_method(writer: LiveFileWriter) -> list[int]:
    writer.method("Lcom/example/Shop;", "open")
    return [hook("malloc"), java(70_000, 3)]  # the slot is beyond the table


def _unnamed_method(writer: LiveFileWriter) -> list[int]:
    return [hook("malloc"), java(writer.method("", "", state=MethodState.UNLOADED), 3)]


def _no_strings(writer: LiveFileWriter) -> list[int]:
    return [hook("malloc"), native(writer.module("", b"\1" * 20), 0x1000), java(writer.method("", ""), 2)]


def _no_module(writer: LiveFileWriter) -> list[int]:
    return [hook("malloc"), 0x7F1234567890, native(4000, 0x1000)]


def _no_unwind(writer: LiveFileWriter) -> list[int]:
    return [hook("malloc"), gap(255)]


def _no_java(writer: LiveFileWriter) -> list[int]:
    return [hook("malloc"), gap(3)]


def _inexact(writer: LiveFileWriter) -> list[int]:
    return [hook("malloc"), java(writer.method("Lcom/example/Shop;", "open"), -4)]


def _unknown(writer: LiveFileWriter) -> list[int]:
    return [3 << 60 | 999, 7 << 60 | 5, gap(77)]


# The leak's stack under each loss.
FAULTS: dict[Loss, Sequence[Fault]] = {
    Loss.LOST_BLOCKS: (_whole,),
    Loss.LOST_RANGES: (_whole,),
    Loss.LOST_UNMAPS: (_whole,),
    Loss.LOST_STACKS: (_no_stack,),
    Loss.LOST_METHODS: (_no_method, _unnamed_method),
    Loss.LOST_STRINGS: (_no_strings,),
    Loss.LOST_THREADS: (_whole,),
    Loss.LOST_MODULES: (_no_module,),
    Loss.LOST_UNWINDS: (_no_unwind, _unknown),
    Loss.LOST_JAVA: (_no_java,),
    Loss.LOST_REENTRIES: (_whole,),
    Loss.LOST_OBJECTS: (_whole,),
    Loss.TRUNCATED: (_whole,),
    Loss.JAVA_JOINED: (_whole,),
    Loss.JAVA_INEXACT: (_inexact,),
}
OF_MAPPINGS = (Loss.LOST_RANGES, Loss.LOST_UNMAPS)
CASES = [
    (loss, fault, StackKind.MMAP if loss in OF_MAPPINGS else StackKind.MALLOC)
    for loss, faults in FAULTS.items()
    for fault in faults
]


def test_no_loss_is_left_out() -> None:
    assert set(FAULTS) == set(Loss)


def leak(writer: LiveFileWriter, frames: Sequence[int], kind: StackKind) -> None:
    """An equal number of blocks each second, never freed, at one stack; "no stack" without frames."""
    stack = writer.stack(*frames, kind=kind) if frames else 0
    numbers = np.arange(BLOCKS)
    births = 1 + numbers * TICKS // BLOCKS
    if kind is StackKind.MMAP:
        for number, birth in zip(numbers[:300].tolist(), births[::10].tolist(), strict=True):
            start = (1 << 41) + (number << 20)
            writer.range(start, start + 65536, stack, birth)
    else:
        writer.blocks(16 * (numbers + 1), np.full(BLOCKS, 7000), np.full(BLOCKS, stack), births, numbers % 3)
    writer.count(stack, BLOCKS, BLOCKS, BLOCKS * 7000)
    other = writer.stack(hook("malloc"), java(writer.method("Lcom/example/Other;", "run"), 0))
    writer.block(1 << 40, 100, other, birth=10)
    writer.count(other, 1, 1, 100)


def keep_objects(writer: LiveFileWriter) -> None:
    """Objects at one stack, an equal number each second; half of them are older than the last collection."""
    writer.follow_objects(
        64 << 10,
        followed=400,
        most=400,
        collections=1,
        collected=TICKS // 2,
        swept_ns=writer.start_monotonic_ns + TICKS // 2 * 10**7,
        spent_ns=10**6,
    )
    method = java(writer.method("Lcom/example/Carts;", "open", "Carts.java", ((0, 10),)), 6)
    array = writer.stack(java_class(writer.string("[B")), method, kind=StackKind.JAVA)
    writer.objects([100 << 10] * 400, [array] * 400, np.linspace(1, TICKS - 1, 400).astype(int))
    writer.count(array, 400, 400, 400 * (100 << 10))


def live_file(
    folder: Path, losses: Sequence[Loss], frames: Fault, kind: StackKind, mode: Mode = Mode.EXACT
) -> Path:
    writer = LiveFileWriter(
        mode=mode,
        pid=1 << 22,  # no process has this PID
        process_start=1,
        losses=dict.fromkeys(losses, COUNT),
        coverage=Coverage(sum(Coverage)) if len(losses) > 1 else Coverage(0),
    )
    writer.state = State.EXITED
    writer.stop_monotonic_ns = writer.start_monotonic_ns + TICKS * 10**7
    writer.property("java.version", "17.0.9")
    leak(writer, frames(writer), kind)
    if Loss.LOST_OBJECTS in losses:
        keep_objects(writer)
    if Loss.LOST_THREADS in losses:
        del writer.rows[Section.THREADS][1:]
    return writer.write(folder / "a.live")


def finished(live: Path, folder: Path) -> Path:
    """The recording of a live file, which goes; with the owners of RSS that a recorder reads of a process."""
    path = folder / "a.offheap"
    record(live, path)
    seconds = TICKS // 100
    held = np.array([200 * MIB, 50 * MIB, 10 * MIB, MIB]) + np.outer(np.arange(seconds), [0, MIB, 0, 0])
    columns: dict[str, NDArray[Any]] = {
        "time": np.repeat(np.arange(seconds, dtype=np.float64), len(OWNERS)),
        "owner": np.array(OWNERS * seconds, object),
        "bytes": held.ravel().astype(np.float64),
    }
    with contextlib.closing(connect()) as connection:
        write_parquet(connection, path / "owners" / "000001.parquet", "SELECT * FROM data", data=columns)
    return path


def every_report(path: Path, folder: Path, capfd: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The output of each report; only a gate may return a failure."""
    reports: list[tuple[str, ...]] = [
        ("leaks", "FILE", "--all", "--full"),
        ("leaks", "FILE", "--json"),
        ("check", "FILE"),
        ("check", "FILE", "--json", "--max-growth", "1KiB/min"),
        ("check", "FILE", "--github", "--junit", "OUT/junit.xml"),
        ("check", "FILE", "--no-new-leaks", "--baseline", "FILE"),
        ("check", "FILE", "--max-java-growth", "1KiB/min"),
        ("summary", "FILE", "--full"),
        ("summary", "FILE", "--json"),
        ("tree", "FILE", "--json"),
        ("tree", "FILE"),
        ("stats", "FILE"),
        ("stats", "FILE", "--json"),
        ("diff", "FILE", "FILE", "--all"),
        ("diff", "FILE", "FILE", "--json"),
        ("diff", "FILE", "FILE", "-o", "OUT/diff.html"),
        ("nmt", "FILE", "--detail"),
        *(("report", "FILE", "-o", f"OUT/a.{kind}") for kind in ("html", "md", "json", "txt", "svg")),
    ]
    return answers(reports, path, folder, capfd)


def every_report_of_a_finished_one(
    path: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> dict[str, str]:
    """The output of each report that needs a recording on disk."""
    reports: list[tuple[str, ...]] = [
        ("where", "FILE"),
        ("where", "FILE", "--json"),
        ("stats", "FILE", "--json"),
        ("symbolize", "FILE", "-o", "OUT/named.offheap", "--sysroot", "OUT", "--json"),
        ("anonymize", "OUT/named.offheap", "-o", "OUT/hashed.offheap", "--json"),
        ("stats", "OUT/hashed.offheap", "--json"),
    ]
    return answers(reports, path, folder, capfd)


def answers(
    reports: Sequence[tuple[str, ...]], path: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> dict[str, str]:
    told = {}
    for words in reports:
        arguments = [str(path) if word == "FILE" else word.replace("OUT", str(folder)) for word in words]
        status = main(arguments)
        out, err = capfd.readouterr()
        assert status in ((0, 1, 3) if words[0] == "check" else (0,)), f"{words}: {err}"
        assert err == "", f"{words}: {err}"
        told[" ".join(words)] = out
    return told


def every_export(path: Path) -> None:
    recording = load(path)
    for name, known in FORMATS.items():
        assert known.write(recording, "both", "inuse_space"), name
    assert list(requests(events(recording))), "for JDK Flight Recorder"


def every_push(path: Path, server: AnsweringServer, capfd: pytest.CaptureFixture[str]) -> None:
    for number, kind in enumerate(KINDS, 1):
        assert main(["push", str(path), f"--{kind}", server.url]) == 0
        assert capfd.readouterr().err == "offheap: 1 profile sent\n"
        assert len(server.requests) == number


def live_view(path: Path) -> tuple[Follower, View]:
    with contextlib.closing(follow(path)) as source:
        follower = Follower(source)
        view = follower.advance()
        assert view
        return follower, view


def first_screen(path: Path, folder: Path) -> str:
    """The screens of `offheap live`, in one text."""
    screen = ""

    async def steps(app: Driven) -> None:
        nonlocal screen
        screen = "\n".join((app.head, app.table.text))

    follower, view = live_view(path)
    drive(follower, view, steps, folder, owners=follower.owners)
    return screen


def lost_in(document: str) -> dict[str, int]:
    lost: dict[str, int] = json.loads(document)["recording"]["lost"]
    return lost


@pytest.mark.parametrize(
    ("loss", "fault", "kind"),
    CASES,
    ids=[f"{loss.name}{fault.__name__}-{kind.name}" for loss, fault, kind in CASES],
)
def test_every_report_on_one_kind_of_loss(
    loss: Loss, fault: Fault, kind: StackKind, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = live_file(tmp_path, [loss], fault, kind)
    told = every_report(path, tmp_path, capfd)
    lost = lost_in(told["stats FILE --json"])
    lost.pop("samples")
    assert lost == ({} if loss is Loss.JAVA_JOINED else {loss.name.lower(): COUNT})
    if loss is Loss.LOST_OBJECTS:
        assert "1,234 sampled objects found no place" in told["leaks FILE --all --full"]
    if loss is not Loss.JAVA_JOINED:
        assert "1,234" in told["stats FILE"]
    assert json.loads(told["leaks FILE --json"])["suspects"]


@pytest.mark.parametrize("mode", list(Mode))
def test_every_report_on_all_losses_at_once(
    mode: Mode, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    check_all_losses(live_file(tmp_path, list(Loss), _unknown, StackKind.MALLOC, mode), tmp_path, capfd)


def test_every_report_on_all_losses_of_a_finished_recording(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    live = live_file(tmp_path, list(Loss), _unknown, StackKind.MALLOC, Mode.SAMPLED)
    path = finished(live, tmp_path)
    check_all_losses(path, tmp_path, capfd)
    assert "PID 4194304" in first_screen(path, tmp_path)


def check_all_losses(path: Path, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lost = lost_in(every_report(path, folder, capfd)["stats FILE --json"])
    assert lost.pop("samples") == 3 * COUNT
    assert lost == {loss.name.lower(): COUNT for loss in Loss if loss is not Loss.JAVA_JOINED}


@pytest.mark.parametrize(
    ("losses", "fault", "kind"),
    [
        *(([loss], fault, kind) for loss, fault, kind in CASES),
        (list(Loss), _unknown, StackKind.MALLOC),
    ],
    ids=[*(f"{loss.name}{fault.__name__}-{kind.name}" for loss, fault, kind in CASES), "all"],
)
def test_every_report_on_a_finished_recording(
    losses: list[Loss],
    fault: Fault,
    kind: StackKind,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    serve: Serve,
) -> None:
    live = live_file(tmp_path, losses, fault, kind)
    assert live_view(live)[1].names.suspects
    path = finished(live, tmp_path)
    told = every_report_of_a_finished_one(path, tmp_path, capfd)
    before = lost_in(told["stats FILE --json"])
    before.pop("samples")
    assert before == {loss.name.lower(): COUNT for loss in losses if loss is not Loss.JAVA_JOINED}
    after = lost_in(told["stats OUT/hashed.offheap --json"])
    after.pop("samples")
    assert after == before
    owners = {one["owner"]: one for one in json.loads(told["where FILE --json"])["owners"]}
    assert owners["malloc"]["growth_bytes_per_second"]["estimate"] == pytest.approx(MIB)
    every_export(path)
    every_push(path, serve(), capfd)
    assert live_view(path)[1].names.suspects
    opened = offheap.open(path)
    assert opened.answer
    assert opened.info.lost == before
    assert len(opened.sql("SELECT * FROM sites").fetchall()) == len(opened.sites) > 0
    assert (opened.java_heap is not None) == (Loss.LOST_OBJECTS in losses)
    assert opened._repr_markdown_()
    assert opened._repr_html_()
