"""`offheap trim` on real JVMs whose malloc keeps much memory after a burst."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import needs
from harness.jvms.waiting_jvm import WaitingJVM, read_line
from harness.paths import JAVA
from harness.plugins.rotation import one_of
from harness.warm_command import warm

MIB = 1 << 20

pytestmark = needs.tracing


@pytest.fixture(scope="module")
def burst(jdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("burst")
    source = JAVA / "Burst.java"
    # No --release: no release's interface contains jdk.unsupported.
    command = [str(jdk / "bin" / "javac"), "-nowarn", "-source", "11", "-target", "11", "-d", str(folder)]
    subprocess.run([*command, str(source)], check=True, capture_output=True, timeout=120)
    return folder


@contextmanager
def bursting(java: Path, classes: Path) -> Iterator[WaitingJVM]:
    with open(classes / "stderr", "wb") as stderr:
        process = subprocess.Popen(
            [str(java), "-Xmx64m", "-XX:+UseSerialGC", "-cp", str(classes), "Burst"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
    try:
        assert read_line(process, 60) == b"ready\n"
        yield WaitingJVM(process, classes / "stderr")
    finally:
        process.kill()
        process.communicate()
        Path(f"/tmp/.java_pid{process.pid}").unlink(missing_ok=True)


def offheap(*arguments: object, status: int = 0) -> str:
    outcome = warm(*map(str, arguments))
    assert outcome.returncode == status, outcome.stderr
    return outcome.stderr if status else outcome.stdout


def check(pid: int, how: str) -> None:
    told = json.loads(offheap("trim", pid, "--json"))
    assert told["schema"] == "offheap.trim/1"
    assert told["how"] == how
    before, after = told["before"], told["after"]
    assert before["trimmable_bytes"] > 40 * MIB
    assert after["trimmable_bytes"] < 2 * MIB
    given_back = before["rss_bytes"] - after["rss_bytes"]
    foretold = before["trimmable_bytes"] - after["trimmable_bytes"]
    assert given_back == pytest.approx(foretold, rel=0.03)
    assert before["free_resident_bytes"] - after["free_resident_bytes"] == pytest.approx(foretold, rel=0.03)


@pytest.mark.parametrize("version", one_of([17, 21, 25]))
def test_the_jvm_trims(version: int, jre: Callable[[int], Path], burst: Path) -> None:
    with bursting(jre(version), burst) as jvm:
        check(jvm.pid, "System.trim_native_heap")
        assert "trimmed Burst" in offheap("trim", jvm.pid)
        assert jvm.answers()


def test_the_probe_trims_where_the_jvm_cannot(
    jre: Callable[[int], Path], burst: Path, tmp_path: Path, probe_library: Path
) -> None:
    with bursting(jre(11), burst) as jvm:
        line = offheap("trim", jvm.pid, status=2)
        assert line.count("\n") == 1
        assert "neither System.trim_native_heap" in line
        assert "offheap attach" in line
        offheap("attach", jvm.pid, "--duration", "0.2s", "-o", tmp_path / "a.offheap")
        check(jvm.pid, "the probe")
        assert jvm.answers()


def test_what_is_no_jvm() -> None:
    assert "not a JVM" in offheap("trim", os.getpid(), status=2)
    assert "there is no process" in offheap("trim", 1 << 22, status=2)
