"""The JVM's own tools at work while the probe comes in and goes out again."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from ctypes.util import find_library
from pathlib import Path

import pytest

import soak
from offheap import recording
from offheap.errors import UserError
from offheap.jvm import probe
from offheap.jvm.attach import AttachedVM

pytestmark = pytest.mark.usefixtures("probe_library")

TOOLS = (
    "-Xlog:disable",  # what JFR says at its start has the time in it
    "-XX:StartFlightRecording=settings=profile",
    "-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=127.0.0.1:0,quiet=y",
    "-XX:NativeMemoryTracking=detail",
)
PRINTED = """\
ready
threads 200
loaders 100
virtual 400
nulls 4000
overflows 20
children 8
redefinitions 8
"""


@pytest.mark.parametrize("version", [pytest.param(21, marks=pytest.mark.slow), 25])
def test_jfr_a_debugger_thread_dumps_and_another_allocator(
    version: int, jre: Callable[[int], Path], jdk: Path, tmp_path: Path
) -> None:
    """All at once, on the JREs that have a debugger's agent (11 and 17 here have none)."""
    java, jar = jre(version), soak.compile_stress(jdk, tmp_path)
    process = subprocess.Popen(
        [java, "-Xmx192m", *TOOLS, f"-javaagent:{jar}", "-cp", jar, "Stress", "50", "return"],
        env={**os.environ, "LD_PRELOAD": find_library("jemalloc") or ""},
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    dumps = 0

    def ask() -> None:
        nonlocal dumps
        with suppress(UserError):
            while process.poll() is None:
                dumps += "churn" in AttachedVM(process.pid).jcmd("Thread.print")
                AttachedVM(process.pid).jcmd("VM.native_memory summary")

    attaches = 0
    asking = threading.Thread(target=ask)
    try:
        assert process.stdout
        assert process.stdin
        first = process.stdout.readline()
        process.stdin.write("\n")
        process.stdin.flush()
        asking.start()
        with suppress(UserError):
            while process.poll() is None:
                live_file = probe.start(process.pid, "interval=16384").live_file
                try:
                    probe.detach(process.pid)
                    attaches += 1
                    recording.load(live_file)
                finally:
                    live_file.unlink(missing_ok=True)
        rest, complaints = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
        asking.join()
    assert process.returncode == 0, complaints
    assert first + rest == PRINTED
    assert not list(tmp_path.glob("hs_err*"))
    assert attaches > 1
    assert dumps > 1
