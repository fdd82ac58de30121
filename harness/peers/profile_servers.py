"""Servers of profiles, started on this machine for a test, and what they have taken, by their own queries.

Each query gives the sum of the bytes that are live by the names of a stack, innermost first.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness import needs
from harness.installs import push_servers

# How to get the servers that no recipe of ours builds.
PARCA = "put a parca, 0.24 or newer, on PATH"
PYROSCOPE = "put a pyroscope, 2.0 or newer, on PATH"

Totals = Counter[tuple[str, ...]]
_START_SECONDS = 60.0  # a busy machine takes half of it


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _running(command: Sequence[str | Path], folder: Path, port: int) -> Iterator[None]:
    """Until the block ends, from when the port accepts connections."""
    log = folder / "server.log"
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        until = time.monotonic() + _START_SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            said = log.read_text(errors="replace")[-4000:]
            assert process.poll() is None, said
            assert time.monotonic() < until, said
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)


@contextlib.contextmanager
def collector(folder: Path, port: int, certificate: tuple[Path, Path] | None = None) -> Iterator[Path]:
    """An OpenTelemetry collector; its file, in which each message has its size before it.

    certificate  and its key, for TLS
    """
    if not push_servers.COLLECTOR.exists():
        needs.skip("an OpenTelemetry collector in build/push-servers", push_servers.REMEDY)
    tls = f"{{cert_file: {certificate[0]}, key_file: {certificate[1]}}}" if certificate else "null"
    taken = folder / "taken.bin"
    (folder / "otelcol.yaml").write_text(f"""
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}", tls: {tls}}}}}}}}}
exporters: {{file: {{path: "{taken}", format: proto, flush_interval: 100ms}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{profiles: {{receivers: [otlp], exporters: [file]}}}}
""")
    command = (push_servers.COLLECTOR, "--config", folder / "otelcol.yaml")
    gates = ("--feature-gates", "service.profilesSupport")
    with _running((*command, *gates), folder, port):
        yield taken


def collected(taken: Path) -> list[Any]:
    """The messages in a collector's file, of opentelemetry.proto.profiles.v1development.ProfilesData."""
    from opentelemetry.proto.profiles.v1development.profiles_pb2 import ProfilesData

    data, messages, at = taken.read_bytes(), [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        messages.append(ProfilesData.FromString(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return messages


def resource_facts(message: Any) -> dict[str, str]:
    """The attributes of the resource: a collector keeps their texts among the strings of the profiles."""
    strings = message.dictionary.string_table

    def text(plain: str, number: int) -> str:
        return plain or str(strings[number])

    return {
        text(one.key, one.key_strindex): text(one.value.string_value, one.value.string_value_strindex)
        for one in message.resource_profiles[0].resource.attributes
    }


def otlp_totals(message: Any) -> Totals:
    """The samples of the first profile, which is inuse_space."""
    tables, totals = message.dictionary, Totals()
    for sample in message.resource_profiles[0].scope_profiles[0].profiles[0].samples:
        names = tuple(
            tables.string_table[tables.function_table[line.function_index].name_strindex]
            for location in tables.stack_table[sample.stack_index].location_indices
            for line in tables.location_table[location].lines
        )
        totals[names] += sum(sample.values)
    return totals


@contextlib.contextmanager
def parca(folder: Path, port: int) -> Iterator[str]:
    """Parca with an empty configuration; its URL."""
    program = needs.remedied_program("parca", PARCA)
    (folder / "parca.yaml").write_text(
        "object_storage: {bucket: {type: FILESYSTEM, config: {directory: ./data}}}\n"
    )
    command = [program, "--config-path=parca.yaml", f"--http-address=127.0.0.1:{port}"]
    command += ["--debuginfod-upstream-servers=127.0.0.1:9"]  # nobody: names are in the profiles
    with _running(command, folder, port):
        yield f"http://127.0.0.1:{port}"


def parca_totals(url: str, job: str, start: float, end: float) -> Totals:
    """Sums all profiles of a job between two times, in seconds since the epoch."""
    question = {
        "mode": "MODE_MERGE",
        "merge.query": f'memory:inuse_space:bytes:space:bytes{{job="{job}"}}',
        "merge.start": _utc(start),
        "merge.end": _utc(end),
        "report_type": "REPORT_TYPE_PPROF",
        "node_trim_threshold": 0,
    }
    answer = _json(f"{url}/profiles/query?{urllib.parse.urlencode(question)}")
    return pprof_totals(base64.b64decode(answer["pprof"]))


@contextlib.contextmanager
def pyroscope(folder: Path, port: int) -> Iterator[str]:
    """Grafana Pyroscope as one process; its URL."""
    program = needs.remedied_program("pyroscope", PYROSCOPE)
    (folder / "pyroscope.yaml").write_text(f"""
server:
  http_listen_address: 127.0.0.1
  http_listen_port: {port}
  grpc_listen_address: 127.0.0.1
  grpc_listen_port: {free_port()}
memberlist: {{bind_addr: [127.0.0.1], advertise_addr: 127.0.0.1, bind_port: {free_port()}}}
analytics: {{reporting_enabled: false}}
self_profiling: {{disable_push: true}}
""")
    with _running([program, "-config.file=pyroscope.yaml"], folder, port):
        url, until = f"http://127.0.0.1:{port}", time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            with (
                contextlib.suppress(urllib.error.URLError),
                urllib.request.urlopen(f"{url}/ready", timeout=5),
            ):
                break
            time.sleep(0.5)
        yield url


def pyroscope_totals(url: str, service: str, start: float, end: float) -> Totals:
    """Likewise, by the query that Grafana's data source asks."""
    question = {
        "profile_typeID": "memory:inuse_space:bytes:space:bytes",
        "label_selector": f'{{service_name="{service}"}}',
        "start": round(start * 1000),
        "end": round(end * 1000),
    }
    profile = _json(f"{url}/querier.v1.QuerierService/SelectMergeProfile", question)
    names = profile.get("stringTable", [""])
    functions = {one["id"]: names[int(one["name"])] for one in profile.get("function", [])}
    lines = {
        one["id"]: [functions[line["functionId"]] for line in one.get("line", [])]
        for one in profile.get("location", [])
    }
    totals = Totals()
    for sample in profile.get("sample", []):
        totals[tuple(name for at in sample["locationId"] for name in lines[at])] += int(sample["value"][0])
    return totals


def pprof_totals(data: bytes) -> Totals:
    """The samples of the value inuse_space."""
    from offheap.formats.pprof_schema import profile_class

    profile: Any = profile_class()()
    profile.ParseFromString(gzip.decompress(data))
    names = [name.decode() for name in profile.string_table]
    functions = {one.id: names[one.name] for one in profile.function}
    lines = {one.id: [functions[line.function_id] for line in one.line] for one in profile.location}
    column = [names[kind.type] for kind in profile.sample_type].index("inuse_space")
    totals = Totals()
    for sample in profile.sample:
        totals[tuple(name for at in sample.location_id for name in lines[at])] += sample.value[column]
    return totals


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _json(url: str, question: object = None) -> Any:
    data = json.dumps(question).encode() if question is not None else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)
