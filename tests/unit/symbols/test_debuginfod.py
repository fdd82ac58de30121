"""Debug files from a debuginfod server: a real HTTP server on this machine, friendly and hostile."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.native.leaking_library import Recorded, record_without_symbols
from offheap import recording
from offheap.cli.main import main
from offheap.errors import UserError
from offheap.symbols.debuginfod import Debuginfod, servers

BUILD_ID = "0123456789abcdef0123456789abcdef01234567"

Handle = Callable[[http.server.BaseHTTPRequestHandler], None]
Serve = Callable[[Handle], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    running: list[http.server.ThreadingHTTPServer] = []

    def start(handle: Handle) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                handle(self)

            def log_message(self, *words: object) -> None: ...

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        running.append(server)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def sends(content: bytes, status: int = 200) -> Handle:
    def handle(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    return handle


def found(url: str, folder: Path, build_id: str = BUILD_ID, **limits: float) -> tuple[list[bytes], list[str]]:
    asked = Debuginfod([url], folder, **limits)  # type: ignore[arg-type]
    return [path.read_bytes() for path in asked.find(build_id)], asked.problems


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, probe_library: Path) -> Recorded:
    return record_without_symbols(tmp_path_factory.mktemp("recorded"), probe_library)


def test_a_recording_is_named(
    recorded: Recorded, serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """GIVEN a server that has the image alone THEN the debug file is asked for first."""
    asked: list[tuple[str, list[str]]] = []
    (build_id,) = [
        m.build_id for m in recording.load(recorded.recording).modules if m.path == str(recorded.place)
    ]

    def handle(request: http.server.BaseHTTPRequestHandler) -> None:
        asked.append((request.path, sorted(name.lower() for name in request.headers)))
        here = request.path == f"/buildid/{build_id}/executable"
        sends(recorded.library.read_bytes() if here else b"", 200 if here else 404)(request)

    output = tmp_path / "b.offheap"
    words = ["symbolize", str(recorded.recording), "--debuginfod", serve(handle), "-o", str(output)]
    assert main(words) == 0
    assert capsys.readouterr().out.startswith(f"named 2 of {recorded.unnamed} frames that had no name\n")
    ours = [path for path, _ in asked if build_id in path]
    assert ours == [f"/buildid/{build_id}/debuginfo", f"/buildid/{build_id}/executable"]
    assert all(
        set(headers) <= {"host", "user-agent", "accept", "accept-encoding", "connection"}
        for _, headers in asked
    )


def test_a_server_that_lies(
    recorded: Recorded, serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """GIVEN a server that sends another image THEN no name comes of it."""
    url = serve(sends(Path("/proc/self/exe").resolve().read_bytes()))
    words = ["symbolize", str(recorded.recording), "--debuginfod", url, "-o", str(tmp_path / "b.offheap")]
    assert main(words) == 0
    assert capsys.readouterr().out.startswith(f"named 0 of {recorded.unnamed} frames")


def test_the_environment_counts_when_asked(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["symbolize", str(recorded.recording), "-o", str(tmp_path / "b.offheap")]
    monkeypatch.delenv("DEBUGINFOD_URLS", raising=False)
    assert main([*words, "--debuginfod"]) == 2
    assert "DEBUGINFOD_URLS is not set" in capsys.readouterr().err
    # A server there that is refused shows that it was looked at, and that it is not without the option.
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://debuginfod.example")
    assert main([*words, "--debuginfod"]) == 2
    assert "is not encrypted" in capsys.readouterr().err
    assert main(words) == 0


def test_too_much(serve: Serve, tmp_path: Path) -> None:
    files, problems = found(serve(sends(bytes(5000))), tmp_path, most=4999)
    assert (files, len(problems), list(tmp_path.iterdir())) == ([], 1, [])


def test_too_slow(serve: Serve, tmp_path: Path) -> None:
    """GIVEN a server that sends a byte now and then THEN the time for all bounds it."""

    def trickle(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        for _ in range(100):
            request.wfile.write(b"x")
            request.wfile.flush()
            time.sleep(0.05)

    began = time.monotonic()
    files, problems = found(serve(trickle), tmp_path, seconds=0.3)
    assert time.monotonic() - began < 3
    assert (files, len(problems), list(tmp_path.iterdir())) == ([], 1, [])


def test_headers_that_never_end(serve: Serve, tmp_path: Path) -> None:
    def trickle(request: http.server.BaseHTTPRequestHandler) -> None:
        for _ in range(100):
            request.wfile.write(b"X")
            request.wfile.flush()
            time.sleep(0.05)

    began = time.monotonic()
    files, problems = found(serve(trickle), tmp_path, seconds=0.3)
    assert time.monotonic() - began < 3
    assert (files, len(problems)) == ([], 1)


def test_an_answer_that_breaks_off(serve: Serve, tmp_path: Path) -> None:
    def breaks_off(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000")
        request.end_headers()
        request.wfile.write(b"x" * 10)

    files, problems = found(serve(breaks_off), tmp_path)
    assert (files, [problem.endswith("breaks off") for problem in problems]) == ([], [True])


def test_a_server_that_fails_is_asked_once(serve: Serve, tmp_path: Path) -> None:
    requests = []

    def fails(request: http.server.BaseHTTPRequestHandler) -> None:
        requests.append(request.path)
        sends(b"", 500)(request)

    asked = Debuginfod([serve(fails)], tmp_path)
    assert [list(asked.find(f"{number:040x}")) for number in range(3)] == [[], [], []]
    assert len(requests) == len(asked.problems) == 1


@pytest.mark.parametrize("target", ["http://debuginfod.example/x", "file:///etc/passwd", "https://u:p@h/x"])
def test_redirects_to_elsewhere(target: str, serve: Serve, tmp_path: Path) -> None:
    def away(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", target)
        request.send_header("Content-Length", "0")
        request.end_headers()

    files, problems = found(serve(away), tmp_path)
    assert (files, len(problems)) == ([], 1)


def test_a_redirect_on_this_machine_is_followed(serve: Serve, tmp_path: Path) -> None:
    store = serve(sends(b"an image"))

    def away(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", f"{store}/file?signature=x")
        request.send_header("Content-Length", "0")
        request.end_headers()

    assert found(serve(away), tmp_path) == ([b"an image"], [])


@pytest.mark.parametrize("build_id", ["", "../../etc/passwd", "a" * 7, "A" * 40, "0" * 200, "a b" * 9])
def test_what_is_no_build_id_is_not_asked_for(build_id: str, serve: Serve, tmp_path: Path) -> None:
    assert found(serve(sends(b"x")), tmp_path, build_id) == ([], [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "0 URLs"),
        (" ".join(f"https://h{number}" for number in range(17)), "17 URLs"),
        ("http://debuginfod.example", "is not encrypted"),
        ("ftp://debuginfod.example", "is not the URL of a server"),
        ("https://", "is not the URL of a server"),
        ("https://[", "is not a URL"),
        ("https://user:secret@debuginfod.example", "has credentials"),
        ("https://debuginfod.example/?a=b", "has more than a path"),
    ],
)
def test_servers_that_are_refused(text: str, why: str) -> None:
    with pytest.raises(UserError, match=why) as refused:
        servers(text)
    assert "secret" not in str(refused.value)


def test_servers_that_are_taken() -> None:
    assert servers("https://a/ https://b http://localhost:8002 https://a") == (
        "https://a",
        "https://b",
        "http://localhost:8002",
    )
    assert servers("http://a", insecure=True) == ("http://a",)
