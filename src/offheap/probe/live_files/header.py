"""The header of a live file (probe/recording.h) at one moment, checked against the file's length."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.errors import UserError
from offheap.probe import contract
from offheap.probe.contract import Coverage, Loss, Section, State
from offheap.probe.live_files import limits
from offheap.probe.live_files.modified_utf8 import decode
from offheap.recording.model import Budget, JavaHeap, JavaHeapState

Rows = NDArray[Any]

# Bounds on what a damaged or hostile file can make a reader do.
_MOST_BYTES = 16 << 30
_MOST_APPENDED = 1 << 30

_JAVA_VERSION = 3  # from which on a live file may have Java objects
_JAVA_HEAP: dict[int, JavaHeapState] = {
    contract.JavaHeapState.REQUESTED: "requested",
    contract.JavaHeapState.FOLLOWED: "followed",
    contract.JavaHeapState.TAKEN: "taken",
    contract.JavaHeapState.UNAVAILABLE: "unavailable",
}


@dataclass(frozen=True)
class Header:
    """The header at one moment.  Seconds; `monotonic` ones on the recorded machine's CLOCK_MONOTONIC."""

    state: State
    mode: contract.Mode
    entry: contract.Entry
    pid: int  # as the process sees itself
    process_start: int  # clock ticks since boot
    tick_seconds: float
    start: float  # since the epoch
    start_monotonic: float
    stop_monotonic: float  # 0.0 while recording
    heartbeat: float
    coverage: Coverage
    counter_shards: int
    probe_version: str
    losses: dict[str, int]  # lower-case names of enum offheap_loss, non-zero ones
    joined: int
    intervals: NDArray[np.uint64]  # (256,), by a block's interval code
    sections: Rows  # (16,) of contract.SECTION, checked against the file's length
    segments: tuple[tuple[int, int], ...]  # of the live table after the first: offset and capacity, checked
    budget: Budget | None
    adjusted_monotonic: float  # under a budget: the last time the interval may have changed
    inverse_seconds: float  # integral of 1/interval over time up to then, of the size class where it is least
    java_heap: JavaHeap | None  # None: Java objects were not requested

    @property
    def interval_bytes(self) -> int:
        """Mean bytes between samples of native memory, 0 when every block is recorded.

        Under a budget it is the mean for a path that allocates at an even rate: its blocks escape with
        probability exp(-integral of bytes/interval), so the mean is harmonic.
        """
        if self.mode is contract.Mode.EXACT:
            return 0
        if self.budget is None:
            return int(self.intervals[1 : contract.JAVA_CODE].max())
        least, last = self.budget.least_interval_bytes, self.budget.last_interval_bytes
        end = max(self.stop_monotonic or self.heartbeat, self.adjusted_monotonic)
        inverse = self.inverse_seconds + (end - self.adjusted_monotonic) / last
        seconds = end - self.start_monotonic
        mean = seconds / inverse if seconds > 0 and inverse > 0 else last
        return round(min(max(mean, least), self.budget.greatest_interval_bytes))


def parse(path: Path, raw: bytes, length: int) -> Header:
    """The header at the start of the file; `length` of the file.  UserError for none, or a damaged one."""
    if raw[: len(contract.MAGIC)] != contract.MAGIC:
        raise UserError(
            f"{path} is not a live file of offheap",
            "give a recording (a directory, or a file offheap-PID-....live)",
        )
    if len(raw) < contract.HEADER_BYTES:
        raise truncated(path)
    row = np.frombuffer(raw, contract.HEADER, 1)[0]
    if row["version"] > contract.VERSION:
        raise UserError(
            f"{path} was recorded by a newer offheap (format {row['version']}, "
            f"this one reads {contract.VERSION})",
            "upgrade offheap",
        )
    if int(row["file_bytes"]) > length:
        raise truncated(path)
    _check(path, row, length)
    return _header(row)


def truncated(path: Path) -> UserError:
    return UserError(f"{path} is truncated", "copy it again, whole")


def damaged(path: Path, what: str) -> UserError:
    return UserError(f"{path} is damaged: {what}", "copy it again, or record again")


