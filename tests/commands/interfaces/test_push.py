"""`offheap push`: what a real HTTP server receives, what waits while it is away, what it refuses."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesServiceRequest,
)

from harness.command_line import documented, offheap, run_offheap
from harness.jvms.zoo import Running, Zoo, programs
from harness.peers.answering_server import AnsweringServer, Serve
from harness.recordings.stored import stored
from harness.waiting import wait_until
from offheap.errors import UserError
from offheap.formats.pprof_schema import profile_class
from offheap.push.delivery import Delivery
from offheap.push.destination import Message, Series, destination
from offheap.push.sender import Sender, follow
from offheap.push.spool import Spool
from offheap.recording import load

SERIES = Series("shop", {"env": "prod"})
SPOOL_BYTES = 1 << 20  # three profiles of the JVM
PUSH_SECONDS = 180.0  # for four profiles: each takes seconds of CPU on a busy machine


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return stored(tmp_path / "app.offheap")


def push(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(offheap("push", *arguments), capture_output=True, text=True, timeout=60)


def test_a_jar_gives_its_name_without_its_folder(serve: Serve, recording: Path) -> None:
    """A folder of a release would make each release another program in the server."""
    described = recording / "meta.json"
    facts = json.loads(described.read_text())
    described.write_text(json.dumps({**facts, "main_class": "/srv/releases/2026-11-26/till.jar"}))
    server = serve()
    assert push(recording, "--otlp", server.url).returncode == 0
    assert push(recording, "--pyroscope", server.url).returncode == 0
    (_, _, body), (path, _, _) = server.requests
    (resource,) = ExportProfilesServiceRequest.FromString(body).resource_profiles
    (name,) = [one.value.string_value for one in resource.resource.attributes if one.key == "service.name"]
    assert name == "till.jar"
    assert "name=till.jar&" in path


def test_the_command_sends_what_the_official_protobufs_read(serve: Serve, recording: Path) -> None:
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


def test_profiles_wait_for_a_server_that_is_away(serve: Serve, recording: Path) -> None:
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


def spooled(folder: Path) -> list[Path]:
    """The messages in the spool, the oldest first; a draft disappears as soon as it is whole."""
    return sorted(folder.glob("*.message"))


def test_a_jvm_and_its_recording_do_not_depend_on_the_server(
    serve: Serve, jre: Callable[[int], Path], zoo: Zoo, tmp_path: Path
) -> None:
    """GIVEN a server that never takes a profile WHEN a recording grows for longer than the spool has room
    THEN the oldest profiles are lost, and neither the JVM nor the recording has less."""
    server, recording, spool = serve(), tmp_path / "app.offheap", tmp_path / "spool"
    server.answers = [503] * 100_000
    program = zoo.command(programs()["unsafe"], jre(17))
    options = ("--every", "1s", "--spool", spool, "--spool-limit", str(SPOOL_BYTES))
    with Running(offheap("run", "--exact", "--every", "1s", "-o", recording, "--", *program)) as running:
        running.truths(2)
        command = offheap("push", recording, "--otlp", server.url, *options)
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as pushing:
            try:
                wait_until(lambda: len(spooled(spool)) > 0)
                (first, *_) = spooled(spool)
                wait_until(lambda: not first.exists(), PUSH_SECONDS)
                assert pushing.poll() is None
                truth = running.stop_leaking()
                assert running.exit() == 0, running.errors
                _, said = pushing.communicate(timeout=60)
            finally:
                pushing.kill()
    assert pushing.returncode == 1, said
    assert "0 profiles sent" in said
    assert " lost" in said
    waiting = spooled(spool)
    assert len(waiting) > 1
    assert sum(path.stat().st_size for path in waiting) <= SPOOL_BYTES
    assert server.requests == []
    loaded = load(recording)
    assert (loaded.info.ended, loaded.info.losses) == ("exited", 0)
    suspects = json.loads(run_offheap("leaks", recording, "--all", "--json").stdout)["suspects"]
    its = [one for one in suspects if any("Unsafe_Allocate" in frame["name"] for frame in one["stack"])]
    assert sum(one["live_blocks"]["estimate"] for one in its) == truth.blocks


def follower(server: AnsweringServer, folder: Path) -> Sender:
    delivery = Delivery(destination("otlp", server.url, {}))
    return Sender(delivery, lambda _: b"", SERIES, Spool(folder / "push", 1000))


def test_a_server_that_comes_back_gets_what_waits_at_once(serve: Serve, recording: Path) -> None:
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


def test_a_server_that_is_away_at_the_end_is_not_awaited_for_ever(serve: Serve, recording: Path) -> None:
    server, pauses = serve(), list[float]()
    server.answers = [503] * 20
    sender, loaded = follower(server, recording), load(recording)
    follow(sender, lambda: (loaded, False), 60.0, lambda _: None, pauses.append)
    assert sum(pauses) == pytest.approx(8.0)
    assert len(list(sender.spool.waiting())) == 1


def test_what_is_refused_makes_room_for_the_next(serve: Serve, recording: Path) -> None:
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


def test_a_profile_outlives_wrong_credentials(serve: Serve, recording: Path) -> None:
    server = serve()
    sender, loaded = follower(server, recording), load(recording)
    server.answers = [401]
    with pytest.raises(UserError, match="--headers"):
        follow(sender, lambda: (loaded, True), 60.0, lambda _: None, lambda _: None)
    assert len(list(sender.spool.waiting())) == 1


def test_json_is_as_documented(serve: Serve, recording: Path) -> None:
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


def test_a_recording_that_stands_still_is_not_followed_for_ever(serve: Serve, recording: Path) -> None:
    server, said = serve(), list[str]()
    loaded = load(recording)
    follow(follower(server, recording), lambda: (loaded, True), 60.0, said.append, lambda _: None)
    assert said == ["the recording does not grow any more"]
    assert len(server.requests) == 1, "a server adds up profiles of one time"
