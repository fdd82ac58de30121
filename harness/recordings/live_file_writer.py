"""Writes live files as the probe does (probe/recording.h), with the content that a test asks for."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.probe import contract
from offheap.probe.contract import Coverage, Entry, FrameKind, Mode, Section, StackKind, State
from offheap.proc import status

Rows = NDArray[Any]

INTERVAL = 512 * 1024
TICK_NS = 10_000_000


def native(module: int, address: int) -> int:
    return FrameKind.NATIVE << 60 | module << 40 | address


def java(slot: int, bci: int) -> int:
    return FrameKind.JAVA << 60 | slot << 24 | bci & 0xFFFFFF


def hook(name: str) -> int:
    return FrameKind.HOOK << 60 | contract.HOOKS.index(name)


def java_class(signature: int) -> int:
    """`signature`: its offset in STRINGS."""
    return FrameKind.CLASS << 60 | signature


def gap(reason: int) -> int:
    return FrameKind.GAP << 60 | reason


@dataclass
class LiveFileWriter:
    """Collects rows, then writes the whole file; a test may change rows and call `write` again.

    By default the file claims to come from this process, which lives.
    """

    mode: Mode = Mode.SAMPLED
    state: State = State.RECORDING
    entry: Entry = Entry.PRELOAD
    pid: int = field(default_factory=os.getpid)
    process_start: int = field(default_factory=lambda: status.read(os.getpid()).start_ticks)
    start_monotonic_ns: int = field(default_factory=lambda: time.monotonic_ns() - 100 * 10**9)
    stop_monotonic_ns: int = 0
    coverage: Coverage = field(default_factory=lambda: Coverage(0))
    counter_shards: int = 2
    header: dict[str, int | float] = field(default_factory=dict)  # fields that are to differ from 0
    intervals: dict[int, int] = field(default_factory=dict)  # by code, besides code 1
    losses: dict[contract.Loss, int] = field(default_factory=dict)
    capacities: dict[Section, int] = field(default_factory=dict)
    strings: bytearray = field(default_factory=lambda: bytearray(b"\0"))
    rows: dict[Section, list[tuple[Any, ...]]] = field(default_factory=dict)
    keys: Rows = field(default_factory=lambda: np.zeros(0, contract.KEY))
    values: Rows = field(default_factory=lambda: np.zeros(0, contract.VALUE))

    def __post_init__(self) -> None:
        self.rows = {section: [] for section in contract.ROWS}
        self._add(Section.STACKS, (0, 0, 0, 0, 0, 0, 0))
        self._add(Section.THREADS, (0, b""))

    def string(self, text: str | bytes) -> int:
        raw = text.encode() if isinstance(text, str) else text
        if not raw:
            return 0
        offset = len(self.strings)
        self.strings += raw + b"\0"
        return offset

    def module(self, path: str, build_id: bytes = b"", start: int = 0x7F0000000000) -> int:
        build = np.zeros(32, "u1")
        build[: len(build_id)] = np.frombuffer(build_id, "u1")
        row = (start, start + 0x100000, start, self.string(path), 0, 0, len(build_id), build, 0, 0, 0)
        return self._add(Section.MODULES, row)

    def method(
        self,
        class_signature: str,
        name: str,
        source: str = "",
        lines: tuple[tuple[int, int], ...] = (),
        state: contract.MethodState = contract.MethodState.NAMED,
    ) -> int:
        first = len(self.rows[Section.LINES])
        self.rows[Section.LINES] += lines
        number = len(self.rows[Section.METHODS])
        strings = (self.string(class_signature), self.string(name), self.string("()V"), self.string(source))
        return self._add(Section.METHODS, (0x1000 + number, state, *strings, first, len(lines), 0))

    def thread(self, name: str) -> int:
        return self._add(Section.THREADS, (1000 + len(self.rows[Section.THREADS]), name.encode()))

    def property(self, key: str, value: str) -> None:
        self._add(Section.PROPERTIES, (self.string(key), self.string(value)))

    def stack(self, *frames: int, kind: StackKind = StackKind.MALLOC) -> int:
        first = len(self.rows[Section.FRAMES])
        self.rows[Section.FRAMES] += [(frame,) for frame in frames]
        number = len(self.rows[Section.STACKS])
        return self._add(Section.STACKS, (number * 7919, first, len(frames), kind, 0, 0, 0))

    def count(self, stack: int, samples: int, blocks: float, size: float) -> None:
        """Adds to a stack's counters, without a sampling error."""
        counters = self.rows[Section.COUNTERS]
        while len(counters) <= stack * self.counter_shards + samples % self.counter_shards:
            counters.append((0, 0, 0, 0, 0, (0, 0, 0)))
        at = stack * self.counter_shards + samples % self.counter_shards
        old = counters[at]
        # As the probe leaves it: where each block is a sample, nothing is estimated.
        exact = self.mode is Mode.EXACT and self.rows[Section.STACKS][stack][3] != StackKind.JAVA
        estimated = 0 if exact else int(blocks * 65536)
        counters[at] = (old[0] + samples, old[1] + estimated, old[2] + int(size), *old[3:])

    def block(self, address: int, size: int, stack: int, birth: int = 0, thread: int = 0) -> None:
        self.blocks([address], [size], [stack], [birth], [thread])

    def blocks(self, addresses: Any, sizes: Any, stacks: Any, births: Any, threads: Any) -> None:
        """Live blocks; births in ticks, addresses multiples of 16."""
        code = 0 if self.mode is Mode.EXACT else 1
        values = np.zeros(len(addresses), contract.VALUE)
        values["block"] = (
            np.asarray(sizes, "u8")
            | np.uint64(code << contract.VALUE_INTERVAL_SHIFT)
            | np.asarray(threads, "u8") << np.uint64(contract.VALUE_THREAD_SHIFT)
        )
        values["stack"], values["birth"] = stacks, births
        self.keys = np.concatenate((self.keys, np.asarray(addresses, "u8")))
        self.values = np.concatenate((self.values, values))

    def follow_objects(self, interval: int = INTERVAL, **fields: int) -> None:
        """Java objects are followed, under this interval at first; `fields` of the header without `java_`."""
        codes = range(contract.JAVA_CODE, 256)
        self.intervals |= {code: interval << code - contract.JAVA_CODE for code in codes}
        self.header |= {"java_heap": contract.JavaHeapState.FOLLOWED, "java_code": contract.JAVA_CODE}
        self.header |= {f"java_{name}": value for name, value in fields.items()}

    def objects(self, sizes: Any, stacks: Any, births: Any, code: int = contract.JAVA_CODE) -> None:
        """Followed Java objects of thread 0; births in ticks."""
        numbers = np.arange(len(sizes), dtype=np.uint64) + np.uint64(len(self.keys))
        keys = np.uint64(contract.OBJECT_KEY) | numbers << np.uint64(contract.OBJECT_SHIFT)
        values = np.zeros(len(sizes), contract.VALUE)
        values["block"] = np.asarray(sizes, "u8") | np.uint64(code << contract.VALUE_INTERVAL_SHIFT)
        values["stack"], values["birth"] = stacks, births
        self.keys = np.concatenate((self.keys, keys))
        self.values = np.concatenate((self.values, values))

    def range(self, start: int, end: int, stack: int, birth: int = 0, length: int = 0) -> None:
        code = 0 if self.mode is Mode.EXACT else 1
        self._add(Section.RANGES, (start, end, length or end - start, stack, birth, 0, code, 0))

    def bytes(self) -> bytes:
        tables: dict[Section, Rows] = {}
        for section, dtype in contract.ROWS.items():
            if section is Section.STRINGS:
                tables[section] = np.frombuffer(bytes(self.strings), "u1")
            elif section is Section.KEYS:
                tables[section] = self.keys
            elif section is Section.VALUES:
                tables[section] = self.values
            elif section is Section.FRAMES:
                tables[section] = np.array([row[0] for row in self.rows[section]], dtype)
            else:
                tables[section] = np.array(self.rows[section], dtype)
        header = np.zeros(1, contract.HEADER)
        at = contract.HEADER_BYTES
        for section, table in tables.items():
            capacity = self.capacities.get(section, max(len(table), 8))
            if section is Section.COUNTERS:
                capacity = len(tables[Section.STACKS]) * self.counter_shards
            its = header["sections"][0, section]
            its["offset"], its["capacity"], its["used"] = at, capacity, len(table)
            its["row_bytes"] = table.dtype.itemsize
            at = -(-(at + capacity * table.dtype.itemsize) // 4096) * 4096
        now = time.monotonic_ns()
        for name, value in {
            "magic": contract.MAGIC,
            "version": contract.VERSION,
            "header_bytes": contract.HEADER_BYTES,
            "file_bytes": at,
            "state": self.state,
            "mode": self.mode,
            "entry": self.entry,
            "pid": self.pid,
            "uid": os.getuid(),
            "tick_ns": TICK_NS,
            "process_start": self.process_start,
            "start_realtime_ns": time.time_ns() - (now - self.start_monotonic_ns),
            "start_monotonic_ns": self.start_monotonic_ns,
            "stop_monotonic_ns": self.stop_monotonic_ns,
            "coverage": self.coverage,
            "counter_shards": self.counter_shards,
            "keys_per_bucket": 8,
            "heartbeat_ns": now,
            "probe_version": b"test",
            **self.header,
        }.items():
            header[name] = value
        for loss, number in self.losses.items():
            header["losses"][0, loss] = number
        header["intervals"][0, 1] = 0 if self.mode is Mode.EXACT else INTERVAL
        for code, mean in self.intervals.items():
            header["intervals"][0, code] = mean
        raw = bytearray(at)
        raw[: contract.HEADER_BYTES] = header.tobytes()
        for section, table in tables.items():
            offset = int(header["sections"][0, section]["offset"])
            raw[offset : offset + table.nbytes] = table.tobytes()
        return bytes(raw)

    def write(self, path: Path) -> Path:
        """Writes in place if the file exists, as the probe does."""
        with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
            file.write(self.bytes())
        return path

    def _add(self, section: Section, row: tuple[Any, ...]) -> int:
        self.rows[section].append(row)
        return len(self.rows[section]) - 1
