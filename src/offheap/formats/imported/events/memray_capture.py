"""memray's captures: what `memray run` writes of a Python program, read by memray's own reader.

The format changes with memray's versions and has no description but its reader: `memray_reader.py` runs it.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.errors import UserError
from offheap.formats.imported.events.memray_reader import MAGIC, answer, damaged
from offheap.formats.imported.profile import Profile
from offheap.formats.imported.samples.names import frame as native_frame
from offheap.formats.imported.stack_tables import MOST_ROWS, StackTable, Total, TotalsAtTime, profile
from offheap.recording.model import LIVE, MALLOC, MMAP, Frame

FORMAT = "memray"

LACKS = (
    "memray records a Python program between its own start and end: what was allocated before is not in it, "
    "and what the interpreter frees as it ends counts as live",
)
NATIVE = "Native functions have the names that memray finds in the libraries of this machine, as they are now"
RESOLUTION = (
    "Births and frees are known to the {width} between two of memray's readings of RSS that are kept; blocks "
    "that were freed sooner are not in its history"
)
NO_NATIVE = "The capture has Python functions alone; memray run --native records the native ones as well"
ARENAS = (
    "Small Python objects are not in it, but the arenas that Python's allocator takes them from; "
    "memray run --trace-python-allocators records each object"
)
OBJECTS = "Python objects are counted themselves, and not the arenas that hold them, with what is free there"
AGGREGATED = (
    "memray run --aggregate keeps totals alone: what is live at the end, with neither times nor births, so "
    "that nothing in it is proof of a leak"
)
OPEN = (
    "The capture was not ended (memray compresses it then): what the program did last may be missing, and "
    "what it freed then counts as live"
)

_LZ4 = b"\x04\x22\x4d\x18"
_HEAD = 64  # bytes in which the magic word is, after an LZ4 header
_MMAP = 14  # memray.AllocatorType.MMAP
_MOST_LINE = 1 << 30
_MOST_THREADS = 65_535  # of LIVE
_MILLI = 1e-3
# Sources of CPython, which its debug information names from its own folder; without that its program file.
_INTERPRETER = re.compile(r"(?:\./)?(?:Objects|Python|Modules|Parser|Include)/|.*/(?:lib)?python3[^/]*$")


def recognises(head: bytes) -> bool:
    """Whether a file begins as memray's do, plain (of a killed program) or compressed by LZ4."""
    return head.startswith(MAGIC) or (head.startswith(_LZ4) and MAGIC in head[:_HEAD])


def read(files: Sequence[Path]) -> Profile:
    """One capture, which has its own time line; UserError where memray is not installed."""
    if len(files) > 1:
        raise UserError(
            "captures of memray are imported one at a time: each has its own time line",
            "compare two with: offheap diff",
        )
    path = files[0]
    archive, ended = answer(path)
    capture = _Capture(path, archive)
    try:
        return capture.profile([] if ended else [OPEN])
    except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
        raise damaged(path, str(error)) from None


@dataclass
class _Row:
    """Columns of `rows`: see children/memray_child.py."""

    record: NDArray[np.int64]
    born: NDArray[np.int64]
    freed: NDArray[np.int64]
    blocks: NDArray[np.int64]
    size: NDArray[np.int64]


