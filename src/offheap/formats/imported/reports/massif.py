"""massif's output: valgrind --tool=massif.

The source of the format is Valgrind's massif/ms_main.c (write_snapshots_to_file) and massif/ms_print.in:

    desc: OPTIONS             snapshot=N         heap_tree=empty, or detailed, or peak, and then a tree:
    cmd: COMMAND LINE         time=T             n1: 201 (heap allocation functions) malloc/new/new[], ...
    time_unit: ms, i or B     mem_heap_B=BYTES    n1: 201 0x109166: make_block (u.c:5)
                                                   n0: 201 0x10920F: main (u.c:9)

A node is `nCHILDREN: BYTES WHAT`, indented by its depth; children are the callers of their parent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from offheap.errors import UserError
from offheap.formats.imported import source
from offheap.formats.imported.profile import Profile
from offheap.formats.imported.reports.valgrind_frames import frame
from offheap.formats.imported.stack_tables import StackTable, Total, TotalsAtTime, profile
from offheap.quantities import format_duration
from offheap.recording.model import Frame

FORMAT = "massif"

LACKS = (
    "massif has bytes by stack, no count of blocks: each stack counts as one block",
    "massif has stacks for detailed snapshots alone: those are the time line, and the last of them is the "
    "live set; what lies below its threshold (1 % by default) has no stack",
    "massif has no births, no threads, no RSS and nothing that was freed; it has no Java names",
)
UNITS = {
    "i": "massif's time is instructions: 1,000,000,000 of them count as one second",
    "B": "massif's time is bytes allocated and freed: 1 MiB of them counts as one second",
}
NOT_LAST = "The last snapshot ({last}) has no stacks: the live set is that of the snapshot at {at}"

_SECONDS = {"ms": 1e-3, "i": 1e-9, "B": 1.0 / (1 << 20)}
_NODE = re.compile(r"( *)n(\d{1,9}): (\d{1,18}) (.*)", re.ASCII)
_VALUE = re.compile(r"(snapshot|time|mem_heap_B|heap_tree)=(\S{1,20})")
_OTHER = re.compile(r"(mem_heap_B|mem_heap_extra_B|mem_stacks_B)=\d{1,20}|heap_tree=\w{1,20}")
_BELOW = re.compile(r"in (\d+) places?, (?:all )?below massif's threshold.*", re.ASCII)
_DEEPEST = 2048  # frames of a stack; massif's --depth is at most 200
_LONGEST_SHOWN = 60


def recognises(head: bytes) -> bool:
    """Whether the file begins with massif's three lines."""
    return re.match(rb"desc: .*\ncmd: .*\ntime_unit: (ms|i|B)\n", head) is not None


def read(files: Sequence[Path]) -> Profile:
    """The detailed snapshots of one file."""
    if len(files) > 1:
        raise UserError(
            "massif's files are imported one at a time: each has its own time line",
            "compare two with: offheap diff",
        )
    path = files[0]
    stacks = StackTable(path)
    lines = source.lines(path)
    header = dict(line.partition(": ")[::2] for _, line in islice(lines, 3))
    unit = header.get("time_unit", "")
    if unit not in _SECONDS:
        raise source.fault(path, "line 3", f"time_unit is {unit[:20]!r}; ms, i and B are known")
    moments: list[TotalsAtTime] = []
    snapshots = _Snapshots(path, stacks)
    for tree in snapshots.trees(lines):
        time = tree.time * _SECONDS[unit]
        # Several snapshots of one millisecond: the last one counts.
        if moments and moments[-1].time == time:
            moments.pop()
        moments.append(stacks.at(time, tree.totals))
    if not moments:
        raise source.fault(
            path,
            f"line {snapshots.line}",
            "the file ends without a detailed snapshot, so that it has no stacks",
            "run massif with --detailed-freq=1",
        )
    lacks = [*LACKS, *([UNITS[unit]] if unit in UNITS else [])]
    last = snapshots.last * _SECONDS[unit]
    if moments[-1].time < last:
        shown = format_duration(last), format_duration(moments[-1].time)
        lacks.append(NOT_LAST.format(last=shown[0], at=shown[1]))
    return profile(FORMAT, stacks, moments, lacks=lacks, program=header.get("cmd", ""))


class _Snapshots:
    """line: the last one that was read; last: the time of the last snapshot, in the unit of the file."""

    def __init__(self, path: Path, stacks: StackTable) -> None:
        self._path, self._stacks = path, stacks
        self.line = 3
        self.last = 0

    def trees(self, lines: Iterable[tuple[int, str]]) -> Iterator[_Tree]:
        """Those of detailed snapshots, by time; UserError for a line that massif does not write."""
        tree: _Tree | None = None
        for self.line, line in lines:
            if not line or line.startswith("#"):
                continue
            if tree and (node := _NODE.fullmatch(line)):
                tree.add(self.line, len(node[1]), int(node[2]), int(node[3]), node[4])
                continue
            value = _VALUE.fullmatch(line)
            if value and value[1] == "snapshot":
                if tree and tree.whole():
                    yield tree
                tree = _Tree(self._path, self.line, self._stacks)
            elif value and value[1] == "time" and tree and value[2].isdigit():
                tree.time = int(value[2])
                if tree.time < self.last:
                    raise self._fault("a time before that of the last snapshot")
                self.last = tree.time
            elif not _OTHER.fullmatch(line):
                raise self._fault(f"not a line of massif's: {line[:_LONGEST_SHOWN]!r}")
        if tree and tree.whole():
            yield tree

    def _fault(self, what: str) -> UserError:
        return source.fault(self._path, f"line {self.line}", what)


class _Tree:
    """The nodes of a snapshot, as they come: only the way from the root to the last one is kept.

    time  in the unit of the file; negative: not read yet
    """

    def __init__(self, path: Path, line: int, stacks: StackTable) -> None:
        self._path, self._line, self._stacks = path, line, stacks
        self.time = -1
        self.totals: dict[int, Total] = {}
        self._begun = False
        # (places of frames, [bytes that belong to no child, children that follow])
        self._way: list[tuple[tuple[int, ...], list[int]]] = []

    def add(self, line: int, depth: int, children: int, size: int, what: str) -> None:
        self._close(depth)
        way = self._way
        if depth != len(way) or depth > _DEEPEST or (depth == 0 and self._begun):
            raise source.fault(self._path, f"line {line}", "a node that is not below the one before it")
        self._begun = True
        places: tuple[int, ...] = ()
        if depth:
            places = (*way[-1][0], self._stacks.frame(_frame(what)))
            way[-1][1][0] -= size
            way[-1][1][1] -= 1
        way.append((places, [size, children]))

    def whole(self) -> bool:
        """Whether there are nodes; UserError for a snapshot without a time, and for an incomplete tree."""
        if self.time < 0:
            raise source.fault(self._path, f"line {self._line}", "a snapshot without a time")
        self._close(0)
        return self._begun

    def _close(self, depth: int) -> None:
        while len(self._way) > depth:
            places, (left, awaited) = self._way.pop()
            if awaited or left < 0:
                raise source.fault(self._path, f"line {self._line}", "the tree of this snapshot is not whole")
            if left:
                number = self._stacks.stack(places)
                old = self.totals.get(number, Total(0, 0))
                self.totals[number] = Total(1.0, old.live_bytes + left)


def _frame(what: str) -> Frame:
    if match := _BELOW.fullmatch(what):
        return Frame(f"{match[1]} places below massif's threshold", "unknown")
    return frame(what)
