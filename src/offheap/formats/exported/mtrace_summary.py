"""Unfreed blocks by the caller of malloc: the table that mtrace(1) and awk make of a log of MALLOC_TRACE.

mtrace(1) has the caller's address alone; here the caller has its function, its library and the Java method
that called it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from offheap.analysis.stacks.frames import allocating
from offheap.formats.exported.content.samples import Samples, text
from offheap.recording.model import Frame

_HEAD = ("blocks", "bytes", "caller", "library", "Java caller")
_NONE = "-"


class _Caller(NamedTuple):
    function: str
    library: str
    java: str


def mtrace_summary(samples: Samples) -> bytes:
    """A table for people, most bytes first; Java objects are in it if the recording has them."""
    totals: dict[_Caller, tuple[int, int]] = {}
    counts, sizes = samples.values["inuse_objects"].tolist(), samples.values["inuse_space"].tolist()
    for place, (count, size) in enumerate(zip(counts, sizes, strict=True)):
        if count or size:
            caller = _caller(samples.frames(place))
            before = totals.get(caller, (0, 0))
            totals[caller] = (before[0] + count, before[1] + size)
    rows = [
        (str(count), str(size), *caller)
        for caller, (count, size) in sorted(totals.items(), key=lambda item: (-item[1][1], item[0]))
    ]
    widths = [max(map(len, column)) for column in zip(_HEAD, *rows, strict=True)]
    lines = [_line(row, widths) for row in (_HEAD, *rows)]
    return "".join(f"{line}\n" for line in lines).encode()


def _caller(frames: Sequence[Frame]) -> _Caller:
    if not frames:
        return _Caller("unknown", _NONE, _NONE)
    inner = allocating(frames)
    first = frames[inner]
    place = f" ({first.file}:{first.line})" if first.file and first.line else ""
    java = next((frame.name for frame in frames[inner + 1 :] if frame.kind == "java"), _NONE)
    # The module of a Java object's class is a class.
    library = first.module if first.kind in ("native", "jvm") else ""
    return _Caller(text(first.name) + place, text(library) or _NONE, text(java))


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    numbers = [cell.rjust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
    words = [cell.ljust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
    return "  ".join([*numbers, *words]).rstrip()
