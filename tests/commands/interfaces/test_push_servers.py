"""`offheap push` to real servers: what their own queries give is what `offheap leaks` says."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import needs
from harness.command_line import offheap, run_offheap
from harness.installs import push_servers
from harness.jvms.zoo import Running, Zoo, programs
from harness.peers.certificates import self_signed
from harness.peers.profile_servers import (
    PARCA,
    PYROSCOPE,
    Totals,
    collected,
    collector,
    free_port,
    otlp_totals,
    parca,
    parca_totals,
    pprof_totals,
    pyroscope,
    pyroscope_totals,
    resource_facts,
)
from harness.waiting import wait_until

SECONDS = 60.0
# Marks, so that without a server no JVM is recorded for it.
with_collector = needs.unless(
    push_servers.COLLECTOR.exists(), "an OpenTelemetry collector in build/push-servers", push_servers.REMEDY
)
with_parca = needs.unless(shutil.which("parca") is not None, "parca", PARCA)
with_pyroscope = needs.unless(shutil.which("pyroscope") is not None, "pyroscope", PYROSCOPE)


def push(recording: Path, *arguments: str | Path) -> None:
    assert run_offheap("push", recording, *arguments).stderr == "offheap: 1 profile sent\n"


@pytest.fixture(scope="module")
def leaking(jre: Callable[[int], Path], zoo: Zoo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of a JVM that leaks native memory."""
    path = tmp_path_factory.mktemp("leaking") / "inflaters.offheap"
    program = programs()["inflaters"]
    command = offheap(
        "run", "--interval", "32KiB", "-o", path, "--", *zoo.command(program, jre(17), 200.0, 6.0)
    )
    with Running(command) as running:
        running.process.wait(SECONDS)
    return path


@pytest.fixture(scope="module")
def exported(leaking: Path) -> Totals:
    """What `offheap export` writes, as a reader of ours reads it."""
    path = leaking.with_suffix(".pb.gz")
    run_offheap("export", leaking, "--format", "pprof", "-o", path)
    return +pprof_totals(path.read_bytes())


def suspect(recording: Path) -> Any:
    return json.loads(run_offheap("leaks", recording, "--json").stdout)["suspects"][0]


def agrees(totals: Totals, exported: Totals, leak: Any) -> None:
    """Byte by byte with the export, and with what `leaks` says of its first suspect."""
    assert +totals == exported
    names = [frame["name"] for frame in leak["stack"]]
    held = sum(size for stack, size in totals.items() if "java.util.zip.Inflater.init" in stack)
    assert "java.util.zip.Inflater.init" in names
    assert held == pytest.approx(leak["live_bytes"]["estimate"], rel=0.001)


@with_collector
def test_a_collector(leaking: Path, exported: Totals, tmp_path: Path) -> None:
    port = free_port()
    with collector(tmp_path, port) as taken:
        push(leaking, "--otlp", f"http://127.0.0.1:{port}", "--label", "env=prod")
        (message,) = awaited(taken, 1)
    agrees(otlp_totals(message), exported, suspect(leaking))
    facts = resource_facts(message)
    assert (facts["service.name"], facts["env"]) == ("leaks.Inflaters", "prod")


def awaited(taken: Path, count: int) -> list[Any]:
    wait_until(lambda: len(collected(taken)) >= count, SECONDS, pause=0.1)
    return collected(taken)


@with_collector
def test_a_collector_behind_a_certificate_of_ones_own(leaking: Path, tmp_path: Path) -> None:
    (certificate, key), port = self_signed(tmp_path), free_port()
    with collector(tmp_path, port, (certificate, key)) as taken:
        untrusted = run_offheap("push", leaking, "--otlp", f"https://127.0.0.1:{port}", expect=2)
        assert "give the authority's file with --ca" in untrusted.stderr
        push(leaking, "--otlp", f"https://127.0.0.1:{port}", "--ca", certificate)
        assert len(awaited(taken, 1)) == 1


@with_collector
def test_a_collector_that_comes_later_gets_every_profile_of_a_program(
    jre: Callable[[int], Path], zoo: Zoo, tmp_path: Path
) -> None:
    """The JVM runs on while the server is away; later each profile has arrived, at the time that it is of."""
    port, path = free_port(), tmp_path / "app.offheap"
    program = programs()["inflaters"]
    command = offheap(
        "run", "--interval", "32KiB", "-o", path, "--", *zoo.command(program, jre(17), 200.0, 12.0)
    )
    with Running(command) as running:
        wait_until((path / "journal").exists, SECONDS)
        pushing = subprocess.Popen(
            offheap("push", path, "--otlp", f"http://127.0.0.1:{port}", "--every", "2s"),
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(6)
        with collector(tmp_path, port) as taken:
            assert running.process.wait(SECONDS) == 0
            said = pushing.communicate(timeout=SECONDS)[1]
            messages = collected(taken)
    assert "does not answer" in said
    assert "the server is back" in said
    assert f"{len(messages)} profiles sent\n" in said
    profiles = [one.resource_profiles[0].scope_profiles[0].profiles[0] for one in messages]
    times = [one.time_unix_nano for one in profiles]
    assert len(times) >= 4
    assert times == sorted(set(times)), "each at a time of its own"
    sums = [sum(otlp_totals(message).values()) for message in messages]
    assert sums[-2] > sums[0], "the program leaks; the last is of its end"
    assert not list(path.with_name("app.offheap.push").iterdir())


@with_parca
def test_parca(leaking: Path, exported: Totals, tmp_path: Path) -> None:
    before = time.time() - 3600
    with parca(tmp_path, free_port()) as url:
        push(leaking, "--parca", url, "--name", "shop")
        agrees(parca_totals(url, "shop", before, time.time() + 1), exported, suspect(leaking))


@with_pyroscope
def test_pyroscope(leaking: Path, exported: Totals, tmp_path: Path) -> None:
    before = time.time() - 3600
    with pyroscope(tmp_path, free_port()) as url:
        push(leaking, "--pyroscope", url, "--name", "shop")
        until, totals = time.monotonic() + SECONDS, Totals()
        while not totals and time.monotonic() < until:
            time.sleep(0.5)
            totals = pyroscope_totals(url, "shop", before, time.time() + 1)
        agrees(totals, exported, suspect(leaking))
