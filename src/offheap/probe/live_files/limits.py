"""Checks a live file's claims against its own tables and against the memory that reading takes.

The probe's rows do not overlap: no two stacks share frames, no two methods lines, no two strings bytes.
With shared rows a small file could stand for gigabytes.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from offheap.probe import contract
from offheap.probe.contract import Section
from offheap.recording.allowance import OF_LIVE_FILE, Allowance

# Rows that a frame, a value or the probe can number.
MOST_ROWS: Mapping[Section, int] = {
    Section.MODULES: 1 << 20,
    Section.THREADS: 1 << 16,
    Section.PROPERTIES: 1 << 12,
    Section.STACKS: 1 << 24,
}

# Peak bytes per used row during a read: copies, counts and Python objects.
_ROW_BYTES: Mapping[Section, int] = {
    Section.STRINGS: 4,
    Section.MODULES: 800,
    Section.LINES: 16,
    Section.THREADS: 300,
    Section.FRAMES: 64,
    Section.STACKS: 600,
    Section.PROPERTIES: 400,
}
_FRAME_BYTES = 800  # a distinct frame: its number and its name, as Python objects
_SLOT_BYTES = contract.KEY.itemsize + contract.VALUE.itemsize
LIVE_ROW_BYTES = 120  # a live block or mapping: model.LIVE, copied, grouped and sorted


# By section number, for a sum at each read of a header.
_SIZES = [contract.ROWS[part].itemsize for part in sorted(contract.ROWS)]
_NEEDS = [_ROW_BYTES.get(part, 0) for part in sorted(contract.ROWS)]


def check(path: Path, sections: Any, frames: int, segments: Sequence[tuple[int, int]] = ()) -> Allowance:
    """UserError when the rows in use, and `frames` distinct frames, need more memory than the file may take.

    `segments` are those of the live table after the first, as offset and capacity: they make the file larger.
    Returns the rest of the allowance.
    """
    capacities = sections["capacity"][: len(_SIZES)].tolist()
    rows = list(map(min, sections["used"][: len(_SIZES)].tolist(), capacities))
    size = sum(map(operator.mul, capacities, _SIZES))
    size += sum(capacity for _, capacity in segments) * _SLOT_BYTES
    allowance = Allowance(path, size, OF_LIVE_FILE)
    allowance.taken = sum(map(operator.mul, rows, _NEEDS)) + frames * _FRAME_BYTES
    if not allowance.exceeded:
        allowance.take(0, 0, "rows")  # counts for the other recordings of the command
        return allowance
    allowance.taken = 0
    for section, row_bytes in _ROW_BYTES.items():
        allowance.take(rows[section], row_bytes, f"rows of {section.name}")
    allowance.take(frames, _FRAME_BYTES, "distinct frames")
    return allowance


def used(sections: Any, section: Section) -> int:
    row = sections[section]
    return int(min(row["used"], row["capacity"]))
