"""The JVM's own tools, and other tools, run while the probe is attached and detached."""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from harness import needs
from harness.jvms.java_homes import JRE_VERSIONS
from harness.paths import ROOT
from harness.peers import variants
from harness.plugins.rotation import one_a_row
from harness.survival import survival_matrix
from offheap import recording
from offheap.errors import UserError
from offheap.jvm.listener.attach import AttachedVM
from offheap.jvm.texts import nmt
from offheap.probe import control
from offheap.recording.model import Recording

pytestmark = pytest.mark.usefixtures("probe_library")

SECONDS = 240.0  # the tests take some 10 s on an idle machine
TOOLS = (
    "-Xlog:disable",  # JFR's message at its start contains the time
    "-XX:StartFlightRecording=settings=profile,dumponexit=true,filename=flight.jfr",
    "-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=127.0.0.1:0,quiet=y",
    "-XX:NativeMemoryTracking=detail",
)


def start(command: Sequence[str | Path], folder: Path, **variables: str) -> subprocess.Popen[str]:
    """The stress program, started and past its "ready"."""
    process = subprocess.Popen(
        command,
        env={**os.environ, **variables},
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdin
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("\n")
    process.stdin.flush()
    return process


def attach_and_detach(
    process: subprocess.Popen[str], enough: Callable[[], object] = lambda: True
) -> list[Recording]:
    """Attaches three times, and until `enough`; then tells the program to end.  Each recording is read."""
    found: list[Recording] = []
    deadline = time.monotonic() + SECONDS
    while (len(found) < 3 or not enough()) and time.monotonic() < deadline:
        live_file = control.start(process.pid, "interval=16384").live_file
        try:
            control.detach(process.pid)
            found.append(recording.load(live_file))
        finally:
            live_file.unlink(missing_ok=True)
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()
    return found


def check_allocator(name: str, found: Recording) -> None:
    """THEN the allocator is loaded, and has malloc's place."""
    assert any(name in Path(module.path).name for module in found.modules)
    assert any("allocator" in sentence for sentence in found.info.coverage), found.info.coverage


def check_flight(file: Path) -> None:
    """THEN the flight recording is whole: chunks, each with its magic, its version and its own size."""
    written = file.read_bytes()
    at = chunks = 0
    while at < len(written):
        magic, major, size = struct.unpack_from(">4sHxxQ", written, at)
        assert (magic, major) == (b"FLR\0", 2)
        assert size > 1000
        at += size
        chunks += 1
    assert chunks
    assert at == len(written)


@pytest.mark.parametrize(("allocator", "version"), one_a_row(("jemalloc", "tcmalloc"), (21, 25)))
def test_jfr_a_debugger_thread_dumps_and_another_allocator(
    allocator: str, version: int, jre: Callable[[int], Path], jdk: Path, tmp_path: Path
) -> None:
    """All at once, on the JREs with a debugger agent (11 and 17 here have none)."""
    library = needs.shared_library(allocator)
    java, jar = jre(version), survival_matrix.compile_stress(jdk, tmp_path)
    command: list[str | Path] = [
        java,
        "-Xmx192m",
        *TOOLS,
        f"-javaagent:{jar}",
        "-cp",
        jar,
        "Stress",
        "50",
        "told",
    ]
    process = start(command, tmp_path, LD_PRELOAD=library)
    dumps: list[str] = []
    reports: list[str] = []

    def ask() -> None:
        with suppress(UserError):
            while process.poll() is None:
                dumps.append(AttachedVM(process.pid).jcmd("Thread.print"))
                reports.append(AttachedVM(process.pid).jcmd("VM.native_memory summary scale=B"))

    asking = threading.Thread(target=ask)
    # The last of each may be cut, because the JVM ends.
    many = lambda: len(dumps) > 21 and len(reports) > 21  # noqa: E731
    try:
        asking.start()
        found = attach_and_detach(process, many)
        rest, complaints = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
        asking.join()
    assert process.returncode == 0, complaints
    assert rest == survival_matrix.printed(50)
    assert not list(tmp_path.glob("hs_err*"))
    assert len(found) >= 3
    for one in found:
        check_allocator(allocator, one)
    check_flight(tmp_path / "flight.jfr")
    assert sum('"churn"' in dump for dump in dumps) > 20
    assert [dump for dump in dumps[:-1] if "Full thread dump" not in dump] == []
    assert len(reports) > 20
    for report in map(nmt.parse, reports[:-1]):
        assert report
        categories = sum(category.committed for category in report.categories.values())
        assert categories == pytest.approx(report.committed, rel=0.01)  # they change meanwhile
        assert report.categories["Java Heap"].reserved == 192 << 20


def test_a_debugger_that_is_attached(jdk: Path, tmp_path: Path) -> None:
    """jdb stops all threads, asks where they are, and resumes them, again and again."""
    if not (jdk / "bin" / "jdb").exists():
        needs.skip("jdb in the JDK", needs.apt("jdb"))
    jar = survival_matrix.compile_stress(jdk, tmp_path)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    agent = f"-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,quiet=y,address={address}"
    command: list[str | Path] = [
        jdk / "bin" / "java",
        "-Xmx192m",
        agent,
        f"-javaagent:{jar}",
        "-cp",
        jar,
        "Stress",
        "50",
        "told",
    ]
    with (tmp_path / "said").open("w") as said:
        process = start(command, tmp_path)
        debugger = subprocess.Popen(
            [jdk / "bin" / "jdb", "-attach", address],
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=subprocess.STDOUT,
            text=True,
        )

        def seen() -> str:
            return (tmp_path / "said").read_text()

        def stacks() -> int:
            return len(re.findall(r"^  \[1\] ", seen(), re.M))

        def debug() -> None:
            assert debugger.stdin
            with suppress(BrokenPipeError):
                while process.poll() is None:
                    print("suspend\nwhere all\nresume", file=debugger.stdin, flush=True)
                    time.sleep(0.2)

        debugging = threading.Thread(target=debug)
        try:
            debugging.start()
            found = attach_and_detach(process, lambda: stacks() > 20)
            rest, complaints = process.communicate(timeout=120)
        finally:
            for one in (process, debugger):
                one.kill()
                one.wait()
            debugging.join()
            assert debugger.stdin
            with suppress(BrokenPipeError):
                debugger.stdin.close()
    assert process.returncode == 0, complaints
    assert rest == survival_matrix.printed(50)
    assert not list(tmp_path.glob("hs_err*"))
    assert len(found) >= 3
    assert stacks() > 20, seen()[-2000:]


@pytest.fixture(scope="module")
def async_profiler() -> Path:
    library = variants.fetch_async_profiler(ROOT / "build" / "peers")
    if not library.exists():
        needs.program("mvn", "which fetches async-profiler")
        needs.skip("async-profiler, which mvn could not fetch", needs.INTERNET)
    return library


@pytest.mark.parametrize(("preloaded", "version"), one_a_row((True, False), JRE_VERSIONS))
def test_async_profiler_and_mimalloc(
    version: int,
    preloaded: bool,
    async_profiler: Path,
    probe_library: Path,
    jre: Callable[[int], Path],
    jdk: Path,
    tmp_path: Path,
) -> None:
    """async-profiler's signals interrupt the probe's stack walks, and ask the JVM for the same stacks."""
    mimalloc = needs.shared_library("mimalloc")
    java, jar, profile = jre(version), survival_matrix.compile_stress(jdk, tmp_path), tmp_path / "cpu.txt"
    # A process timer: perf events need root, and thread timers miss short-lived threads.
    agent = f"-agentpath:{async_profiler}=start,event=itimer,interval=1ms,quiet,collapsed,file={profile}"
    command: list[str | Path] = [
        java,
        "-Xmx192m",
        agent,
        f"-javaagent:{jar}",
        "-cp",
        jar,
        "Stress",
        "12",
        "return" if preloaded else "told",
    ]
    before = f"{probe_library} " if preloaded else ""
    process = start(command, tmp_path, LD_PRELOAD=before + mimalloc, OFFHEAP=f"interval=4096,dir={tmp_path}")
    try:
        attached = [] if preloaded else attach_and_detach(process)
        said, complaints = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, complaints
    assert said == survival_matrix.printed(12)
    assert not list(tmp_path.glob("hs_err*"))
    samples = sum(int(line.rpartition(" ")[2]) for line in profile.read_text().splitlines())
    assert samples > 100
    if preloaded:
        found = recording.load(next(tmp_path.glob("*.live")))
        assert any("mimalloc" in Path(module.path).name for module in found.modules)
        assert len(found.live) > 100
    else:
        assert len(attached) >= 3
