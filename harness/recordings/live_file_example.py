"""A live file with a bit of everything, and where to damage it."""

from __future__ import annotations

from pathlib import Path

from harness.recordings.live_file_writer import INTERVAL, LiveFileWriter, gap, hook, java, native
from offheap.errors import UserError
from offheap.probe.contract import Coverage, Loss, MethodState, Mode, StackKind
from offheap.recording import load


def example(mode: Mode = Mode.SAMPLED) -> LiveFileWriter:
    """Two stacks with a bit of everything."""
    writer = LiveFileWriter(
        mode=mode, coverage=Coverage.NO_LDSO, losses={Loss.LOST_JAVA: 3, Loss.JAVA_JOINED: 7}
    )
    somewhere = writer.module("/nowhere/libfoo.so", bytes(range(20)))
    init = writer.method("Ljava/util/zip/Inflater;", "init", "Inflater.java")
    unpack = writer.method("Lcom/example/Shop;", "unpack", "Shop.java", ((0, 10), (5, 12), (9, 11)))
    gone = writer.method("", "", state=MethodState.UNLOADED)
    stack = writer.stack(
        hook("malloc"), native(somewhere, 0x1234), java(init, -3), java(unpack, 7), java(gone, 0)
    )
    other = writer.stack(hook("mmap"), 0x7F1234567890, gap(4), kind=StackKind.MMAP)
    main = writer.thread("main")
    writer.block(0x1000, 100, stack, birth=150, thread=main)
    writer.block(0x2000, INTERVAL, stack, birth=250)
    writer.range(0x7F0000000000, 0x7F0000010000, other, birth=50, length=0x20000)
    writer.count(stack, 5, 9.5, 7000)
    writer.count(stack, 2, 0.5, 1000)
    writer.property("java.version", "17.0.9")
    writer.property("sun.java.command", "com.example.Shop --open")
    writer.property("cmdline", "java\x1f-Xmx1g\x1f-cp\x1fa.jar\x1fcom.example.Shop\x1f--open")
    return writer


GOOD = example().bytes()
# The header and the beginnings of the sections: the rest is unused rows.
PLACES = [
    *range(768),
    *range(2816, 2864),
    *(at + n for at in range(4096, len(GOOD), 4096) for n in range(200)),
]


def read_all(path: Path) -> None:
    """Reads everything; an error other than UserError is a bug."""
    try:
        recording = load(path)
    except UserError:
        return
    for number in range(len(recording.stack_offsets) - 1):
        assert all(frame.name for frame in recording.stack(number))
    assert (recording.live["thread"] < len(recording.threads)).all()
    assert (recording.live["stack"] < len(recording.stack_kinds)).all()
    assert (recording.live["probability"] > 0).all()
