"""Real JVMs that wait, started by tests that read them from outside."""

from __future__ import annotations

import contextlib
import functools
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import public_folders
from harness.paths import JAVA

SOURCE = JAVA / "Waiting.java"
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@dataclass
class WaitingJVM:
    """A running JVM; `pid` is the JVM's own even behind a wrapper that does not exec."""

    process: subprocess.Popen[bytes]
    stderr_path: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def answers(self) -> bool:
        """Whether its main thread still runs Java code."""
        assert self.process.stdin
        assert self.process.stdout
        try:
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return False
        return read_line(self.process, 20.0) == b"alive\n"

    def stderr(self) -> str:
        return self.stderr_path.read_text()


@functools.cache
def compile_waiting(jdk: Path) -> Path:
    """A folder with Waiting.class that every user may read, removed at the end of the test run."""
    folder = public_folders.make("waiting")
    command = [str(jdk / "bin" / "javac"), "--release", "11", "-d", str(folder), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


@contextlib.contextmanager
def waiting_jvm(
    java: Path,
    classes: Path,
    *options: str,
    wrapper: Sequence[str] = (),
    environment: dict[str, str] | None = None,
    folder: Path | None = None,
    ready: bool = True,
    main: str = "Waiting",
) -> Iterator[WaitingJVM]:
    """Starts `java OPTIONS MAIN` and ends it; `ready` waits until its main method runs."""
    work = (
        Path(tempfile.mkdtemp(prefix=f"offheap-jvm-{os.getpid()}-", dir="/tmp")) if folder is None else folder
    )
    work.chmod(0o777)
    command = [*wrapper, str(java), "-Xmx64m", "-XX:+UseSerialGC", *options, "-cp", str(classes), main]
    with open(work / "stderr", "wb") as stderr:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=work,
            env={**os.environ, **(environment or {})},
        )
    jvm = WaitingJVM(process, work / "stderr")
    try:
        if ready:
            line = read_line(process, 60.0)
            assert line == b"ready\n", f"the JVM said {line!r}: {jvm.stderr()}"
        yield jvm
    finally:
        process.kill()
        process.communicate()
        # A killed JVM leaves its attach socket.
        Path(f"/tmp/.java_pid{process.pid}").unlink(missing_ok=True)
        if folder is None:
            shutil.rmtree(work, ignore_errors=True)


def remove_live_files(pid: int) -> None:
    """Removes what `attach --keep` and the death of a recorded process leave."""
    for live_file in Path("/dev/shm").glob(f"offheap-{pid}-*.live"):
        live_file.unlink()


def read_line(process: subprocess.Popen[bytes], seconds: float) -> bytes:
    """One line of a process's output, b"" at its end or when it takes too long."""
    assert process.stdout
    line = b""
    deadline = time.monotonic() + seconds
    while not line.endswith(b"\n"):
        readable, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        byte = os.read(process.stdout.fileno(), 1) if readable else b""
        if not byte:
            break
        line += byte
    return line
