"""Many live blocks of a real JVM, recorded with `exact`: the recording contains all of them."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from harness.command_line import offheap
from harness.jvms.waiting_jvm import read_line
from harness.paths import JAVA
from offheap.recording import load

SOURCE = JAVA / "ManyBlocks.java"
COUNT = 1_200_000
# With these options the table begins with 1,048,576 rows, and may grow by half as many.
OPTIONS = ("--exact", "--memory", "48MiB")

pytestmark = pytest.mark.usefixtures("probe_library")


@pytest.fixture(scope="module")
def classes(jdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    javac = jdk / "bin" / "javac"
    command: list[str | Path] = [javac, "--release", "11", "-nowarn", "-d", folder, SOURCE]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


def started(command: Sequence[str | Path], folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def go(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin
    process.stdin.write(b"\n")
    process.stdin.flush()


@pytest.mark.parametrize(("version", "way"), [(11, "attach"), (25, "run")])
def test_a_jvm_that_holds_many_blocks(
    version: int, way: str, jre: Callable[[int], Path], classes: Path, tmp_path: Path
) -> None:
    java: list[str | Path] = [jre(version), "-Xmx64m", "-cp", classes, "ManyBlocks", str(COUNT)]
    output = tmp_path / "a.offheap"
    run = offheap("run", *OPTIONS, "-o", str(output), "--")
    jvm = started([*run, *java] if way == "run" else java, tmp_path)
    processes = [jvm]
    try:
        assert read_line(jvm, 60) == b"ready\n"
        if way == "attach":
            recorder = started(offheap("attach", str(jvm.pid), *OPTIONS, "-o", str(output)), tmp_path)
            processes.append(recorder)
            deadline = time.monotonic() + 60
            while not (output / "meta.json").exists():
                assert recorder.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
        go(jvm)
        assert read_line(jvm, 120) == b"held\n"
        if way == "attach":
            recorder.send_signal(signal.SIGINT)
            _, problems = recorder.communicate(timeout=120)
            assert recorder.returncode == 0, problems
        go(jvm)
        _, problems = jvm.communicate(timeout=120)
        assert jvm.returncode == 0, problems
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    recording = load(output)
    assert "lost_blocks" not in recording.info.lost
    sizes = recording.live["size"]
    of_them = sizes[(sizes >= 1_001) & (sizes < 1_009)]
    assert COUNT <= len(of_them) < COUNT + 1_000
    per_stack = np.bincount(recording.live["stack"])
    names = [frame.name for frame in recording.stack(int(per_stack.argmax()))]
    assert "ManyBlocks.hold" in names
