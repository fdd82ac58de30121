"""Reads a live file (probe/recording.h) without stopping its writer and without trusting it.

The file is read with pread(2), never mapped: if the owner truncates a mapped file, SIGBUS ends
the reader.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.errors import UserError
from offheap.probe import contract
from offheap.probe.contract import Section, StackKind, State
from offheap.probe.live_files import header as live_header
from offheap.probe.live_files import limits
from offheap.probe.live_files.header import Header, damaged, truncated
from offheap.probe.live_files.live_set import concatenate, interval_codes, live_blocks, live_ranges
from offheap.probe.live_files.modified_utf8 import decode
from offheap.proc import opening
from offheap.proc.opened_folder import OpenedFolder
from offheap.proc.opening import RegularFile

Rows = NDArray[Any]

# Bounds on what a damaged or hostile file can make a reader do.
_MOST_STRING = 1 << 20
_MOST_LINES = 1 << 16  # of one method, whose code has at most 65,535 bytes

# Small enough for microseconds between the two copies of a chunk, in which few rows change.
_CHUNK_ROWS = 1 << 16
# A gap of up to this many unused rows is cheaper to read than a second read call.
_NEAR_ROWS = 64


@dataclass(frozen=True)
class RawStacks:
    """Consecutive stacks: `first` is the number of the first one, `frames` has their raw frames in order."""

    first: int
    rows: Rows  # of contract.STACK
    frames: NDArray[np.uint64]
    depths: NDArray[np.int64]


class LiveFile:
    """An open live file.  UserError when the file is no live file, is damaged, or may not be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _open(path)
        self.owner = self._file.status.st_uid
        try:
            self.header = self._read_header()
        except BaseException:
            self.close()
            raise
        self._strings: dict[int, str] = {0: ""}
        self._string_bytes_read = 0
        self._frames_named = 0

    def __enter__(self) -> LiveFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        """Removes the file's name if it still leads to this file: another user may control the folder."""
        with contextlib.suppress(OSError), OpenedFolder.at(self.path.parent) as folder:
            if os.path.samestat(folder.entry_status(self.path.name), self._file.status):
                folder.remove(self.path.name)

    def refresh(self) -> Header:
        """Reads the header again."""
        self.header = self._read_header()
        return self.header

    def ended(self) -> bool:
        """Whether the probe has stopped or its process has exited; reads nothing else again."""
        return self._raw_header()["state"] in (State.STOPPED, State.EXITED)

    def module_count(self) -> int:
        """The present number of rows of modules, complete or not; reads nothing else again."""
        return int(self._raw_header()["sections"][Section.MODULES]["used"])

    def live(self) -> Rows:
        """The live blocks and mappings, model.LIVE; births in seconds since the start."""
        header = self.header
        tick = header.tick_seconds
        parts: list[Rows] = []
        allowance = limits.check(self.path, header.sections, self._frames_named, header.segments)
        for keys_at, values_at, capacity in self._segments():
            for first, count in _chunks(capacity):
                keys, values = self._at_rest(keys_at, values_at, first, count)
                if len(keys):
                    allowance.take(len(keys), limits.LIVE_ROW_BYTES, "live blocks")
                    parts.append(self._blocks(keys, values))
        for first, count in _chunks(int(header.sections[Section.RANGES]["capacity"])):
            before = self._rows(Section.RANGES, first, count)
            taken = np.flatnonzero(before["start"])
            if not len(taken):
                continue
            after = self._rows(Section.RANGES, first, count)
            before, after = before[taken], after[taken]
            whole = np.dtype(("V", contract.RANGE.itemsize))
            same = before.view(whole) == after.view(whole)
            allowance.take(len(taken), limits.LIVE_ROW_BYTES, "live mappings")
            parts.append(live_ranges(after[same], header.intervals, tick))
        live = concatenate(parts)
        live["stack"][live["stack"] >= header.sections[Section.STACKS]["capacity"]] = 0
        return live

    def kinds(self, stacks: int) -> NDArray[np.uint8]:
        """The kinds of the stacks [0, `stacks`); 0 for one that has no row yet."""
        kinds = np.zeros(stacks, np.uint8)
        there = min(stacks, self.used(Section.STACKS))
        for first, count in _chunks(there):
            kinds[first : first + count] = self._rows(Section.STACKS, first, count)["kind"]
        return kinds

    def counters(self, kinds: NDArray[np.uint8]) -> Rows:
        """contract.COUNTERS' sums as floats, of as many stacks as there are `kinds`: their kinds."""
        stacks = len(kinds)
        shards = self.header.counter_shards
        capacity = int(self.header.sections[Section.COUNTERS]["capacity"])
        there = min(stacks, capacity // shards)
        names = ("samples", "blocks", "bytes", "blocks_variance", "bytes_variance")
        sums = np.zeros(stacks, dtype=[(name, "<f8") for name in names])
        step = max(1, _CHUNK_ROWS // shards)
        for first in range(0, there, step):
            count = min(step, there - first)
            rows = self._rows(Section.COUNTERS, first * shards, count * shards).reshape(count, shards)
            for name in names:
                sums[name][first : first + count] = rows[name].sum(axis=1, dtype=np.float64)
        sums["blocks"] *= contract.COUNTER_BLOCKS_UNIT
        if self.header.mode == contract.Mode.EXACT:
            # Every native block is counted; Java objects are sampled all the same.
            native = kinds != StackKind.JAVA
            sums["blocks"][native] = sums["samples"][native]
        sums["bytes_variance"] *= contract.COUNTER_BYTES_VARIANCE_UNIT
        return sums

    def used(self, section: Section) -> int:
        """The number of rows of an append-only section that may have content."""
        row = self.header.sections[section]
        return int(min(row["used"], row["capacity"]))

    def stacks(self, first: int, *, final: bool = False) -> RawStacks:
        """Stacks from number `first` on, up to the first one that is still being written.

        `final`: the process is gone, and incomplete stacks stay incomplete: such a stack has no frames.
        """
        used = self.used(Section.STACKS)
        rows = self._rows(Section.STACKS, first, max(0, used - first))
        complete = rows["hash"] != 0
        if first == 0 and len(rows):
            complete[0] = True  # row 0 is "no stack" and stays zero
        if not final and not complete.all():
            rows = rows[: int(np.argmin(complete))]
            complete = complete[: len(rows)]
        if len(rows):  # their frames were reserved earlier, so the present header includes them
            self.refresh()
        frames = self.used(Section.FRAMES)
        starts = rows["frames"].astype(np.int64)
        depths = np.where(complete, rows["depth"], 0).astype(np.int64)
        depths[starts + depths > frames] = 0
        if int(depths.sum()) > frames:
            raise damaged(self.path, "its stacks share their frames")
        return RawStacks(first, rows, self._frames(starts, depths), depths)

    def admit_frames(self, count: int) -> None:
        """UserError when the names of this many more distinct frames need too much memory."""
        self._frames_named += count
        limits.check(self.path, self.header.sections, self._frames_named, self.header.segments)

    def modules(self) -> Rows:
        """Complete rows of contract.MODULE by number (an incomplete one has start 0)."""
        return self._rows(Section.MODULES, 0, self.used(Section.MODULES))

    def methods(self, slots: NDArray[np.int64]) -> Rows:
        """Rows of contract.METHOD; slots beyond the table read as free."""
        capacity = int(self.header.sections[Section.METHODS]["capacity"])
        found = np.zeros(len(slots), contract.METHOD)
        inside = np.flatnonzero(slots < capacity)
        inside = inside[np.argsort(slots[inside], kind="stable")]
        # One read per run of neighbours: a table with sparse slots may have any length.
        gaps = np.flatnonzero(np.diff(slots[inside]) > _NEAR_ROWS) + 1
        for run in np.split(inside, gaps):
            for some in np.array_split(run, -(-len(run) // _CHUNK_ROWS) or 1):
                if len(some):
                    low, high = int(slots[some[0]]), int(slots[some[-1]])
                    found[some] = self._rows(Section.METHODS, low, high - low + 1)[slots[some] - low]
        return found

    def lines(self, first: int, count: int) -> Rows:
        """A method's line table, contract.LINE; empty when it is out of bounds or impossibly long."""
        if first + count > self.used(Section.LINES) or count > _MOST_LINES:
            return np.zeros(0, contract.LINE)
        return self._rows(Section.LINES, first, count)

    def threads(self) -> list[str]:
        """Names by number; 0 is "other threads"; a name that is being written is "" for now."""
        rows = self._rows(Section.THREADS, 0, self.used(Section.THREADS))
        names = [decode(name) if tid else "" for tid, name in zip(rows["tid"], rows["name"], strict=True)]
        return ["other threads", *names[1:]]

    def properties(self) -> dict[str, str]:
        rows = self._rows(Section.PROPERTIES, 0, self.used(Section.PROPERTIES))
        return {self.string(int(row["key"])): self.string(int(row["value"])) for row in rows if row["key"]}

    def string(self, offset: int) -> str:
        """The string at an offset of STRINGS; "" outside of it."""
        # One pread per string: an older copy of the section may include the string's
        # range but not its bytes.
        text = self._strings.get(offset)
        if text is None:
            raw = self._string_bytes(offset)
            # The strings do not overlap, so their sum is at most the section.
            self._string_bytes_read += len(raw)
            if self._string_bytes_read > self.used(Section.STRINGS):
                raise damaged(self.path, "its names overlap")
            text = self._strings[offset] = decode(raw)
        return text

    def _string_bytes(self, offset: int) -> bytes:
        section = self.header.sections[Section.STRINGS]
        room = min(self.used(Section.STRINGS) - offset, _MOST_STRING)
        start = int(section["offset"]) + offset
        raw = bytearray()
        while len(raw) < room:
            piece = self._file.read_at(start + len(raw), min(256 if not raw else 16384, room - len(raw)))
            end = piece.find(b"\0")
            raw += piece if end < 0 else piece[:end]
            if end >= 0 or not piece:
                break
        return bytes(raw)

    def _segments(self) -> list[tuple[int, int, int]]:
        """The offsets of keys and values of each segment of the live table, and its capacity.

        The youngest first: blocks do not move, so a block that lives during the whole read is read once,
        and a block that enters a segment after its read is younger than the reading.
        """
        sections = self.header.sections
        keys, values = sections[Section.KEYS], sections[Section.VALUES]
        first = int(keys["offset"]), int(values["offset"]), int(keys["capacity"])
        key = contract.KEY.itemsize
        more = [(offset, offset + capacity * key, capacity) for offset, capacity in self.header.segments]
        return [*reversed(more), first]

    def _blocks(self, keys: NDArray[np.uint64], values: Rows) -> Rows:
        """model.LIVE of rows of the live table.

        An object without a stack is left out, since only its stack tells it from a block: the probe has
        counted the stack as lost.
        """
        objects = (keys & np.uint64(contract.OBJECT_KEY)) != 0
        if objects.any():
            codes = interval_codes(values[objects])
            if not self.header.intervals[codes].all():
                self.refresh()  # the probe states an interval before the first object that has it
            if not (self.header.intervals[codes].all() and (codes >= contract.JAVA_CODE).all()):
                raise damaged(self.path, "a Java object has no interval")
            stacks = self.header.sections[Section.STACKS]["capacity"]
            values = values[~objects | ((values["stack"] > 0) & (values["stack"] < stacks))]
        return live_blocks(values, self.header.intervals, self.header.tick_seconds)

    def _at_rest(
        self, keys_at: int, values_at: int, first: int, count: int
    ) -> tuple[NDArray[np.uint64], Rows]:
        """Keys and values of the slots of a segment that have the same block in two copies."""
        nothing = np.zeros(0, contract.KEY), np.zeros(0, contract.VALUE)
        keys = self._rows_at(keys_at, contract.KEY, first, count)
        if not keys.any():
            return nothing
        values = self._rows_at(values_at, contract.VALUE, first, count)
        keys_again = self._rows_at(keys_at, contract.KEY, first, count)
        values_again = self._rows_at(values_at, contract.VALUE, first, count)
        # With sampling few slots are in use: only those are compared further.
        at = np.flatnonzero((keys == keys_again) & (keys != 0))
        words, words_again = (rows[at].view("<u8").reshape(-1, 2) for rows in (values, values_again))
        same = (words == words_again).all(axis=1) & (keys[at] & 1 == 0)
        at = at[same]
        return keys[at], values[at]

    def _frames(self, starts: NDArray[np.int64], depths: NDArray[np.int64]) -> NDArray[np.uint64]:
        if not depths.any():
            return np.zeros(0, np.uint64)
        has = depths > 0
        # Rows are reserved in about the order of the stacks, so one span has few other rows.
        low, high = int(starts[has].min()), int((starts + depths)[has].max())
        span = self._rows(Section.FRAMES, low, high - low)
        within = np.arange(int(depths.sum())) - np.repeat(np.cumsum(depths) - depths, depths)
        frames: NDArray[np.uint64] = span[np.repeat(starts - low, depths) + within]
        return frames

    def _rows(self, section: Section, first: int, count: int) -> Rows:
        at = int(self.header.sections[section]["offset"])
        return self._rows_at(at, contract.ROWS[section], first, count)

    def _rows_at(self, at: int, dtype: np.dtype[Any], first: int, count: int) -> Rows:
        rows = np.empty(count, dtype)
        if not count:
            return rows
        view = rows.view("u1").data
        at += first * dtype.itemsize
        while view:
            read = self._file.read_into(at, view)
            if read == 0:
                raise truncated(self.path)
            view, at = view[read:], at + read
        return rows

    def _raw_header(self) -> Any:
        raw = self._file.read_at(0, contract.HEADER_BYTES)
        if len(raw) < contract.HEADER_BYTES:
            raise truncated(self.path)
        return np.frombuffer(raw, contract.HEADER, 1)[0]

    def _read_header(self) -> Header:
        raw = self._file.read_at(0, contract.HEADER_BYTES)
        # fstat comes after the copy of the header, during which the file may grow.
        now = self._file.timed(lambda: os.fstat(self._file.descriptor))
        return live_header.parse(self.path, raw, now.st_size)


def _chunks(capacity: int) -> list[tuple[int, int]]:
    return [(first, min(_CHUNK_ROWS, capacity - first)) for first in range(0, capacity, _CHUNK_ROWS)]


def _instead_of(path: Path) -> str:
    name = str(path)
    if name.isdecimal() and Path(f"/proc/{name}").exists():
        return f"PID {name} is a process: record it first, offheap attach {name} --duration 1m"
    return "give the path of a recording"


def _open(path: Path) -> RegularFile:
    try:
        file = opening.regular(path, follow=False)
    except (opening.Refused, IsADirectoryError):
        raise UserError(f"{path} is not a file", "give the path of a recording") from None
    except FileNotFoundError:
        raise UserError(f"{path} does not exist", _instead_of(path)) from None
    except PermissionError:
        raise UserError(
            f"{path} may not be read", "run offheap as the user of the recorded process, or as root"
        ) from None
    except OSError as error:
        raise UserError(
            f"{path} cannot be opened: {error.strerror}", "give the path of a recording"
        ) from error
    owner = file.status.st_uid
    if os.geteuid() not in (0, owner) and owner != 0:
        file.close()
        raise UserError(
            f"{path} belongs to another user (uid {owner})",
            "run offheap as that user, or as root",
        )
    return file
