"""Counters over time in Chrome's trace format, for Perfetto and chrome://tracing.

Format: "Trace Event Format", counter events (`ph: C`), times in microseconds.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.recording.model import Recording


def chrome_trace(recording: Recording) -> bytes:
    """RSS and its owners, live native memory, the Java heap after collections, and the collections."""
    info = recording.info
    events: list[dict[str, Any]] = [
        {
            "ph": "M",
            "name": "process_name",
            "pid": info.pid,
            "args": {"name": info.main_class or f"pid {info.pid}"},
        }
    ]

    def counter(name: str, times: NDArray[np.float64], series: dict[str, NDArray[Any]]) -> None:
        for at, time in enumerate(times.tolist()):
            values = {key: float(column[at]) for key, column in series.items()}
            known = {key: value for key, value in values.items() if math.isfinite(value)}
            events.append({"ph": "C", "name": name, "pid": info.pid, "ts": time * 1e6, "args": known})

    process = recording.process
    read = process["rss_bytes"] > 0
    counter("RSS", process["time"][read], {"bytes": process["rss_bytes"][read]})
    counter("live native memory", process["time"], {"bytes": process["live_bytes"]})
    owners = recording.owners
    if len(owners.times):
        counter("owners of RSS", owners.times, dict(zip(owners.names, owners.bytes.T, strict=True)))
    if len(recording.heap.times):
        counter("Java heap after collections", recording.heap.times, {"bytes": recording.heap.bytes})
    collections = recording.collections
    if collections is not None:
        for kind, begun, ended in zip(
            collections.kinds, collections.begun.tolist(), collections.ended.tolist(), strict=True
        ):
            span = {"ph": "X", "name": f"{kind} collection", "pid": info.pid, "tid": 0}
            events.append({**span, "ts": begun * 1e6, "dur": max(ended - begun, 0.0) * 1e6})
    document = {"displayTimeUnit": "ms", "traceEvents": events}
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
