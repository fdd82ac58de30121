"""A recording with a bit of everything, written as the recorder writes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from offheap.recording.build_recording import NumberedStacks
from offheap.recording.model import LIVE, PROCESS, SERIES, Frame, Info, Module
from offheap.recording.storage.writer import RecordingWriter

FRAMES = {
    0: (Frame("malloc", "native"),),
    1: (
        Frame("allocate", "native", "libfoo.so", "foo.c", 10, inlined=True),
        Frame("build", "native", "libfoo.so", "foo.c", 20),
    ),
    2: (Frame("com.example.Größe.'quote\"\x00\x1b[31m", "java", "", "Größe.java", 7),),
    3: (Frame("unknown Java method", "unknown"),),
}


def info(**changes: object) -> Info:
    values: dict[str, object] = {
        "path": "",
        "pid": 4711,
        "mode": "sampled",
        "interval_bytes": 524288,
        "start": 1.7e9,
        "duration_seconds": 3.0,
        "ended": "exited",
        "entry": "preload",
        "java_version": "17.0.9",
        "main_class": "com.example.Shop",
        "command_line": ("java", "-jar", "größe \udce4.jar"),
        "jvm_flags": ("-Xmx1g",),
        "properties": {"java.version": "17.0.9"},
        "lost": {"lost_java": 3},
        "joined": 99,
        "coverage": ("nothing was seen",),
        "probe_version": "0.1.0",
    }
    return Info(**{**values, **changes})  # type: ignore[arg-type]


def live(stacks: list[int]) -> np.ndarray:
    rows = np.zeros(len(stacks), LIVE)
    rows["stack"], rows["size"], rows["probability"] = stacks, 100, 0.25
    rows["birth"] = np.arange(len(stacks))
    return rows


def series(time: float, stack: int, live_bytes: float) -> np.ndarray:
    rows = np.zeros(1, SERIES)
    rows["time"], rows["stack"], rows["live_bytes"] = time, stack, live_bytes
    return rows


def process(time: float) -> np.ndarray:
    rows = np.zeros(1, PROCESS)
    rows["time"], rows["rss_bytes"] = time, 1 << 30
    return rows


def stacks(first: int, *frames: list[int]) -> NumberedStacks:
    return NumberedStacks(
        np.arange(first, first + len(frames), dtype=np.int64),
        np.ones(len(frames), np.uint8),
        np.array([len(its) for its in frames], np.int64),
        np.array([frame for its in frames for frame in its], np.int64),
    )


def fill(target: RecordingWriter, snapshots: int = 3) -> None:
    """Writes `snapshots` snapshots as the recorder does; stack 2 comes with the second."""
    for n in range(snapshots):
        target.replace_modules([Module("/lib/libfoo.so", "0a0b", 4096, 8192, 0)])
        target.replace_threads(["other threads", "main"])
        chains = {0: {0: FRAMES[0], 1: FRAMES[1]}, 1: {2: FRAMES[2]}}.get(n, {})
        target.append_frames(chains, {number: number + 1000 for number in chains})
        target.append_stacks({0: stacks(0, [], [0, 1]), 1: stacks(2, [0, 2, 3, 1])}.get(n, NumberedStacks()))
        target.replace_live(live([1, 1, 2][: n + 1]))
        target.append_rows("series", series(n, min(n + 1, 2), 100.0 * n))
        target.append_rows("process", process(n))
        target.append_reading(
            n, {"malloc": 100.0 * n, **({"gc": 5.0} if n == 1 else {})}, {"classes": 7.0 + n}
        )
        target.append_collections([("counted", 0.25, 0.25, 0)] if n == 0 else [("young", n, n + 0.1, n)])
        target.append_heap([(n + 0.2, 4096.0 * n)] if n else [])
        target.replace_info(info(duration_seconds=float(n)))


def stored(path: Path) -> Path:
    """Writes the recording to the folder `path`, and returns it."""
    writer = RecordingWriter(path)
    fill(writer)
    writer.finish()
    return path
