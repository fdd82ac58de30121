"""The examples in the help of the commands around other tools, and of those that rewrite, run as written."""

from __future__ import annotations

import gzip
import http.server
import os
import re
import shlex
import subprocess
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import needs
from harness.command_line import offheap
from harness.jvms.waiting_jvm import WaitingJVM, remove_live_files, waiting_jvm
from harness.paths import TESTS
from harness.recordings.stored import fill
from offheap.cli.main import command_parser
from offheap.recording.storage.writer import RecordingWriter

SAMPLES = TESTS / "formats" / "samples"
# A name in the examples, and the sample that has it here.
FILES = {
    "jeprof.4711.8.i8.heap": "jemalloc.heap",
    "jeprof.4711.9.i9.heap": "jemalloc.heap",
    "dumps/jeprof.4711.9.i9.heap": "jemalloc.heap",
    "heap.pb.gz": "go.pb.gz",
    "nativemem.jfr": "async-profiler.jfr.gz",
    "mtrace.log": "mtrace.log",
    "nmt-1.txt": "nmt-25-summary.txt",
    "nmt-2.txt": "nmt-25-summary.txt",
}


def examples(command: str) -> list[str]:
    """The command lines, without the words beside them and without the programs that read from them."""
    lines = re.findall(r"^  (offheap .*)$", command_parser(command).epilog or "", re.MULTILINE)
    found = [re.split(r" {2,}| \| ", line)[0] for line in lines]
    assert found
    return found


COMMANDS = ("import", "jemalloc", "mtrace", "export", "push", "symbolize", "anonymize")
EXAMPLES = dict.fromkeys(line for command in COMMANDS for line in examples(command))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of an HTTP server that takes everything, and has no file."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


@pytest.fixture(scope="module")
def jvm(jre: Callable[[int], Path], waiting_classes: Path) -> Iterator[WaitingJVM]:
    """A JVM under a jemalloc that profiles."""
    profiled = {"LD_PRELOAD": needs.shared_library("jemalloc"), "MALLOC_CONF": "prof:true"}
    with waiting_jvm(jre(17), waiting_classes, environment=profiled) as running:
        yield running
    remove_live_files(running.pid)


@pytest.fixture
def programs(folder: Path, jre: Callable[[int], Path], waiting_classes: Path) -> str:
    """The folder of `java`, for the programs app.jar and bin/catalina.sh; both end with their input."""
    with zipfile.ZipFile(folder / "app.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Main-Class: Waiting\n")
        for path in waiting_classes.glob("*.class"):
            jar.write(path, path.name)
    (folder / "bin").mkdir()
    (folder / "bin/catalina.sh").write_text("#!/bin/sh\njava -jar app.jar\n")
    (folder / "bin/catalina.sh").chmod(0o700)
    return str(jre(17).parent)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for place in ("dumps", "image", "build/symbols"):
        (tmp_path / place).mkdir(parents=True)
    for name, sample in FILES.items():
        data = (SAMPLES / sample).read_bytes()
        (tmp_path / name).write_bytes(data if name.endswith(".gz") else gzip_free(data))
    (tmp_path / "perf-4711.map").write_text("7f0000000000 100 void Main.run()\n")
    (tmp_path / "maps-4711").write_text(Path("/proc/self/maps").read_text())
    for name, content in (("auth.txt", b"Authorization: Bearer word\n"), ("key", os.urandom(32))):
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o600)
    writer = RecordingWriter(tmp_path / "app.offheap")
    fill(writer)
    writer.finish()
    return tmp_path


def gzip_free(data: bytes) -> bytes:
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_works(line: str, folder: Path, server: str, request: pytest.FixtureRequest) -> None:
    variables = {**os.environ, "DEBUGINFOD_URLS": server}
    if line.startswith("offheap jemalloc run"):
        needs.shared_library("jemalloc")
        variables["PATH"] = f"{request.getfixturevalue('programs')}:{variables['PATH']}"
    if "-o app.offheap" in line:
        (folder / "app.offheap").rename(folder / "other.offheap")
    line = re.sub(r"https?://[^/ ]+", server, line)
    line = re.sub(r" /(tmp|mnt)/", f" {folder}/", line)
    if " 4711" in line:
        pid = os.getpid() if line.startswith("offheap import") else request.getfixturevalue("jvm").pid
        line = line.replace(" 4711", f" {pid}")
    line = line.replace("--duration 30s", "--duration 1s")
    words = " ".join(map(shlex.quote, offheap()))
    done = subprocess.run(
        line.replace("offheap", words, 1),
        shell=True,
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
