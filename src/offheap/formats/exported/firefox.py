"""The processed profile of profiler.firefox.com: a thread for each value, counters over time.

Format: src/types/profile.ts of github.com/firefox-devtools/profiler and docs-developer/CHANGELOG-formats.md
there.  Newer profilers upgrade this version.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from offheap import __version__
from offheap.formats.exported.content.call_tree import CallTree
from offheap.formats.exported.content.samples import TITLES, VALUES, Samples, text
from offheap.formats.exported.firefox_tables import CATEGORIES, shared
from offheap.recording.model import Recording

_VERSION = 61  # of November 2025: the first whose source files have an `id`
_GECKO_VERSION = 32  # of that time; no more than a label in a processed profile
_MILLI = 1000.0
_INTERVAL = 1  # ms between samples: all have one time, and the profiler draws nothing without a width
_WEIGHTS = {"bytes": "bytes", "count": "samples"}


def firefox(samples: Samples) -> bytes:
    recording, tree = samples.recording, CallTree(samples)
    info = recording.info
    libraries, tables, markers = shared(recording, tree)
    end = info.duration_seconds * _MILLI
    threads = []
    for place, (value, unit) in enumerate(VALUES.items()):
        weights = samples.values[value].tolist()
        chosen = [at for at, weight in enumerate(weights) if weight > 0]
        table = {
            "stack": [tree.leaves[at] if tree.leaves[at] >= 0 else None for at in chosen],
            "time": [end] * len(chosen),
            "weight": [weights[at] for at in chosen],
            "weightType": _WEIGHTS[unit],
            "length": len(chosen),
        }
        threads.append(_thread(recording, place, TITLES[value], table, markers if not place else _NO_MARKERS))
    document = {
        "meta": _meta(recording),
        "libs": libraries,
        "pages": [],
        "counters": _counters(recording),
        "shared": tables,
        "threads": threads,
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def _meta(recording: Recording) -> dict[str, Any]:
    info = recording.info
    facts = [("offheap", __version__), ("Java", info.java_version), *(("Lacks", it) for it in info.coverage)]
    entries = [{"label": label, "format": "string", "value": text(fact)} for label, fact in facts if fact]
    return {
        "interval": _INTERVAL,
        "startTime": info.start * _MILLI,
        "profilingStartTime": 0,
        # Times of samples are before the end of the range.
        "profilingEndTime": info.duration_seconds * _MILLI + _INTERVAL,
        "processType": 0,
        "product": text(info.main_class) or f"pid {info.pid}",
        "stackwalk": 1,
        "version": _GECKO_VERSION,
        "preprocessedProfileVersion": _VERSION,
        "symbolicated": True,
        "importedFrom": "offheap",
        "categories": CATEGORIES,
        "markerSchema": [
            {
                "name": "collection",
                "display": ["marker-chart", "marker-table", "timeline-overview"],
                "fields": [],
            }
        ],
        "extra": [{"label": "Recording", "entries": entries}],
        "keepProfileThreadOrder": True,
    }


_NO_MARKERS: dict[str, Any] = {
    "data": [],
    "name": [],
    "startTime": [],
    "endTime": [],
    "phase": [],
    "category": [],
    "length": 0,
}


def _thread(
    recording: Recording, place: int, name: str, table: dict[str, Any], markers: dict[str, list[Any]]
) -> dict[str, Any]:
    end = recording.info.duration_seconds * _MILLI
    return {
        "processType": "default",
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": end,
        "pausedRanges": [],
        "name": name,
        "isMainThread": not place,
        "processName": text(recording.info.main_class) or f"pid {recording.info.pid}",
        "pid": str(recording.info.pid),
        "tid": place,
        "samples": table,
        "markers": markers,
    }


def _counters(recording: Recording) -> list[dict[str, Any]]:
    process, heap = recording.process, recording.heap
    read = process[process["rss_bytes"] > 0]
    found = [
        ("RSS", "orange", read["time"], read["rss_bytes"]),
        ("live native memory", "blue", process["time"], process["live_bytes"]),
        ("Java heap after collections", "green", heap.times, heap.bytes),
    ]
    return [
        {
            "name": name,
            "category": "Memory",
            "description": f"{name}, bytes",
            "pid": str(recording.info.pid),
            "mainThreadIndex": 0,
            "samples": {
                "time": [time * _MILLI for time in times.tolist()],
                # Each is the change since the one before.
                "count": [b - a for a, b in zip([0, *levels], levels, strict=False)],
                "length": len(levels),
            },
            "display": {
                "graphType": "line-accumulated",
                "unit": "bytes",
                "color": color,
                "markerSchemaLocation": None,
                "sortWeight": 20,
                "label": name,
                "tooltipRows": [
                    {"type": "value", "source": "accumulated", "format": {"unit": "bytes"}, "label": name}
                ],
            },
        }
        for name, color, times, column in found
        for levels in [np.nan_to_num(column.astype(np.float64)).round().tolist()]
        if levels
    ]
