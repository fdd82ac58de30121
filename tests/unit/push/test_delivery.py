"""Requests to profile servers: what a real HTTP server receives, and how `push` takes its answers."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesServiceResponse,
)

from harness.peers.answering_server import Serve
from harness.peers.certificates import self_signed
from offheap.errors import UserError
from offheap.push.delivery import Away, Delivery, RefusedByServer
from offheap.push.destination import Series, destination, message, rejection
from offheap.push.headers import headers

PROFILE = b"\x1f\x8b a profile"
SERIES = Series("shop", {"env": "prod"})


def test_pyroscope_gets_the_profile_itself(serve: Serve) -> None:
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


def test_parca_gets_json_with_the_profile(serve: Serve) -> None:
    server = serve()
    Delivery(destination("parca", server.url, {})).once(message("parca", PROFILE, SERIES, 2.0))
    ((path, _, body),) = server.requests
    assert path == "/profiles/writeraw"
    (series,) = json.loads(body)["series"]
    labels = {label["name"]: label["value"] for label in series["labels"]["labels"]}
    assert labels == {"__name__": "memory", "job": "shop", "env": "prod"}
    assert base64.b64decode(series["samples"][0]["rawProfile"]) == PROFILE


def test_a_busy_server_is_asked_again_and_a_refusal_is_final(serve: Serve) -> None:
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


def test_a_certificate_is_checked(serve: Serve, tmp_path: Path) -> None:
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
        ("ftp://host/", "not the URL"),
        ("host:4040", "not the URL"),
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


def test_a_collector_that_rejects_a_profile_is_heard(serve: Serve) -> None:
    server = serve()
    answer = ExportProfilesServiceResponse()
    answer.partial_success.rejected_profiles, answer.partial_success.error_message = 1, "no such index"
    server.says = answer.SerializeToString()
    delivery = Delivery(destination("otlp", server.url, {}))
    with pytest.raises(RefusedByServer, match="no such index"):
        delivery.once(message("otlp", PROFILE, SERIES, 2.0))
    for harmless in (ExportProfilesServiceResponse().SerializeToString(), b"<html>fine</html>", b"{}"):
        server.says = harmless
        delivery.once(message("otlp", PROFILE, SERIES, 2.0))
