"""Unfreed blocks by the caller of malloc: the table that mtrace(1) and awk make of a log of MALLOC_TRACE.

mtrace(1) has the caller's address alone; here the caller has its function, its place in the library's file
(as objdump -d prints it, behind the call), and the Java methods that called it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from offheap.analysis.stacks.blame import blamed
from offheap.analysis.stacks.frames import allocating
from offheap.formats.exported.content.samples import Samples, text
from offheap.recording.model import Frame, Recording

_HEAD = ("blocks", "bytes", "caller", "library+offset", "Java callers")
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
            caller = _caller(samples.frames(place), samples.recording, samples.stacks[place])
            before = totals.get(caller, (0, 0))
            totals[caller] = (before[0] + count, before[1] + size)
    rows = [
        (str(count), str(size), *caller)
        for caller, (count, size) in sorted(totals.items(), key=lambda item: (-item[1][1], item[0]))
    ]
    widths = [max(map(len, column)) for column in zip(_HEAD, *rows, strict=True)]
    lines = [_line(row, widths) for row in (_HEAD, *rows)]
    return "".join(f"{line}\n" for line in lines).encode()


def _caller(frames: Sequence[Frame], recording: Recording, stack: int) -> _Caller:
    if not frames:
        return _Caller("unknown", _NONE, _NONE)
    inner = allocating(frames)
    first = frames[inner]
    place = f" ({first.file}:{first.line})" if first.file and first.line else ""
    # The module of a Java object's class is a class.
    library = first.module if first.kind in ("native", "jvm") else ""
    call = recording.calls and recording.calls.at(int(recording.stack_offsets[stack]) + inner)
    offset = f"+{call[1]:#x}" if library and call else ""
    return _Caller(text(first.name) + place, text(library) + offset or _NONE, text(_java(frames, inner)))


def _java(frames: Sequence[Frame], inner: int) -> str:
    """The innermost Java method, and the one to look at further out."""
    called = next((frame.name for frame in frames[inner + 1 :] if frame.kind == "java"), "")
    if not called:
        return _NONE
    caller = blamed(frames)
    return called if caller.kind != "java" or caller.name == called else f"{called} < {caller.name}"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    numbers = [cell.rjust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
    words = [cell.ljust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
    return "  ".join([*numbers, *words]).rstrip()
