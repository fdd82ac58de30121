"""Collapsed stacks, one a line: `outermost;...;innermost VALUE`.

The source of the format is the head comment of Brendan Gregg's flamegraph.pl.  async-profiler
(`-o collapsed`), its converter, heaptrack_print and Pyroscope write it.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from offheap.formats.imported import source
from offheap.formats.imported.profile import Profile
from offheap.formats.imported.samples import names
from offheap.formats.imported.stack_tables import StackTable, Total, TotalsAtTime, profile, times_of

FORMAT = "collapsed"

LACKS = (
    "collapsed stacks have one value without a unit: it is taken as live bytes, as async-profiler writes it "
    "with --total for nativemem; a profile of samples or of CPU time has no bytes",
    "collapsed stacks have no count of blocks: each stack counts as one block",
    "collapsed stacks have no births, no threads, no frees and no intervals of confidence",
)

_LINE = re.compile(rb"(?P<stack>\S.*) (?P<value>\d{1,18}(?:\.\d{1,9})?)\s*")
_MOST_VALUE = 1 << 56  # bytes of one stack
_LONGEST_SHOWN = 60


def recognises(head: bytes) -> bool:
    """Whether the first lines are all stacks, and one of them has more than one frame."""
    lines = head.split(b"\n")
    whole = [line for line in (lines[:-1] or lines)[:64] if line.strip()]
    return (
        bool(whole)
        and all(_LINE.fullmatch(line) for line in whole)
        and any(b";" in line for line in whole)
        and not whole[0].lstrip().startswith((b"{", b"<", b"#", b"--"))
    )


def read(files: Sequence[Path]) -> Profile:
    """The stacks of each file, each a moment of the series."""
    stacks = StackTable(files[0])
    times, start, lacking = times_of([source.modified(path) for path in files])
    moments = [TotalsAtTime(time, _totals(path, stacks)) for path, time in zip(files, times, strict=True)]
    return profile(FORMAT, stacks, moments, lacks=[*LACKS, *([lacking] if lacking else [])], start=start)


class _Places(dict[str, int]):
    """The place of each name's frame, made when the name comes first."""

    def __init__(self, stacks: StackTable) -> None:
        super().__init__()
        self._stacks = stacks

    def __missing__(self, name: str) -> int:
        place = self[name] = self._stacks.frame(names.frame(name))
        return place


def _totals(path: Path, stacks: StackTable) -> dict[int, Total]:
    sums: dict[int, float] = defaultdict(float)
    known = _Places(stacks)
    for part in source.parts(path):
        for number, raw in enumerate(part.data.split(b"\n"), part.line):
            if not raw.strip():
                continue
            match = _LINE.fullmatch(raw)
            if match is None:
                shown = raw[:_LONGEST_SHOWN].decode("utf-8", "replace")
                raise source.fault(path, f"line {number}", f"not a stack and a value: {shown!r}")
            value = float(match["value"])
            if not math.isfinite(value) or value > _MOST_VALUE:
                raise source.fault(path, f"line {number}", "more bytes than an address space holds")
            outermost_first = match["stack"].decode("utf-8", "replace").split(";")
            sums[stacks.stack(map(known.__getitem__, reversed(outermost_first)))] += value
    return {number: Total(1.0, value) for number, value in sums.items() if value > 0}
