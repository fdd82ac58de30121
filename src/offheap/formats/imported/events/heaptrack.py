"""heaptrack's data files, plain, gzip or Zstandard: allocations and frees with call stacks, time and RSS.

The source of the format is heaptrack's src/analyze/accumulatedtracedata.cpp; numbers are hexadecimal, indices
of strings, instruction pointers and traces begin at 1, 0 is none:

    v VERSION FORMAT       X COMMAND LINE         I PAGE_SIZE PAGES      A (attached: void what came before)
    s [LENGTH] STRING      i ADDRESS MODULE [FUNCTION FILE LINE]...      several: inlined, innermost first
    t POINTER PARENT       a SIZE TRACE           + ALLOCATION            - ALLOCATION, an index of `a` from 0
    c MILLISECONDS         R RSS_PAGES            S SUPPRESSION           # comment

LENGTH is there from format 3 on.  Format 0 (before 2016) is not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offheap.errors import UserError
from offheap.formats.imported import source
from offheap.formats.imported.events import columns
from offheap.formats.imported.events.counts_over_time import CountsOverTime
from offheap.formats.imported.profile import Profile
from offheap.formats.imported.samples import names
from offheap.formats.imported.stack_tables import StackTable, Total, TotalsAtTime, profile
from offheap.recording.model import Frame

FORMAT = "heaptrack"

LACKS = (
    "heaptrack does not say which of several equal blocks was freed (same size, same stack): the births of "
    "blocks are not known, the totals of each stack over time are",
    "heaptrack has no Java names: the frames of compiled and interpreted methods are addresses, and a JIT "
    "compiler's or interpreter's frame may end the stack",
    "heaptrack records no threads and no mmap, and not when the recording was made",
)
ATTACHED = "heaptrack was attached to a running process: what was allocated before is not counted"
CUT = "The file ends inside a line, as when the process is killed: what came later is not in it"

_MOST_SIZE = 1 << 56  # bytes of one block
_MOST_TABLE = 5_000_000  # strings, pointers, traces, allocations together: up to 1 GB of memory
_DEEPEST = 4096  # frames of a stack; heaptrack records at most 64, inlined ones come on top
_LONGEST_SHOWN = 60
_MILLI = 1e-3


def recognises(head: bytes) -> bool:
    """Whether the file begins `v VERSION FORMAT`, then `X` or one of the other lines."""
    first = head.split(b"\n", 1)[0].split(b" ")
    return first[0] == b"v" and len(first) in (2, 3) and all(part.isalnum() for part in first[1:])


def read(files: Sequence[Path]) -> Profile:
    """One file: heaptrack writes its own time line."""
    if len(files) > 1:
        raise UserError(
            "heaptrack files are imported one at a time: each has its own time line",
            "compare two with: offheap diff",
        )
    log = _Log(files[0])
    for part in source.parts(files[0]):
        log.add(part)
    stacks = StackTable(files[0])
    lacks = [*LACKS, *([ATTACHED] if log.attached else []), *([CUT] if log.cut else [])]
    return profile(
        FORMAT, stacks, _moments(log, stacks), lacks=lacks, program=log.command, pid=_pid(files[0])
    )


@dataclass
class _Pointer:
    """An address and the functions at it, innermost first: (function, file, line), indices of strings."""

    address: int
    module: int
    functions: list[tuple[int, int, int]]


@dataclass
class _Log:
    """A file's tables, and its events counted over time."""

    path: Path
    format: int = 0
    command: str = ""
    page: int = 4096
    attached: bool = False
    cut: bool = False
    strings: list[str] = field(default_factory=list)
    pointers: list[_Pointer] = field(default_factory=list)
    traces: list[tuple[int, int]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    of_trace: list[int] = field(default_factory=list)
    counts: CountsOverTime = field(default_factory=CountsOverTime)

    def add(self, part: source.WholeLines) -> None:
        self.cut = self.cut or part.cut
        block, starts, ends = _lines(part)
        kind = block[starts]
        events = (kind == ord("+")) | (kind == ord("-"))
        for at in np.flatnonzero(~events & (ends > starts)).tolist():
            self._line(part.data[starts[at] : ends[at]], part.line + at, at)
        indices, good = columns.hexadecimal(block, starts[events] + 2, ends[events])
        numbers = np.flatnonzero(events)
        good &= (block[np.minimum(starts[events] + 1, len(block) - 1)] == columns.SPACE) & (
            indices < len(self.sizes)
        )
        if not good.all():
            at = int(numbers[np.argmin(good)])
            raise self._fault(part.line + at, part.data[starts[at] : ends[at]])
        self.counts.add(indices.astype(np.int64), kind[events] == ord("+"), numbers)

    def _line(self, line: bytes, number: int, place: int) -> None:
        operation, words = line[:1], line[2:].split(b" ")
        if operation == b"#" or operation == b"S":
            return
        try:
            if operation == b"v":
                self.format = int(words[1], 16) if len(words) > 1 else 1
                if not 1 <= self.format <= 3:
                    raise source.fault(
                        self.path,
                        f"line {number}",
                        f"heaptrack's format {self.format}; 1 to 3 are read",
                        "read it with the heaptrack_print of its version",
                    )
            elif operation == b"s":
                text = line[2:] if self.format < 3 else line[2:].partition(b" ")[2]
                self.strings.append(text.decode("utf-8", "replace"))
            elif operation == b"i":
                self.pointers.append(self._pointer([int(word, 16) for word in words if word]))
            elif operation == b"t":
                pointer, parent = int(words[0], 16), int(words[1], 16)
                # A parent comes before its children, so that no trace is a circle.
                if not (0 < pointer <= len(self.pointers) and 0 <= parent <= len(self.traces)):
                    raise self._fault(number, line)
                self.traces.append((pointer, parent))
            elif operation == b"a":
                size, trace = int(words[0], 16), int(words[1], 16)
                if not (0 <= size < _MOST_SIZE and 0 <= trace <= len(self.traces)):
                    raise self._fault(number, line)
                self.sizes.append(size)
                self.of_trace.append(trace)
            elif operation == b"c":
                self.counts.clock(int(words[0], 16) * _MILLI, place)
            elif operation == b"R":
                self.counts.rss(int(words[0], 16) * self.page)
            elif operation == b"X":
                self.command = line[2:].decode("utf-8", "replace")
            elif operation == b"I":
                self.page = int(words[0], 16)
            elif operation == b"A":
                self.attached = True
                self.counts.void(place)
            else:
                raise self._fault(number, line)
        except (ValueError, IndexError):
            raise self._fault(number, line) from None
        if len(self.strings) + len(self.pointers) + len(self.traces) + len(self.sizes) > _MOST_TABLE:
            raise source.fault(self.path, f"line {number}", f"more than {_MOST_TABLE:,} entries of tables")

    def _pointer(self, words: list[int]) -> _Pointer:
        address, module, *rest = words
        if len(rest) == 1 or len(rest) == 2:
            rest += [0] * (3 - len(rest))
        if len(rest) % 3 or max(module, *rest[0::3], *rest[1::3], 0) > len(self.strings):
            raise ValueError
        return _Pointer(
            address, module, [(rest[at], rest[at + 1], rest[at + 2]) for at in range(0, len(rest), 3)]
        )

    def _fault(self, number: int, line: bytes) -> UserError:
        shown = line[:_LONGEST_SHOWN].decode("utf-8", "replace")
        return source.fault(self.path, f"line {number}", f"not a line of heaptrack's: {shown!r}")

    def text(self, index: int) -> str:
        return self.strings[index - 1] if index else ""


def _moments(log: _Log, stacks: StackTable) -> Iterator[TotalsAtTime]:
    of_trace: dict[int, int] = {}
    frames = [_frames(log, stacks, pointer) for pointer in log.pointers]
    numbers = []
    for trace in log.of_trace:
        if trace not in of_trace:
            of_trace[trace] = stacks.stack(_places(log, frames, trace))
        numbers.append(of_trace[trace])
    stack_of = np.array(numbers, np.int64)
    sizes = np.array(log.sizes, float)
    length = len(stacks.stacks) + 1
    live, live_bytes, born, born_bytes = (np.zeros(length) for _ in range(4))
    for snapshot in log.counts.snapshots():
        changed = stack_of[snapshot.allocations]
        weight = sizes[snapshot.allocations]
        np.add.at(born, changed, snapshot.born)
        np.add.at(born_bytes, changed, snapshot.born * weight)
        np.add.at(live, changed, snapshot.born - snapshot.freed)
        np.add.at(live_bytes, changed, (snapshot.born - snapshot.freed) * weight)
        if live.min(initial=0) < 0:
            line = _line_of_free(log.path, stack_of)
            raise source.fault(log.path, f"line {line}", "frees a block of a stack that has none")
        totals = {
            number: Total(*map(float, (live[number], live_bytes[number], born[number], born_bytes[number])))
            for number in np.unique(changed).tolist()
        }
        yield TotalsAtTime(snapshot.time, totals, complete=False, rss_bytes=snapshot.rss_bytes)


def _lines(part: source.WholeLines) -> tuple[columns.Bytes, columns.Places, columns.Places]:
    """(the bytes, where each line begins, where it ends) without a last line that may lack digits."""
    block = np.frombuffer(part.data, np.uint8)
    starts, ends = columns.lines(block)
    return (block, starts[:-1], ends[:-1]) if part.cut else (block, starts, ends)


def _line_of_free(path: Path, stack_of: NDArray[np.int64]) -> int:
    """The first line that frees a block of a stack without one.

    The file is read again, as its events are counted together.  `stack_of`: by allocation.
    """
    live = np.zeros(int(stack_of.max(initial=0)) + 1, np.int64)
    line = 0
    for part in source.parts(path):
        block, starts, ends = _lines(part)
        kind = block[starts]
        attached = np.flatnonzero(kind == ord("A")).tolist()
        for low, high in pairwise((0, *attached, len(kind))):
            if low in attached:
                line, live[:] = 0, 0  # what came before is void
            its = low + np.flatnonzero((kind[low:high] == ord("+")) | (kind[low:high] == ord("-")))
            indices, _ = columns.hexadecimal(block, starts[its] + 2, ends[its])
            steps = np.where(kind[its] == ord("+"), 1, -1)
            below = _below_zero(live, stack_of[indices.astype(np.int64)], steps)
            if below >= 0 and not line:
                line = part.line + int(its[below])
    return line


def _below_zero(live: NDArray[np.int64], stacks: NDArray[np.int64], steps: NDArray[np.int64]) -> int:
    """Takes the steps of these stacks one by one, and says which is the first one below 0, or -1."""
    order = np.argsort(stacks, kind="stable")
    its, up_to = stacks[order], np.cumsum(steps[order])
    firsts = np.flatnonzero(np.diff(its, prepend=-1))
    before = np.repeat(up_to[firsts] - steps[order][firsts], np.diff(firsts, append=len(its)))
    below = order[live[its] + up_to - before < 0]
    np.add.at(live, stacks, steps)
    return int(below.min()) if len(below) else -1


def _places(log: _Log, frames: list[tuple[int, ...]], trace: int) -> list[int]:
    places: list[int] = []
    while trace and len(places) < _DEEPEST:
        pointer, trace = log.traces[trace - 1]
        places += frames[pointer - 1]
    return places


def _frames(log: _Log, stacks: StackTable, pointer: _Pointer) -> tuple[int, ...]:
    path = log.text(pointer.module)
    module = path.rpartition("/")[2]
    last = len(pointer.functions) - 1
    found = []
    for at, (function, file, line) in enumerate(pointer.functions):
        if function:
            found.append(
                names.frame(log.text(function), module, log.text(file), min(line, 1 << 30), at < last)
            )
    if not found:
        where = f"{module} at {pointer.address:#x}" if module else f"{pointer.address:#x}"
        found = [Frame(where, "jvm" if module == "libjvm.so" else "native", module)]
    return tuple(map(stacks.frame, found))


def _pid(path: Path) -> int:
    """heaptrack names its files heaptrack.PROGRAM.PID.zst."""
    numbers = [part for part in path.name.split(".") if part.isascii() and part.isdigit() and len(part) < 8]
    return int(numbers[-1]) if numbers and path.name.startswith("heaptrack.") else 0
