"""`offheap push`: what arrives at a real HTTP server, what waits while there is none, what is refused."""

from __future__ import annotations

import base64
import gzip
import http.server
import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesServiceRequest,
    ExportProfilesServiceResponse,
)

from harness.command_line import documented, offheap
from harness.peers.certificates import self_signed
from harness.recordings.stored import fill
from offheap.errors import UserError
from offheap.formats.pprof_schema import profile_class
from offheap.push.delivery import Away, Delivery, Refused
from offheap.push.destination import Message, Series, destination, message, rejection
from offheap.push.headers import headers
from offheap.push.sender import Sender, follow
from offheap.push.spool import Spool
from offheap.recording import load
from offheap.recording.storage.writer import RecordingWriter

PROFILE = b"\x1f\x8b a profile"
SERIES = Series("shop", {"env": "prod"})


@dataclass
class Server:
    """`answers`: the statuses of the next requests, 200 afterwards; `says`: the body of an answer."""

    url: str = ""
    says: bytes = b""
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
                self.send_header("Content-Length", str(len(state.says)))
                self.end_headers()
                self.wfile.write(state.says)

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running.append(server)
        state.url = f"{'https' if context else 'http'}://127.0.0.1:{server.server_address[1]}"
        return state

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def test_pyroscope_gets_the_profile_itself(serve: Callable[..., Server]) -> None:
    server = serve()
    to = destination("pyroscope", server.url + "/", {"X-Scope-OrgID": "7"})
    # Pyroscope refuses a name with $.
    series = Series("com.example.Shop$Main", {"env": "prod"})
    Delivery(to).once(message("pyroscope", PROFILE, series, 160.0))
    ((path, sent, body),) = server.requests
    assert urlsplit(path).path == "/ingest"
    query = parse_qs(urlsplit(path).query)
    assert query["name"] == ["com.example.Shop_Main{env=prod}"]
    assert (query["from"], query["until"], query["format"]) == (["160"], ["161"], ["pprof"])
    assert sent["x-scope-orgid"] == "7"
    assert body == PROFILE, "with format=pprof it takes no form"


def test_parca_gets_json_with_the_profile(serve: Callable[..., Server]) -> None:
    server = serve()
    Delivery(destination("parca", server.url, {})).once(message("parca", PROFILE, SERIES, 2.0))
    ((path, _, body),) = server.requests
    assert path == "/profiles/writeraw"
    (series,) = json.loads(body)["series"]
    labels = {label["name"]: label["value"] for label in series["labels"]["labels"]}
    assert labels == {"__name__": "memory", "job": "shop", "env": "prod"}
    assert base64.b64decode(series["samples"][0]["rawProfile"]) == PROFILE


def test_a_busy_server_is_asked_again_and_a_refusal_is_final(serve: Callable[..., Server]) -> None:
    server, pauses = serve(), list[float]()
    one = message("otlp", PROFILE, SERIES, 2.0)
    delivery = Delivery(destination("otlp", server.url, {}), sleep=pauses.append)
    server.answers = [503, 429, 408]
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


def test_an_answer_that_breaks_off_is_no_traceback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            for said in (
                b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nsor",
                b"HTTP/1.1 2",
                b"\x00\xff\n",
            ):
                connection, _ = listening.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(said)

        serving = threading.Thread(target=answer)
        serving.start()
        to = destination("otlp", f"http://127.0.0.1:{listening.getsockname()[1]}", {})
        for _ in range(3):
            with pytest.raises(Away):
                Delivery(to).once(message("otlp", PROFILE, SERIES, 2.0))
        serving.join()


@given(st.binary(max_size=60))
def test_whatever_a_server_answers_is_read(answer: bytes) -> None:
    whole = ExportProfilesServiceResponse()
    whole.partial_success.rejected_profiles, whole.partial_success.error_message = 3, "no"
    data = whole.SerializeToString()
    for damaged in (answer, data + answer, *(data[:size] + answer[:1] for size in range(len(data)))):
        assert isinstance(rejection("otlp", damaged), str)


