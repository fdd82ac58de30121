"""Collapsed stacks, as flamegraph.pl reads them: a line a stack, `outermost;...;innermost NUMBER`."""

from __future__ import annotations

from offheap.formats.exported.content.samples import Samples, Value
from offheap.report.text.printable import printable


def collapsed(samples: Samples, value: Value) -> bytes:
    """Stacks with equal names are one line; frames without a name read as in every report."""
    totals: dict[str, int] = {}
    numbers = samples.values[value].tolist()
    for place, number in enumerate(numbers):
        if number > 0:
            names = [_name(frame.name) for frame in reversed(samples.frames(place))]
            line = ";".join(names) or "no stack was recorded"
            totals[line] = totals.get(line, 0) + number
    return "".join(f"{line} {number}\n" for line, number in sorted(totals.items())).encode()


def _name(name: str) -> str:
    # The format's own separators; a space is one only before the number.
    return printable(name).replace(";", ",")
