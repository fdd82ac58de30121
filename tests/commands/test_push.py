"""`offheap push`: what arrives at a real HTTP server, what waits while there is none, what is refused."""

from __future__ import annotations

import base64
import email
import email.policy
import gzip
import http.server
import json
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesServiceRequest,
)

from harness import needs
from harness.command_line import documented, offheap
from harness.recordings.stored import fill
from offheap.errors import UserError
from offheap.formats.pprof_schema import profile_class
from offheap.push.delivery import Away, Delivery
from offheap.push.destination import Message, Series, destination, message
from offheap.push.headers import headers
from offheap.push.sender import Sender, follow
from offheap.push.spool import Spool
from offheap.recording import load
from offheap.recording.storage.writer import RecordingWriter

PROFILE = b"\x1f\x8b a profile"
SERIES = Series("shop", {"env": "prod"})


@dataclass
class Server:
    """`answers`: the statuses of the next requests, 200 afterwards."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    running: list[http.server.ThreadingHTTPServer] = []

    def start(context: ssl.SSLContext | None = None) -> Server:
        state = Server()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = state.answers.pop(0) if state.answers else 200
                if status == 200:
                    state.requests.append(
                        (self.path, {name.lower(): value for name, value in self.headers.items()}, body)
                    )
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", state.url + "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running.append(server)
        state.url = f"{'https' if context else 'http'}://localhost:{server.server_address[1]}"
        return state

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def test_pyroscope_gets_a_form_with_the_profile(serve: Callable[..., Server]) -> None:
    server = serve()
    to = destination("pyroscope", server.url + "/", {"X-Scope-OrgID": "7"})
    Delivery(to).once(message("pyroscope", PROFILE, SERIES, 100.0, 160.0))
    ((path, sent, body),) = server.requests
    assert urlsplit(path).path == "/ingest"
    query = parse_qs(urlsplit(path).query)
    assert query == {"name": ["shop{env=prod}"], "from": ["100"], "until": ["160"], "format": ["pprof"]}
    assert sent["x-scope-orgid"] == "7"
    form = email.message_from_bytes(
        f"Content-Type: {sent['content-type']}\r\n\r\n".encode() + body, policy=email.policy.default
    )
    parts = {part.get_param("name", header="content-disposition"): part for part in form.iter_parts()}
    assert parts["profile"].get_payload(decode=True) == PROFILE
    config = json.loads(parts["sample_type_config"].get_content())
    assert config["inuse_space"]["units"] == "bytes"


def test_parca_gets_json_with_the_profile(serve: Callable[..., Server]) -> None:
    server = serve()
    Delivery(destination("parca", server.url, {})).once(message("parca", PROFILE, SERIES, 1.0, 2.0))
    ((path, _, body),) = server.requests
    assert path == "/profiles/writeraw"
    (series,) = json.loads(body)["series"]
    labels = {label["name"]: label["value"] for label in series["labels"]["labels"]}
    assert labels == {"__name__": "memory", "job": "shop", "env": "prod"}
    assert base64.b64decode(series["samples"][0]["rawProfile"]) == PROFILE


def test_a_busy_server_is_asked_again_and_a_refusal_is_final(serve: Callable[..., Server]) -> None:
    server, pauses = serve(), list[float]()
    one = message("otlp", PROFILE, SERIES, 1.0, 2.0)
    delivery = Delivery(destination("otlp", server.url, {}), sleep=pauses.append)
    server.answers = [503, 429, 500]
    delivery.repeatedly(one)
    assert len(server.requests) == 1
    assert len(pauses) == 3
    assert pauses[0] < pauses[2]
    server.answers = [503] * 5
    with pytest.raises(Away, match="503"):
        delivery.repeatedly(one)
    for status, mend in ((401, "--headers"), (302, "redirect")):
        server.answers = [status]
        with pytest.raises(UserError, match=mend):
            delivery.repeatedly(one)
    assert len(server.requests) == 1


def test_a_certificate_is_checked(serve: Callable[..., Server], tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    needs.program("openssl", "to make a certificate")
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = serve(context)
    one = message("otlp", PROFILE, SERIES, 1.0, 2.0)
    to = destination("otlp", server.url, {"Authorization": "Bearer 1"})
    with pytest.raises(UserError, match="not trusted"):
        Delivery(to).once(one)
    Delivery(to, certificate).once(one)
    ((_, sent, _),) = server.requests
    assert sent["authorization"] == "Bearer 1"


@pytest.mark.parametrize(
    ("url", "mend"),
    [
        ("ftp://host/", "no URL"),
        ("host:4040", "no URL"),
        ("https://me:secret@host", "--headers"),
        ("https://host/?token=1", "leave out"),
        ("http://host.example", "https"),
    ],
)
def test_doubtful_urls_are_refused(url: str, mend: str) -> None:
    with pytest.raises(UserError, match=mend):
        destination("parca", url, {"Authorization": "Bearer 1"})


def test_headers_are_read_from_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "auth.txt"
    path.write_text("# of the collector\nAuthorization: Bearer  1 \n\nX-Scope-OrgID:7\n")
    path.chmod(0o600)
    assert headers(path) == {"Authorization": "Bearer  1", "X-Scope-OrgID": "7"}
    path.chmod(0o640)
    with pytest.raises(UserError, match="chmod 600"):
        headers(path)
    path.chmod(0o600)
    for text, said in (
        ("no header\n", "line 1"),
        ("A: b\r\nX\x00: 1\n", "line 2"),
        ("x" * 70_000, "64 KiB|large"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=said):
            headers(path)
    with pytest.raises(UserError, match="cannot be read"):
        headers(tmp_path / "missing")


def test_the_spool_is_bounded_and_keeps_the_order(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "waits", 300)
    for number in range(5):
        spool.add(Message(f"n={number}", "text/plain", bytes(50)))
    kept = [one.query for _, one in spool.waiting()]
    assert kept == ["n=3", "n=4"] or kept == ["n=2", "n=3", "n=4"]
    assert spool.lost == 5 - len(kept)
    assert (tmp_path / "waits").stat().st_mode & 0o777 == 0o700
    spool.add(Message("", "text/plain", bytes(400)))
    assert spool.lost == 6 - len(kept), "a message beyond the limit is lost, and costs no other"
    (tmp_path / "waits" / f"{1:020d}.message").write_bytes(b"\xff no message")
    assert [one.query for _, one in spool.waiting()] == kept
    (tmp_path / "waits").chmod(0o777)
    with pytest.raises(UserError, match="--spool"):
        spool.add(Message("", "text/plain", b""))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    writer = RecordingWriter(tmp_path / "app.offheap")
    fill(writer)
    writer.finish()
    return tmp_path / "app.offheap"


def push(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(offheap("push", *arguments), capture_output=True, text=True, timeout=60)


def test_the_command_sends_what_the_official_protobufs_read(
    serve: Callable[..., Server], recording: Path
) -> None:
    server = serve()
    done = push(recording, "--otlp", server.url)
    assert (done.returncode, done.stderr) == (0, "offheap: 1 profile sent\n")
    ((path, sent, body),) = server.requests
    assert (path, sent["content-type"]) == ("/v1development/profiles", "application/x-protobuf")
    request = ExportProfilesServiceRequest.FromString(body)
    (resource,) = request.resource_profiles
    facts = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert facts["service.name"] == "com.example.Shop"
    assert len(resource.scope_profiles[0].profiles) == 4
    assert push(recording, "--parca", server.url, "--name", "till").returncode == 0
    (series,) = json.loads(server.requests[1][2])["series"]
    profile = profile_class()()
    profile.ParseFromString(gzip.decompress(base64.b64decode(series["samples"][0]["rawProfile"])))
    assert {"name": "job", "value": "till"} in series["labels"]["labels"]
    assert profile.sample


def test_profiles_wait_for_a_server_that_is_away(serve: Callable[..., Server], recording: Path) -> None:
    server = serve()
    server.answers = [503]
    done = push(recording, "--otlp", server.url, "--every", "1s")
    assert done.returncode == 0
    assert "profiles wait in" in done.stderr
    assert "0 profiles sent, 1 waiting" in done.stderr
    done = push(recording, "--otlp", server.url, "--every", "1s")
    assert "2 profiles sent" in done.stderr
    assert len(server.requests) == 2


def test_json_is_as_documented(serve: Callable[..., Server], recording: Path) -> None:
    done = push(recording, "--otlp", serve().url, "--json")
    value = json.loads(done.stdout)
    spool = str(recording) + ".push"
    assert value == {**documented("offheap.push/1"), "sent": 1, "spool": spool}
    assert done.stderr == ""


def test_without_a_server_there_is_one_line(recording: Path) -> None:
    for arguments, said in (((), "--pyroscope"), (("--otlp", "https://a:b@host"), "--headers")):
        done = push(recording, *arguments)
        assert done.returncode == 2
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_recording_that_stands_still_is_not_followed_for_ever(
    serve: Callable[..., Server], recording: Path
) -> None:
    server, said = serve(), list[str]()
    loaded = load(recording)
    delivery = Delivery(destination("otlp", server.url, {}))
    sender = Sender(delivery, lambda _: b"", SERIES, Spool(recording / "push", 1000))
    follow(sender, lambda: (loaded, True), 60.0, said.append, lambda _: None)
    assert said == ["the recording does not grow any more"]
    assert 4 <= len(server.requests) <= 6
