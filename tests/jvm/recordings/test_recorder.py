"""The recorder on real JVMs: the recording, and the files that remain when either side is killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from harness import needs
from harness.jvms import java_homes
from harness.jvms.waiting_jvm import waiting_jvm
from harness.jvms.zoo import Running, Zoo, programs
from harness.paths import HARNESS
from harness.recordings.live_file_writer import LiveFileWriter, hook, java
from offheap.errors import UserError
from offheap.probe.contract import MethodState, Section, State
from offheap.probe.live_files import search
from offheap.probe.live_files.search import FoundFile
from offheap.recording import load
from offheap.recording.capture.recorder import Progress, record

Start = Callable[..., contextlib.AbstractContextManager[Running]]


@pytest.fixture
def start(
    zoo: Zoo, jre: Callable[[int], Path], probe_library: Path, tmp_path: Path
) -> Callable[..., contextlib.AbstractContextManager[Running]]:
    """start(17) runs the program that leaks Inflaters on that JVM, preloaded, its live file in tmp_path."""

    @contextlib.contextmanager
    def run(version: int = 17, options: str = "interval=64k", java: Path | None = None) -> Iterator[Running]:
        command = zoo.command(programs()["inflaters"], java or jre(version), 200)
        variables = {"LD_PRELOAD": str(probe_library), "OFFHEAP": f"{options},dir={tmp_path}"}
        with Running(command, variables) as running:
            yield running

    return run


def live_file(folder: Path) -> FoundFile:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = [file for file in search.inside(folder) if file.jvm]
        if found:
            return found[0]
        time.sleep(0.02)
    raise AssertionError("no live file of a JVM")


def test_a_recording_of_a_jvm(start: Start, tmp_path: Path) -> None:
    seen: list[Progress] = []
    with start() as program:
        file = live_file(tmp_path)
        assert file.pid == program.pid
        outcome = record(
            file.path,
            tmp_path / "a.offheap",
            every=0.2,
            duration=60,
            stop=lambda: len(seen) >= 5,
            on_progress=seen.append,
        )
        assert file.path.exists()  # the process goes on writing to it
    assert outcome.ended == "recording"
    assert outcome.snapshots == len(seen) == 6
    recording = load(outcome.output)
    assert recording.info.pid == program.pid
    assert recording.info.java_version.startswith("17.")
    assert recording.info.main_class == "leaks.Inflaters"
    assert "-Xmx128m" in recording.info.jvm_flags
    assert recording.process["time"].tolist() == [progress.seconds for progress in seen]
    assert (recording.process["rss_bytes"] > 10_000_000).all()
    assert (recording.process["threads"] > 5).all()
    assert np.all(np.diff(recording.process["allocated_bytes"]) >= 0)
    assert recording.process["live_bytes"][-1] == pytest.approx(
        (recording.live["size"] / recording.live["probability"]).sum()
    )
    assert recording.info.live_time == recording.info.duration_seconds
    last = {int(row["stack"]): row for row in recording.series}  # the latest row of each stack
    assert sum(row["live_bytes"] for row in last.values()) == pytest.approx(outcome.live_bytes)
    leak = int(np.bincount(recording.live["stack"][recording.live["size"] < 100_000]).argmax())
    names = [frame.name for frame in recording.stack(leak)]
    assert names.index("Java_java_util_zip_Inflater_init") < names.index("java.util.zip.Inflater.init")
    assert not any("liboffheap" in frame.module for frame in recording.frames)


def test_no_more_of_the_jvm_than_asked(start: Start, tmp_path: Path) -> None:
    """The program ends on its own: ended "exited", and the live file is removed."""
    with start() as program:
        file = live_file(tmp_path)
        thread = threading.Timer(0.5, program.exit)
        thread.start()
        outcome = record(file.path, tmp_path / "a.offheap", every=0.1)
        thread.join()
    assert outcome.ended == "exited"
    assert not file.path.exists()
    assert load(outcome.output).info.ended == "exited"


def test_names_come_with_the_recording(start: Start, tmp_path: Path, jre: Callable[[int], Path]) -> None:
    """A recording is portable: without its JRE and at another path, it has every name."""
    runtime = jre(17).parent.parent
    copy = Path(shutil.copytree(runtime, tmp_path / "jre", symlinks=True))
    with start(java=copy / "bin" / "java"):
        file = live_file(tmp_path)
        record(file.path, tmp_path / "a.offheap", every=0.1, duration=0.5)
    before = load(tmp_path / "a.offheap")
    shutil.rmtree(copy)
    moved = shutil.copytree(tmp_path / "a.offheap", tmp_path / "elsewhere" / "b.offheap")
    shutil.rmtree(tmp_path / "a.offheap")
    after = load(moved)
    assert after.frames == before.frames
    named = {frame.name for frame in after.frames if frame.kind == "jvm"}
    assert "JNI_CreateJavaVM" in named
    assert [after.stack(n) for n in range(50)] == [before.stack(n) for n in range(50)]
    # The live file without the JRE gives addresses: the comparison above can fail.
    bare = {frame.name for frame in load(file.path).frames}
    assert "JNI_CreateJavaVM" not in bare


@pytest.mark.parametrize("round", range(5))
@pytest.mark.parametrize("version", java_homes.JRE_VERSIONS)
def test_the_jvm_is_killed(start: Start, tmp_path: Path, version: int, round: int) -> None:
    """kill -9 at a random moment: the recording holds exactly the content of the live file at that moment."""
    with start(version, "exact" if round % 2 else "interval=64k") as program:
        file = live_file(tmp_path)
        kept = tmp_path / "kept.live"
        os.link(file.path, kept)
        moment = random.Random(version * 10 + round).uniform(0, 0.8)
        thread = threading.Timer(moment, os.kill, (program.pid, signal.SIGKILL))
        thread.start()
        outcome = record(file.path, tmp_path / "a.offheap", every=0.05)
        thread.join()
    assert outcome.ended == "killed"
    recording, left = load(outcome.output), load(kept)
    assert recording.info.ended == "killed"
    assert len(left.live) > 0
    assert np.array_equal(recording.live, left.live)
    assert len(recording.process) == outcome.snapshots
    latest = {int(row["stack"]): row for row in recording.series}
    for row in left.series:
        for name in ("live_bytes", "allocated_bytes", "samples"):
            assert latest[int(row["stack"])][name] == pytest.approx(row[name])
    for stack in np.unique(left.live["stack"]).tolist():
        assert recording.stack(stack) == left.stack(stack)


def test_the_recorder_is_killed(start: Start, tmp_path: Path) -> None:
    """kill -9 at 10 random moments: every reported snapshot is in the recording, whole."""
    moments = random.Random(20)
    with start(options="exact"):
        file = live_file(tmp_path)
        server = subprocess.Popen(
            [
                sys.executable,
                str(HARNESS / "recordings" / "recorder_server.py"),
                str(file.path),
                str(tmp_path),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdin
        assert server.stdout
        snapshots = 0
        try:
            for number in range(10):
                began = time.monotonic()
                server.stdin.write(f"{number}.offheap\n")
                server.stdin.flush()
                pid = int(server.stdout.readline().split()[1])
                reported: list[dict[str, float]] = [json.loads(server.stdout.readline())]
                # Some recorders must live until a second snapshot.
                window = max(0.4, 2 * (time.monotonic() - began))
                thread = threading.Timer(moments.uniform(0, window), os.kill, (pid, signal.SIGKILL))
                thread.start()
                while (line := server.stdout.readline()) != "ended\n":
                    # The kill may tear the last line.
                    with contextlib.suppress(json.JSONDecodeError):
                        reported.append(json.loads(line.removesuffix("ended\n")))
                    if line.endswith("ended\n"):
                        break
                thread.join()
                recording = load(tmp_path / f"{number}.offheap")
                times = recording.process["time"].tolist()
                assert times[: len(reported)] == [progress["seconds"] for progress in reported]
                assert len(times) <= len(reported) + 1
                live = recording.process["live_blocks"].tolist()
                assert live[: len(reported)] == [progress["live_blocks"] for progress in reported]
                assert all(recording.stack(stack) for stack in np.unique(recording.series["stack"]) if stack)
                assert len(recording.live) > 0
                # The recorder does not name native frames; the reader does.
                native = [frame for frame in recording.frames if frame.kind in ("native", "jvm")]
                named = [frame for frame in native if "+0x" not in frame.name]
                assert len(named) > len(native) / 2
                assert any(frame.name.startswith("JavaMain") for frame in named)
                snapshots += len(reported)
        finally:
            server.stdin.close()
            server.kill()
            server.wait()
            server.stdout.close()
    assert snapshots > 20


def test_methods_named_late(tmp_path: Path) -> None:
    """A Java frame that gets its name after the first snapshot has the name in the recording."""
    writer = LiveFileWriter()
    slot = writer.method("Lcom/example/Late;", "load", "Late.java", ((0, 5),), state=MethodState.SEEN)
    never = writer.method("", "", state=MethodState.SEEN)
    stack = writer.stack(hook("malloc"), java(slot, 3), java(never, 0))
    writer.block(0x1000, 100, stack)
    path = writer.write(tmp_path / "a.live")
    seen: list[Progress] = []

    def progress(latest: Progress) -> None:
        seen.append(latest)
        if len(seen) == 1:
            row = writer.rows[Section.METHODS][slot]
            writer.rows[Section.METHODS][slot] = (row[0], MethodState.NAMED, *row[2:])
            writer.write(path)

    record(path, tmp_path / "a.offheap", every=0.05, stop=lambda: len(seen) > 2, on_progress=progress)
    names = [frame.name for frame in load(tmp_path / "a.offheap").stack(stack)]
    assert names == ["malloc", "com.example.Late.load", "unknown Java method"]


def test_a_detached_probe_ends_the_recording(tmp_path: Path) -> None:
    writer = LiveFileWriter()
    writer.block(0x1000, 100, writer.stack(hook("malloc")))
    path = writer.write(tmp_path / "a.live")
    seen: list[Progress] = []

    def progress(latest: Progress) -> None:
        seen.append(latest)
        writer.state, writer.stop_monotonic_ns = State.STOPPED, time.monotonic_ns()
        writer.write(path)

    outcome = record(path, tmp_path / "a.offheap", every=0.05, on_progress=progress)
    assert outcome.ended == "detached"
    assert not path.exists()
    assert len(load(outcome.output).live) == 1


def test_what_the_probe_took_does_not_look_like_memory_given_back(
    jre: Callable[[int], Path], waiting_classes: Path, probe_library: Path, tmp_path: Path
) -> None:
    """The last snapshot comes after the probe and its 50 MiB of tables (of every block) are gone."""
    assert probe_library
    output = tmp_path / "a.offheap"
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        command = [
            "attach",
            str(jvm.pid),
            "--exact",
            "--duration",
            "2s",
            "--every",
            "300ms",
            "-o",
            str(output),
        ]
        subprocess.run([sys.executable, "-m", "offheap", *command], check=True, timeout=120)
    rss = load(output).process["rss_bytes"].astype(np.int64)
    assert len(rss) > 3
    assert rss[-1] >= rss[1] - (10 << 20)


def test_a_dead_process_leaves_one_snapshot(tmp_path: Path) -> None:
    writer = LiveFileWriter(process_start=1)
    writer.block(0x1000, 100, writer.stack(hook("malloc")))
    outcome = record(writer.write(tmp_path / "a.live"), tmp_path / "a.offheap")
    assert (outcome.ended, outcome.snapshots) == ("killed", 1)


def test_what_was_waited_for_is_no_cost(tmp_path: Path) -> None:
    """A snapshot that takes a second on a busy machine does not delay the next one by twenty seconds."""
    writer = LiveFileWriter()
    writer.block(0x1000, 100, writer.stack(hook("malloc")))
    waited: list[float] = []
    seen: list[Progress] = []

    def wait() -> bool:
        if len(waited) < 3:  # at the creation of the file, and in two snapshots
            time.sleep(1)
            waited.append(time.monotonic())
        return False

    began = time.monotonic()
    record(
        writer.write(tmp_path / "a.live"),
        tmp_path / "a.offheap",
        stop=lambda: len(seen) >= 3 or time.monotonic() > began + 30,
        collected=wait,
        on_progress=seen.append,
    )
    assert len(waited) == 3
    assert len(seen) >= 4, "no third snapshot before the last, which came after 30 s"


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    writer = LiveFileWriter()
    quiet, busy = writer.stack(hook("malloc")), writer.stack(hook("calloc"))
    writer.block(0x1000, 100, quiet)
    writer.block(0x2000, 100, busy)
    path = writer.write(tmp_path / "a.live")
    seen: list[Progress] = []

    def progress(latest: Progress) -> None:
        seen.append(latest)
        writer.block(0x3000 + 16 * len(seen), 100, busy)
        writer.write(path)

    record(path, tmp_path / "a.offheap", every=0.02, stop=lambda: len(seen) > 3, on_progress=progress)
    series = load(tmp_path / "a.offheap").series
    assert (series["stack"] == quiet).sum() == 1
    assert (series["stack"] == busy).sum() == len(seen)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    needs.mounted(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder])
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_full_disk(start: Start, tmp_path: Path, small_disk: Path) -> None:
    """One line; the JVM goes on, and all earlier data are a recording."""
    with start(options="exact") as program:
        file = live_file(tmp_path)
        seen: list[Progress] = []
        with pytest.raises(UserError, match=r"disk of .* is full"):
            record(file.path, small_disk / "a.offheap", every=0.05, on_progress=seen.append, duration=60)
        assert file.path.exists()
        assert program.truths(1)
        assert program.exit() == 0
    recording = load(small_disk / "a.offheap")
    assert recording.process["time"].tolist()[: len(seen)] == [progress.seconds for progress in seen]
    assert len(seen) > 0
    assert not list(small_disk.rglob("*.writing"))
