"""Stacks of real frameworks, as harness/tools/stack_fixture.py stores them."""

from __future__ import annotations

import json

from harness.paths import DATA
from offheap.recording.model import Frame

FOLDER = DATA / "stacks"


def recorded(name: str) -> tuple[tuple[Frame, ...], str]:
    value = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return tuple(Frame(*row) for row in value["stack"]), value["main_class"]