def test_a_certificate_is_checked(serve: Callable[..., Server], tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = serve(context)
    one = message("otlp", PROFILE, SERIES, 2.0)
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
    assert not list(Spool(tmp_path / "waits", 300, "otlp http://localhost").waiting()), "another server's"
    (tmp_path / "waits").chmod(0o777)
    with pytest.raises(UserError, match="--spool"):
        spool.add(Message("", "text/plain", b""))


def test_a_full_disk_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    script = f"""
import resource
from pathlib import Path
from offheap.errors import UserError
from offheap.push.destination import Message
from offheap.push.spool import Spool
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    Spool(Path({str(tmp_path / "waits")!r}), 1 << 20).add(Message("", "text/plain", bytes(5000)))
except UserError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert "give another folder with --spool" in done.stdout, done.stderr
    assert not list((tmp_path / "waits").iterdir())


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
    done = push(recording, "--otlp", server.url, "--name", "till", "--label", "env=prod")
    assert (done.returncode, done.stderr) == (0, "offheap: 1 profile sent\n")
    ((path, sent, body),) = server.requests
    assert (path, sent["content-type"]) == ("/v1development/profiles", "application/x-protobuf")
    request = ExportProfilesServiceRequest.FromString(body)
    (resource,) = request.resource_profiles
    facts = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert (facts["service.name"], facts["env"]) == ("till", "prod")
    live, blocks = resource.scope_profiles[0].profiles
    names = request.dictionary.string_table
    assert [names[one.sample_type.type_strindex] for one in (live, blocks)] == [
        "inuse_space",
        "inuse_objects",
    ]
    # Servers draw a profile at its time, and add up what has a duration.
    end = load(recording).info
    assert live.time_unix_nano == round((end.start + end.duration_seconds) * 1e9)
    assert live.duration_nano == 0
    assert push(recording, "--parca", server.url, "--name", "till").returncode == 0
    (series,) = json.loads(server.requests[1][2])["series"]
    profile = profile_class()()
    profile.ParseFromString(gzip.decompress(base64.b64decode(series["samples"][0]["rawProfile"])))
    assert {"name": "job", "value": "till"} in series["labels"]["labels"]
    assert (profile.time_nanos, profile.duration_nanos) == (live.time_unix_nano, 0)
    assert [len(one.value) for one in profile.sample] == [2] * len(profile.sample)
    assert sum(one.value[0] for one in profile.sample) == sum(one.values[0] for one in live.samples) > 0


def test_profiles_wait_for_a_server_that_is_away(serve: Callable[..., Server], recording: Path) -> None:
    server = serve()
    server.answers = [503] * 20
    done = push(recording, "--otlp", server.url, "--every", "1s")
    assert done.returncode == 0
    assert "profiles wait in" in done.stderr
    assert "0 profiles sent, 1 waiting" in done.stderr
    server.answers = []
    done = push(recording, "--otlp", server.url, "--every", "1s")
    assert "2 profiles sent" in done.stderr
    assert len(server.requests) == 2


def follower(server: Server, folder: Path) -> Sender:
    delivery = Delivery(destination("otlp", server.url, {}))
    return Sender(delivery, lambda _: b"", SERIES, Spool(folder / "push", 1000))


def test_a_server_that_comes_back_gets_what_waits_at_once(
    serve: Callable[..., Server], recording: Path
) -> None:
    server, said, pauses = serve(), list[str](), list[float]()
    loaded = load(recording)
    longer = replace(loaded, info=replace(loaded.info, duration_seconds=99.0))
    readings = iter([(loaded, True), (longer, False)])
    server.answers = [503, 503, 503, 503]
    follow(follower(server, recording), lambda: next(readings), 60.0, said.append, pauses.append)
    assert len(server.requests) == 2
    assert said[1:] == ["the server is back"]
    # The first attempt is the profile's own; then what waits is sent after pauses that double.
    assert len(pauses) == 5
    assert all(
        low < pause < high
        for pause, low, high in zip(pauses[:4], (0.2, 0.4, 0.9, 1.9), (0.8, 1.6, 3.1, 6.1), strict=True)
    )
    assert sum(pauses) == pytest.approx(60.0), "the next profile is not later for it"


def test_a_server_that_is_away_at_the_end_is_not_awaited_for_ever(
    serve: Callable[..., Server], recording: Path
) -> None:
    server, pauses = serve(), list[float]()
    server.answers = [503] * 20
    sender, loaded = follower(server, recording), load(recording)
    follow(sender, lambda: (loaded, False), 60.0, lambda _: None, pauses.append)
    assert sum(pauses) == pytest.approx(8.0)
    assert len(list(sender.spool.waiting())) == 1


def test_what_is_refused_makes_room_for_the_next(serve: Callable[..., Server], recording: Path) -> None:
    """Pyroscope, say, refuses profiles that waited for more than an hour."""
    server, said = serve(), list[str]()
    sender, loaded = follower(server, recording), load(recording)
    sender.spool.add(Message("", "text/plain", b"old"))
    server.answers = [400]
    follow(sender, lambda: (loaded, False), 60.0, said.append, lambda _: None)
    assert (sender.sent, sender.spool.lost, list(sender.spool.waiting())) == (1, 1, [])
    assert "400" in said[0]
    # Later profiles may be too large: the first shows that the server takes them in principle.
    server.answers = [413]
    follow(sender, lambda: (loaded, False), 60.0, said.append, lambda _: None)
    assert (sender.sent, sender.spool.lost) == (1, 2)
    assert "413" in said[1]
    server.answers = [413]
    with pytest.raises(UserError, match="413"):
        follow(follower(server, recording), lambda: (loaded, False), 60.0, said.append, lambda _: None)


def test_a_profile_outlives_wrong_credentials(serve: Callable[..., Server], recording: Path) -> None:
    server = serve()
    sender, loaded = follower(server, recording), load(recording)
    server.answers = [401]
    with pytest.raises(UserError, match="--headers"):
        follow(sender, lambda: (loaded, True), 60.0, lambda _: None, lambda _: None)
    assert len(list(sender.spool.waiting())) == 1


def test_a_collector_that_rejects_a_profile_is_heard(serve: Callable[..., Server]) -> None:
    server = serve()
    answer = ExportProfilesServiceResponse()
    answer.partial_success.rejected_profiles, answer.partial_success.error_message = 1, "no such index"
    server.says = answer.SerializeToString()
    delivery = Delivery(destination("otlp", server.url, {}))
    with pytest.raises(Refused, match="no such index"):
        delivery.once(message("otlp", PROFILE, SERIES, 2.0))
    for harmless in (ExportProfilesServiceResponse().SerializeToString(), b"<html>fine</html>", b"{}"):
        server.says = harmless
        delivery.once(message("otlp", PROFILE, SERIES, 2.0))


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
    follow(follower(server, recording), lambda: (loaded, True), 60.0, said.append, lambda _: None)
    assert said == ["the recording does not grow any more"]
    assert len(server.requests) == 1, "a server adds up profiles of one time"