class _Capture:
    def __init__(self, path: Path, answer: bytes) -> None:
        self._path = path
        try:
            with np.load(io.BytesIO(answer), allow_pickle=False) as arrays:
                self._about: dict[str, Any] = json.loads(arrays["text"].tobytes())
                self._records, rows = arrays["records"], arrays["rows"]
                self._depths, self._places = arrays["depths"], arrays["places"]
        except Exception as error:  # zipfile's, json's, numpy's: a child that was hit by a damaged file
            raise damaged(path, str(error)) from None
        self._row = _Row(*rows.T)
        self._stacks = StackTable(path)

    def profile(self, doubts: Sequence[str]) -> Profile:
        about, row = self._about, self._row
        times, rss = self._clock()
        stack_of = self._numbers()[row.record]
        lacks = [*LACKS, *self._settings(), *self._resolution(times), *doubts]
        born = np.clip(row.born, 0, len(times) - 1)
        gone = row.freed >= 0
        freed = np.where(gone, np.clip(row.freed, 0, len(times) - 1), len(times))
        moments = self._moments(times, rss, stack_of, born, freed)
        counts = row.blocks[~gone]
        rows = None
        if about["history"] and counts.sum() <= MOST_ROWS:
            rows = self._live(stack_of[~gone], times[born[~gone]], counts, row.size[~gone], ~gone)
        made = profile(
            FORMAT,
            self._stacks,
            moments,
            live=rows,
            lacks=lacks,
            start=float(about["start"]),
            pid=int(about["pid"]),
            program=str(about["command"]),
        )
        if rows is None:
            return made
        return replace(made, births=True, threads=list(about["threads"])[:_MOST_THREADS] or ["main"])

    def _clock(self) -> tuple[NDArray[np.float64], list[int]]:
        """(seconds of each snapshot and of the end, RSS); of an aggregated capture the end alone."""
        start, end = float(self._about["start"]), float(self._about["end"])
        readings: list[tuple[int, int]] = self._about["snapshots"]
        last = max([end - start, *(time * _MILLI - start for time, _ in readings), 0.0])
        rss = [max(int(size), 0) for _, size in readings] or [0]
        if not self._about["history"]:
            return np.zeros(1), rss[-1:]
        times = np.array([*(time * _MILLI - start for time, _ in readings), last])
        # Readings of one millisecond differ in the tables.
        times = np.maximum.accumulate(np.maximum(times, 0.0)) + np.arange(len(times)) * 1e-6
        return times, [*rss[: len(readings)], rss[-1]]

    def _numbers(self) -> NDArray[np.int64]:
        """By record the number of its stack."""
        frames = [self._stacks.frame(_frame(*one)) for one in self._about["frames"]]
        places = np.array(frames or [0], np.int64)[self._places].tolist()
        ends = np.cumsum(self._depths).tolist()
        unknown = self._stacks.frame(Frame("no Python function", "unknown"))
        numbers = []
        for stack, allocator, _ in self._records.tolist():
            depth = int(self._depths[stack])
            its = places[ends[stack] - depth : ends[stack]]
            numbers.append(self._stacks.stack(its or [unknown], MMAP if allocator == _MMAP else MALLOC))
        return np.array(numbers, np.int64)

    def _moments(
        self,
        times: NDArray[np.float64],
        rss: list[int],
        stack_of: NDArray[np.int64],
        born: NDArray[np.int64],
        freed: NDArray[np.int64],
    ) -> Iterator[TotalsAtTime]:
        row, length = self._row, len(self._stacks.stacks) + 1
        if (row.blocks < 0).any() or (row.size < 0).any():
            raise ValueError("a block of less than nothing")
        by_birth, by_free = np.argsort(born, kind="stable"), np.argsort(freed, kind="stable")
        births = np.searchsorted(born[by_birth], np.arange(len(times) + 1))
        frees = np.searchsorted(freed[by_free], np.arange(len(times) + 1))
        now = np.zeros((4, length))  # as Total has them, by stack
        for at, time in enumerate(times.tolist()):
            new, old = by_birth[births[at] : births[at + 1]], by_free[frees[at] : frees[at + 1]]
            for chosen, sign in ((new, 1), (old, -1)):
                numbers = stack_of[chosen]
                for column, amount in enumerate((row.blocks, row.size)):
                    np.add.at(now[column], numbers, sign * amount[chosen])
                    if sign > 0:
                        np.add.at(now[2 + column], numbers, amount[chosen])
            changed = np.unique(stack_of[np.concatenate((new, old))]).tolist()
            totals = {number: Total(*now[:, number].tolist()) for number in changed}
            yield TotalsAtTime(time, totals, complete=False, rss_bytes=rss[at])

    def _live(
        self,
        stacks: NDArray[np.int64],
        births: NDArray[np.float64],
        counts: NDArray[np.int64],
        sizes: NDArray[np.int64],
        chosen: NDArray[np.bool_],
    ) -> NDArray[np.void]:
        """A row a block; blocks of one stack and time have their mean size, the first ones a byte more."""
        counts = np.maximum(counts, 1)
        live = np.zeros(int(counts.sum()), LIVE)
        threads = self._records[:, 2][self._row.record[chosen]]
        live["stack"], live["birth"] = np.repeat(stacks, counts), np.repeat(births, counts)
        live["thread"] = np.repeat(np.where(threads < _MOST_THREADS, threads, 0), counts)
        live["probability"] = 1.0
        base, over = np.divmod(sizes, counts)
        place = np.arange(len(live)) - np.repeat(np.cumsum(counts) - counts, counts)
        live["size"] = np.repeat(base, counts) + (place < np.repeat(over, counts))
        return live

    def _settings(self) -> list[str]:
        about = self._about
        objects = OBJECTS if about["objects"] else ARENAS if str(about["allocator"]) == "pymalloc" else ""
        return [NATIVE if about["native"] else NO_NATIVE, *([objects] if objects else [])]

    def _resolution(self, times: NDArray[np.float64]) -> list[str]:
        if not self._about["history"]:
            return [AGGREGATED]
        width = float(times[-1]) / max(len(times) - 1, 1)
        return [RESOLUTION.format(width=f"{width:.3g} s")]


def _frame(name: str, file: str, line: int, python: int) -> Frame:
    line = min(max(int(line), 0), _MOST_LINE)
    if python:
        return Frame(name or "unknown function", "native", "", file, line)
    library = file.rpartition("/")[2]
    if _INTERPRETER.match(file):
        return native_frame(name, "CPython", file if library.endswith((".c", ".h")) else "", line)
    of_library = ".so" in library
    return native_frame(name, library if of_library else "", "" if of_library else file, line)
