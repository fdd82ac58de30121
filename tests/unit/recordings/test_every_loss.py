"""Every report on a recording with every kind of loss: the report states the loss and does not fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from harness.recordings.live_file_writer import LiveFileWriter, gap, hook, java, native
from offheap.cli.main import main
from offheap.probe.contract import Coverage, Loss, MethodState, Mode, Section, StackKind, State

TICKS = 3000  # of 10 ms: half a minute
BLOCKS = 3000
COUNT = 1234  # of lost records

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
    if Loss.LOST_THREADS in losses:
        del writer.rows[Section.THREADS][1:]
    return writer.write(folder / "a.live")


def every_report(path: Path, folder: Path, capfd: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The output of each report; only a gate may return a failure."""
    told = {}
    reports: list[tuple[str, ...]] = [
        ("leaks", "FILE", "--all", "--full"),
        ("leaks", "FILE", "--json"),
        ("check", "FILE"),
        ("check", "FILE", "--json", "--max-growth", "1KiB/min"),
        ("check", "FILE", "--github", "--junit", "OUT/junit.xml"),
        ("check", "FILE", "--no-new-leaks", "--baseline", "FILE"),
        ("summary", "FILE", "--full"),
        ("tree", "FILE", "--json"),
        ("tree", "FILE"),
        ("stats", "FILE"),
        ("stats", "FILE", "--json"),
        ("diff", "FILE", "FILE", "--all"),
        ("diff", "FILE", "FILE", "-o", "OUT/diff.html"),
        ("nmt", "FILE", "--detail"),
        *(("report", "FILE", "-o", f"OUT/a.{kind}") for kind in ("html", "md", "json", "txt")),
    ]
    for words in reports:
        arguments = [str(path) if word == "FILE" else word.replace("OUT", str(folder)) for word in words]
        status = main(arguments)
        out, err = capfd.readouterr()
        assert status in ((0, 1, 3) if words[0] == "check" else (0,)), f"{words}: {err}"
        assert err == "", f"{words}: {err}"
        told[" ".join(words)] = out
    return told


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
    lost = json.loads(told["stats FILE --json"])["recording"]["lost"]
    lost.pop("samples")
    assert lost == ({} if loss is Loss.JAVA_JOINED else {loss.name.lower(): COUNT})
    if loss is not Loss.JAVA_JOINED:
        assert "1,234" in told["stats FILE"]
    assert json.loads(told["leaks FILE --json"])["suspects"]


@pytest.mark.parametrize("mode", list(Mode))
def test_every_report_on_all_losses_at_once(
    mode: Mode, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told = every_report(live_file(tmp_path, list(Loss), _unknown, StackKind.MALLOC, mode), tmp_path, capfd)
    lost = json.loads(told["stats FILE --json"])["recording"]["lost"]
    assert lost.pop("samples") == 3 * COUNT
    assert lost == {loss.name.lower(): COUNT for loss in Loss if loss is not Loss.JAVA_JOINED}
