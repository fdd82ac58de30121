"""speedscope's file format (https://www.speedscope.app/file-format-schema.json), a profile for each value."""

from __future__ import annotations

import json
from typing import Any

from offheap import __version__
from offheap.formats.exported.content.samples import TITLES, VALUES, Samples, text

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_UNITS = {"bytes": "bytes", "count": "none"}


def speedscope(samples: Samples) -> bytes:
    frames: list[dict[str, Any]] = []
    numbers: dict[tuple[str, str, int], int] = {}
    stacks = []
    for place in range(len(samples.stacks)):
        stack = []
        for frame in reversed(samples.frames(place)):
            key = text(frame.name), text(frame.file), frame.line
            if key not in numbers:
                numbers[key] = len(frames)
                known = {"file": key[1], "line": frame.line}
                frames.append({"name": key[0], **{name: value for name, value in known.items() if value}})
            stack.append(numbers[key])
        stacks.append(stack)
    profiles = []
    for value, unit in VALUES.items():
        weights = samples.values[value].tolist()
        chosen = [place for place, weight in enumerate(weights) if weight > 0]
        profiles.append(
            {
                "type": "sampled",
                "name": TITLES[value],
                "unit": _UNITS[unit],
                "startValue": 0,
                "endValue": sum(weights[place] for place in chosen),
                "samples": [stacks[place] for place in chosen],
                "weights": [weights[place] for place in chosen],
            }
        )
    info = samples.recording.info
    document = {
        "$schema": _SCHEMA,
        "exporter": f"offheap {__version__}",
        "name": info.main_class or f"pid {info.pid}",
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
        "profiles": profiles,
    }
    return json.dumps(document, separators=(",", ":")).encode()
