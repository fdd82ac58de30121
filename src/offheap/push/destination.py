"""The profile servers, and the request that each of them accepts.

pyroscope  POST /ingest?format=pprof, the profile as pprof ("Ingest" of Grafana Pyroscope's HTTP API)
parca      POST /profiles/writeraw, JSON with the profile as gzipped pprof in base64 (the gateway of Parca's
           ProfileStoreService.WriteRaw, parca.profilestore.v1alpha1)
otlp       POST /v1development/profiles, a protobuf ExportProfilesServiceRequest (OTLP over HTTP)
"""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from offheap.errors import UserError

Kind = Literal["pyroscope", "parca", "otlp"]
KINDS: tuple[Kind, ...] = ("pyroscope", "parca", "otlp")
_PATHS: Mapping[Kind, str] = {
    "pyroscope": "/ingest",
    "parca": "/profiles/writeraw",
    "otlp": "/v1development/profiles",
}
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# Pyroscope refuses a name with another character (api/model/labelset/validate.go).
_NO_NAME = re.compile(r"[^A-Za-z0-9_./-]+")
_SPY = "offheap"  # the label pyroscope_spy: which profiler made the profile
# The name of a memory profile among profilers, and in Parca's own scrapes of Go programs.
_PARCA_NAME = "memory"


@dataclass(frozen=True)
class Destination:
    """kind     which server's request
    base     of the URL, without a slash at its end
    headers  of every request, such as Authorization
    """

    kind: Kind
    base: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Message:
    """One profile of one time, in the form for the server; `query` is a part of the URL."""

    query: str
    content_type: str
    body: bytes


def destination(kind: Kind, url: str, headers: Mapping[str, str]) -> Destination:
    """UserError: no HTTP URL, credentials in the URL, or headers without encryption across a network."""
    try:
        parts = urllib.parse.urlsplit(url)
        # The library reads the port when asked; a connection would take the number modulo 65,536.
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise UserError(f"{url} is not the URL of a server", f"write --{kind} https://HOST:PORT")
    if parts.username is not None or parts.password is not None:
        raise UserError(
            "the URL has credentials, which every user of this machine can see", "put them in --headers FILE"
        )
    if parts.query or parts.fragment:
        raise UserError(f"{url} has more than a path", "leave out what follows ? or #")
    if headers and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise UserError("the headers would be sent without encryption", "use an https URL")
    return Destination(kind, url.rstrip("/"), headers)


def address(destination: Destination, query: str) -> str:
    return destination.base + _PATHS[destination.kind] + (f"?{query}" if query else "")


@dataclass(frozen=True)
class Series:
    """The name and labels under which the server stores a profile."""

    name: str
    labels: Mapping[str, str]


def rejection(kind: Kind, answer: bytes) -> str:
    """Why a server that answers 200 nevertheless rejects the profile; "" if it accepted the profile."""
    if kind != "otlp" or not answer:
        return ""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service

    try:
        partial = service.ExportProfilesServiceResponse.FromString(answer).partial_success
    except DecodeError:
        return ""  # a proxy's page, or JSON: no rejection
    return partial.error_message or "no reason is given" if partial.rejected_profiles else ""


def message(kind: Kind, profile: bytes, series: Series, time: float) -> Message:
    """`profile`: OTLP for otlp, else pprof; `time`: its own, in seconds since the epoch."""
    if kind == "pyroscope":
        return _pyroscope(profile, series, time)
    if kind == "parca":
        return _parca(profile, {"__name__": _PARCA_NAME, "job": series.name, **series.labels})
    # The series is in the profile: attributes of its resource.
    return Message("", "application/x-protobuf", profile)


def _pyroscope(profile: bytes, series: Series, time: float) -> Message:
    name = _NO_NAME.sub("_", series.name)
    tags = ",".join(f"{key}={value}" for key, value in sorted(series.labels.items()))
    query = urllib.parse.urlencode(
        {
            "name": f"{name}{{{tags}}}" if tags else name,
            "from": int(time),
            "until": int(time) + 1,
            "format": "pprof",
            "spyName": _SPY,
        }
    )
    return Message(query, "application/octet-stream", profile)


def _parca(profile: bytes, labels: Mapping[str, str]) -> Message:
    series = {
        "labels": {"labels": [{"name": key, "value": value} for key, value in sorted(labels.items())]},
        "samples": [{"rawProfile": base64.b64encode(profile).decode()}],
    }
    return Message("", "application/json", json.dumps({"series": [series]}).encode())