def _check(path: Path, row: Any, length: int) -> None:
    """Checks all that later reads rely on; the numbers are Python ints, which do not wrap.

    `length` of the file is read after the row: the file may grow during the copy.
    """
    file_bytes = int(row["file_bytes"])
    if int(row["header_bytes"]) != contract.HEADER_BYTES or file_bytes < contract.HEADER_BYTES:
        raise damaged(path, "its header is not 4096 bytes long")
    if file_bytes > _MOST_BYTES:
        raise damaged(path, f"it claims to be larger than {_MOST_BYTES >> 30} GiB")
    if int(row["state"]) == State.INITIAL:
        raise UserError(f"{path} is being created", "try again in a moment")
    allowed = {
        "state": {int(s) for s in State},
        "mode": {int(m) for m in contract.Mode},
        "entry": {int(e) for e in contract.Entry},
    }
    for name, known in allowed.items():
        if int(row[name]) not in known:
            raise damaged(path, f"it has no {name} {int(row[name])}")
    if not 0 < int(row["tick_ns"]) <= 10**9:
        raise damaged(path, f"its clock ticks in {int(row['tick_ns'])} ns")
    if not 0 < int(row["counter_shards"]) <= 4096:
        raise damaged(path, f"it has {int(row['counter_shards'])} counter shards")
    if row["budget_ppm"]:
        codes = int(row["least_code"]), int(row["interval_code"]), int(row["greatest_code"])
        if not all(0 < code < contract.JAVA_CODE and row["intervals"][code] for code in codes):
            raise damaged(path, f"it has no interval {codes[0]}, {codes[1]} or {codes[2]}")
        if not (0 <= row["inverse_seconds"] < math.inf and row["budget_ppm"] <= 10**6):
            raise damaged(path, "its budget cannot be")
    _check_java(path, row)
    appended = (
        Section.STRINGS,
        Section.LINES,
        Section.FRAMES,
        Section.STACKS,
        Section.MODULES,
        Section.THREADS,
        Section.PROPERTIES,
    )
    for section, dtype in contract.ROWS.items():
        its = row["sections"][section]
        offset, capacity, row_bytes = int(its["offset"]), int(its["capacity"]), int(its["row_bytes"])
        if row_bytes != dtype.itemsize:
            raise damaged(path, f"rows of {section.name} are {row_bytes} bytes long")
        end = offset + capacity * row_bytes
        if offset < contract.HEADER_BYTES or offset % 4096 or end > file_bytes:
            raise damaged(path, f"{section.name} lies outside of it")
        if section in appended and min(int(its["used"]), capacity) * row_bytes > _MOST_APPENDED:
            raise damaged(path, f"{section.name} is larger than 1 GiB")
    for section, most in limits.MOST_ROWS.items():
        if int(row["sections"][section]["used"]) > most < limits.used(row["sections"], section):
            raise damaged(path, f"it has more than {most} rows of {section.name}")
    limits.check(path, row["sections"], 0)
    keys, values = (int(row["sections"][s]["capacity"]) for s in (Section.KEYS, Section.VALUES))
    if keys != values:
        raise damaged(path, f"it has {keys} keys and {values} values")
    if int(row["segments"]) > contract.SEGMENTS:
        raise damaged(path, f"it has {int(row['segments'])} segments")
    for offset, capacity in _segments(row):
        end = offset + capacity * (contract.KEY.itemsize + contract.VALUE.itemsize)
        if offset < contract.HEADER_BYTES or offset % 4096 or end > length:
            raise damaged(path, "a segment of its live table lies outside of it")


def _check_java(path: Path, row: Any) -> None:
    """Checks what the header says of Java objects; before version 3 these bytes mean nothing."""
    if int(row["version"]) < _JAVA_VERSION or not row["java_heap"]:
        return
    if int(row["java_heap"]) not in _JAVA_HEAP:
        raise damaged(path, f"it has no state {int(row['java_heap'])} of the Java heap")
    if int(row["java_heap"]) != contract.JavaHeapState.FOLLOWED:
        return
    code = int(row["java_code"])
    if not contract.JAVA_CODE <= code < len(row["intervals"]) or not row["intervals"][code]:
        raise damaged(path, f"it has no interval {code} of Java objects")
    for name in ("java_followed", "java_most"):
        if int(row[name]) > contract.OBJECT_NUMBER_MASK + 1:
            raise damaged(path, f"it follows {int(row[name])} Java objects")


def _segments(row: Any) -> tuple[tuple[int, int], ...]:
    rows = row["segment"][: int(row["segments"])]
    return tuple((int(segment["offset"]), int(segment["capacity"])) for segment in rows)


def _header(row: Any) -> Header:
    losses = {Loss(i).name.lower(): int(row["losses"][i]) for i in Loss if row["losses"][i]}
    joined = losses.pop("java_joined", 0)
    return Header(
        state=State(int(row["state"])),
        mode=contract.Mode(int(row["mode"])),
        entry=contract.Entry(int(row["entry"])),
        pid=int(row["pid"]),
        process_start=int(row["process_start"]),
        tick_seconds=int(row["tick_ns"]) * 1e-9,
        start=int(row["start_realtime_ns"]) * 1e-9,
        start_monotonic=int(row["start_monotonic_ns"]) * 1e-9,
        stop_monotonic=int(row["stop_monotonic_ns"]) * 1e-9,
        heartbeat=int(row["heartbeat_ns"]) * 1e-9,
        coverage=Coverage(int(row["coverage"]) & sum(Coverage)),
        counter_shards=int(row["counter_shards"]),
        probe_version=decode(row["probe_version"]),
        losses=losses,
        joined=joined,
        intervals=row["intervals"].copy(),
        sections=row["sections"].copy(),
        segments=_segments(row),
        budget=_budget(row),
        adjusted_monotonic=int(row["adjusted_ns"]) * 1e-9,
        inverse_seconds=float(row["inverse_seconds"]),
        java_heap=_java_heap(row),
    )


def _budget(row: Any) -> Budget | None:
    if not row["budget_ppm"] or int(row["mode"]) == contract.Mode.EXACT:
        return None
    intervals = row["intervals"]
    return Budget(
        share=int(row["budget_ppm"]) * 1e-6,
        cpu_seconds=int(row["cpu_ns"]) * 1e-9,
        spent_seconds=int(row["spent_ns"]) * 1e-9,
        least_interval_bytes=int(intervals[row["least_code"]]),
        greatest_interval_bytes=int(intervals[row["greatest_code"]]),
        last_interval_bytes=int(intervals[row["interval_code"]]),
    )


def _java_heap(row: Any) -> JavaHeap | None:
    if int(row["version"]) < _JAVA_VERSION or not row["java_heap"]:
        return None
    state = _JAVA_HEAP[int(row["java_heap"])]
    if state != "followed":
        return JavaHeap(state)
    return JavaHeap(
        state,
        interval_bytes=int(row["intervals"][row["java_code"]]),
        followed=int(row["java_followed"]),
        most=int(row["java_most"]),
        thinned=int(row["java_thinned"]),
        collections=int(row["java_collections"]),
        collected=int(row["java_collected"]) * int(row["tick_ns"]) * 1e-9,
        swept=max(0, int(row["java_swept_ns"]) - int(row["start_monotonic_ns"])) * 1e-9,
        spent_seconds=int(row["java_spent_ns"]) * 1e-9,
    )
