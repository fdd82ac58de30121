"""Real JVMs that hold a known amount of every kind of memory, for tests that ask where it is."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness import public_folders
from harness.jvms.waiting_jvm import WaitingJVM, read_line
from harness.paths import JAVA

SOURCE = JAVA / "Footprint.java"
COLLECTORS = {
    "serial": ("-XX:+UseSerialGC",),
    "parallel": ("-XX:+UseParallelGC",),
    "g1": ("-XX:+UseG1GC",),
    "z": ("-XX:+UnlockExperimentalVMOptions", "-XX:+UseZGC"),
}
# What the program holds, in bytes.
HEAP = 40 << 20
DIRECT = 24 << 20
MAPPED = 16 << 20
WORKERS = 12


@functools.cache
def compile_footprint(jdk: Path) -> Path:
    """A folder with the program's classes, removed at the end of the test run."""
    folder = public_folders.make("footprint")
    command = [str(jdk / "bin" / "javac"), "--release", "11", "-d", str(folder), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


@contextlib.contextmanager
def footprint_jvm(
    java: Path, classes: Path, collector: str, *options: str, wrapper: Sequence[str] = ()
) -> Iterator[WaitingJVM]:
    """The program, with all its memory held; `pid` is the JVM's own."""
    work = Path(tempfile.mkdtemp(prefix=f"offheap-jvm-{os.getpid()}-", dir="/tmp"))
    work.chmod(0o777)
    command = [*wrapper, str(java), "-Xmx192m", *COLLECTORS[collector], *options]
    command += ["-cp", str(classes), "Footprint", str(work / "mapped.bin")]
    with open(work / "stderr", "wb") as stderr:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, cwd=work
        )
    try:
        line = read_line(process, 60.0)
        while line and line != b"ready\n":  # a warning of the JVM
            line = read_line(process, 60.0)
        assert line, (work / "stderr").read_text()
        yield WaitingJVM(process, work / "stderr")
    finally:
        process.kill()
        process.communicate()
        Path(f"/tmp/.java_pid{process.pid}").unlink(missing_ok=True)
        shutil.rmtree(work, ignore_errors=True)
