"""Follows a live file: each snapshot holds what is new or has changed since the one before."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.probe.contract import FRAME_KIND_SHIFT, FrameKind, Section, StackKind
from offheap.probe.live_files import recorded_process
from offheap.probe.live_files.live_file import LiveFile
from offheap.probe.live_files.live_set import sums_by_stack
from offheap.recording.build_recording import NumberedStacks
from offheap.recording.java_objects import of_java, process_row
from offheap.recording.model import PROCESS, SERIES, Chain
from offheap.recording.names.naming import Naming

Rows = NDArray[Any]


@dataclass(frozen=True)
class Snapshot:
    """One reading.  `new`: the frames since the last reading; `chains`: those that were named since then."""

    time: float  # seconds since the start of the recording
    live: Rows  # model.LIVE, all of it
    series: Rows  # model.SERIES of the stacks that changed
    process: Rows  # model.PROCESS, one row, of native memory
    java: Rows  # model.SERIES of all stacks of Java objects, changed or not
    stacks: NumberedStacks  # the new ones
    new: dict[int, int]  # frame number -> raw frame
    chains: dict[int, Chain]  # by frame number
    raws: dict[int, int]  # the raw frames of `chains`
    mapped_bytes: float  # of the live bytes, those of mappings
    naming_seconds: float  # of CPU, spent on symbols and method names
    kinds: NDArray[np.uint8]  # by number, of all stacks that `live` and `series` refer to


@dataclass
class Snapshots:
    """Numbers frames as they are first seen; remembers each stack's latest values."""

    live_file: LiveFile
    naming: Naming
    native_at_end: bool = False  # whether native frames are named by the final snapshot only
    stack_count: int = 0
    _numbers: dict[int, int] = field(default_factory=dict)
    _unnamed: dict[int, int] = field(default_factory=dict)  # raw frame -> number
    _latest: Rows = field(default_factory=lambda: np.zeros(0, SERIES))
    _size: recorded_process.Size = field(default_factory=lambda: recorded_process.Size(0, 0))

    def take(self, time: float, *, pid: int | None, final: bool = False) -> Snapshot:
        """Reads the file; `final`: nobody writes it any more.

        The live set is read first: a stack, a thread or a method is written before the
        block that refers to it is published, so whatever a block names is there by then.
        """
        self.live_file.refresh()
        live = self.live_file.live()
        self.live_file.refresh()
        # Those that blocks name have their place by now.
        live["stack"][live["stack"] >= self.live_file.used(Section.STACKS)] = 0
        known = len(self._numbers)
        stacks = self._new_stacks(final)
        kinds = self._kinds(live)
        if len(kinds) > self.stack_count:
            # Without its stack an object cannot be distinguished from a block: the next snapshot has both.
            live = live[~of_java(live, kinds) | (live["stack"] < self.stack_count)]
        series = self._changed(time, live, kinds)
        raws = dict(self._unnamed)
        new = {number: raw for raw, number in itertools.islice(self._numbers.items(), known, None)}
        began = process_time()
        chains = self.naming.name(self._named_now(raws, final), final=final)
        naming_seconds = process_time() - began
        for raw in chains:
            del self._unnamed[raw]
        # A process that is gone keeps the size it had last, and so does one that the probe has left: tens of
        # megabytes of an exact recording's tables left with it.
        if pid is not None and not (self._size.rss_bytes and self.live_file.ended()):
            self._size = recorded_process.size(pid) or self._size
        row = np.zeros(1, PROCESS)
        row["time"], row["rss_bytes"], row["threads"] = time, self._size.rss_bytes, self._size.threads
        java = self._latest[kinds == StackKind.JAVA]
        java["time"] = time
        return Snapshot(
            time=time,
            live=live,
            series=series,
            process=process_row(row, self._latest[kinds != StackKind.JAVA]),
            java=java,
            stacks=stacks,
            new=new,
            chains={raws[raw]: chain for raw, chain in chains.items()},
            raws={raws[raw]: raw for raw in chains},
            mapped_bytes=float(self._latest["live_bytes"][kinds == StackKind.MMAP].sum()),
            naming_seconds=naming_seconds,
            kinds=kinds,
        )

    def _named_now(self, raws: Iterable[int], final: bool) -> Iterable[int]:
        if final or not self.native_at_end:
            return raws
        return [raw for raw in raws if raw >> FRAME_KIND_SHIFT != FrameKind.NATIVE]

    def _new_stacks(self, final: bool) -> NumberedStacks:
        new = self.live_file.stacks(self.stack_count, final=final)
        frames, depths = self.naming.without_probe(new.frames, new.depths)
        distinct, inverse = np.unique(frames, return_inverse=True)
        self.live_file.admit_frames(sum(raw not in self._numbers for raw in distinct.tolist()))
        numbers = np.empty(len(distinct), np.int64)
        for i, raw in enumerate(distinct.tolist()):
            number = self._numbers.get(raw)
            if number is None:
                number = self._numbers[raw] = len(self._numbers)
                self._unnamed[raw] = number
            numbers[i] = number
        first, count = self.stack_count, len(new.rows)
        self.stack_count += count
        return NumberedStacks(
            numbers=np.arange(first, first + count, dtype=np.int64),
            kinds=new.rows["kind"].copy(),
            depths=depths,
            frames=numbers[inverse],
        )

    def _kinds(self, live: Rows) -> NDArray[np.uint8]:
        """The kinds of all stacks that have values, or had some."""
        # A block may name a stack that is newer than the list of stacks just read.
        newest = int(live["stack"].max()) if len(live) else 0
        return self.live_file.kinds(max(self.stack_count, newest + 1, len(self._latest)))

    def _changed(self, time: float, live: Rows, kinds: NDArray[np.uint8]) -> Rows:
        count = len(kinds)
        now = np.zeros(count, SERIES)
        now["stack"] = np.arange(count)
        sums = sums_by_stack(live, count)
        now["live_blocks"], now["live_bytes"] = sums.blocks, sums.bytes
        now["live_blocks_variance"], now["live_bytes_variance"] = sums.blocks_variance, sums.bytes_variance
        counters = self.live_file.counters(kinds)
        now["samples"] = counters["samples"]
        now["allocated_blocks"], now["allocated_bytes"] = counters["blocks"], counters["bytes"]
        now["allocated_blocks_variance"] = counters["blocks_variance"]
        now["allocated_bytes_variance"] = counters["bytes_variance"]
        before = np.zeros(count, SERIES)
        before["stack"] = now["stack"]
        before[: len(self._latest)] = self._latest
        before["time"] = 0.0
        changed = now != before
        self._latest = now.copy()
        now["time"] = time
        rows: Rows = now[changed]
        return rows
