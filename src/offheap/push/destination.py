"""The servers that take profiles, and the one request that each of them wants.

pyroscope  POST /ingest, multipart with the profile as pprof (Grafana Pyroscope, "Ingest" of its HTTP API)
parca      POST /profiles/writeraw, JSON with the profile as gzipped pprof in base64 (the gateway of Parca's
           ProfileStoreService.WriteRaw, parca.profilestore.v1alpha1)
otlp       POST /v1development/profiles, a protobuf ExportProfilesServiceRequest (OTLP over HTTP)
"""

from __future__ import annotations

import base64
import json
import secrets
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from offheap.errors import UserError

Kind = Literal["pyroscope", "parca", "otlp"]
KINDS: tuple[Kind, ...] = ("pyroscope", "parca", "otlp")
# `offheap export --format` of the profile that each takes.
FORMATS: Mapping[Kind, str] = {"pyroscope": "pprof", "parca": "pprof", "otlp": "otlp"}
_PATHS: Mapping[Kind, str] = {
    "pyroscope": "/ingest",
    "parca": "/profiles/writeraw",
    "otlp": "/v1development/profiles",
}
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# What is live is a level, not a count: the server averages it over time.
_LEVELS = {
    name: {"units": unit, "aggregation": "average", "cumulative": False, "sampled": False}
    for name, unit in (("inuse_space", "bytes"), ("inuse_objects", "objects"))
}


@dataclass(frozen=True)
class Destination:
    """kind     whose request it is
    base     of the URL, without a slash at its end
    headers  of every request, such as Authorization
    """

    kind: Kind
    base: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Message:
    """One profile of one time as the server wants it; `query` is a part of the URL."""

    query: str
    content_type: str
    body: bytes


def destination(kind: Kind, url: str, headers: Mapping[str, str]) -> Destination:
    """UserError: no HTTP URL, credentials in it, or headers that would cross a network in the clear."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f"{url} is no URL of a server", f"write --{kind} https://HOST:PORT")
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
    """What the server files a profile under."""

    name: str
    labels: Mapping[str, str]


def message(kind: Kind, profile: bytes, series: Series, start: float, end: float) -> Message:
    """`profile`: in the format of FORMATS; `start`, `end`: seconds since the epoch."""
    if kind == "pyroscope":
        return _pyroscope(profile, series, start, end)
    if kind == "parca":
        return _parca(profile, {"__name__": "memory", "job": series.name, **series.labels})
    return Message("", "application/x-protobuf", profile)


def _pyroscope(profile: bytes, series: Series, start: float, end: float) -> Message:
    name, tags = series.name, ",".join(f"{key}={value}" for key, value in sorted(series.labels.items()))
    query = urllib.parse.urlencode(
        {
            "name": f"{name}{{{tags}}}" if tags else name,
            "from": int(start),
            "until": max(int(end), int(start) + 1),
            "format": "pprof",
        }
    )
    boundary = secrets.token_hex(16)
    parts = (
        ("profile", "profile.pprof", "application/octet-stream", profile),
        ("sample_type_config", "config.json", "application/json", json.dumps(_LEVELS).encode()),
    )
    body = b"".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"; filename="{file}"\r\n'
        f"Content-Type: {content_type}\r\n\r\n".encode()
        + content
        + b"\r\n"
        for field, file, content_type, content in parts
    )
    return Message(query, f"multipart/form-data; boundary={boundary}", body + f"--{boundary}--\r\n".encode())


def _parca(profile: bytes, labels: Mapping[str, str]) -> Message:
    series = {
        "labels": {"labels": [{"name": key, "value": value} for key, value in sorted(labels.items())]},
        "samples": [{"rawProfile": base64.b64encode(profile).decode()}],
    }
    return Message("", "application/json", json.dumps({"series": [series]}).encode())
