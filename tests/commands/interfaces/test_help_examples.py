"""The examples in the help of `import`, `export` and `push`, run as they are written."""

from __future__ import annotations

import gzip
import http.server
import os
import re
import shlex
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.command_line import offheap
from harness.paths import TESTS
from harness.recordings.stored import fill
from offheap.cli.main import command_parser
from offheap.recording.storage.writer import RecordingWriter

SAMPLES = TESTS / "formats" / "samples"
# A name in the examples, and the sample that has it here.
FILES = {
    "jeprof.4711.8.i8.heap": "jemalloc.heap",
    "jeprof.4711.9.i9.heap": "jemalloc.heap",
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


EXAMPLES = [line for command in ("import", "export", "push") for line in examples(command)]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of an HTTP server that takes everything."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, sample in FILES.items():
        data = (SAMPLES / sample).read_bytes()
        (tmp_path / name).write_bytes(data if name.endswith(".gz") else gzip_free(data))
    (tmp_path / "perf-4711.map").write_text("7f0000000000 100 void Main.run()\n")
    (tmp_path / "maps-4711").write_text(Path("/proc/self/maps").read_text())
    (tmp_path / "auth.txt").write_text("Authorization: Bearer word\n")
    (tmp_path / "auth.txt").chmod(0o600)
    writer = RecordingWriter(tmp_path / "app.offheap")
    fill(writer)
    writer.finish()
    return tmp_path


def gzip_free(data: bytes) -> bytes:
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_works(line: str, folder: Path, server: str) -> None:
    if line.startswith("offheap import") and "-o app.offheap" in line:
        (folder / "app.offheap").rename(folder / "other.offheap")
    line = re.sub(r"https?://[^/ ]+", server, line).replace("/tmp/", f"{folder}/")
    line = re.sub(r"--maps 4711\b", f"--maps {os.getpid()}", line)
    words = " ".join(map(shlex.quote, offheap()))
    done = subprocess.run(
        line.replace("offheap", words, 1),
        shell=True,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
