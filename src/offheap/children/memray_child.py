"""A program of its own: `memray_child.py FILE BYTES` reads a capture of memray by memray's own reader.

It runs as a child because that reader is C++ which trusts its input: a damaged capture makes it crash, loop
or take any memory.  Standard output gets an archive of numpy (`numpy.savez`):

text     UTF-8: JSON of `Capture.about`
records  int64[:, 3]: number of the stack, allocator (memray.AllocatorType), number of the thread
rows     int64[:, 5]: record, index of the snapshot before which it was allocated, the same of its free or -1,
         blocks, bytes
depths   int64: frames of each stack
places   int64: stack after stack, innermost first, numbers of frames
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import os
import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SECONDS = 300  # of processor time: memray reads some 2 million events a second
MOST_SNAPSHOTS = 240  # as many as of the logs of events
UNREADABLE = 3  # exit status: standard error has one line, which says why
_DEEPEST = 2048  # frames of a stack
_LONGEST_SAID = 300  # characters of an error


@dataclass
class Capture:
    """The tables, with each frame, stack and thread once."""

    about: dict[str, Any]
    records: list[tuple[int, int, int]] = field(default_factory=list)
    rows: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    frames: dict[tuple[str, str, int, bool], int] = field(default_factory=dict)
    stacks: dict[tuple[int, ...], int] = field(default_factory=dict)
    threads: dict[str, int] = field(default_factory=dict)

    def add(self, record: Any, native: bool, intervals: list[tuple[int, int, int, int]]) -> None:
        python = record.stack_trace(_DEEPEST)
        frames = record.hybrid_stack_trace(_DEEPEST) if native else python
        of_python = set(python)
        stack = tuple(
            self.frames.setdefault((name, file, line, (name, file, line) in of_python), len(self.frames))
            for name, file, line in frames
        )
        number = self.stacks.setdefault(stack, len(self.stacks))
        name = record.thread_name or ("main" if record.tid == self.about["main"] else f"{record.tid:#x}")
        thread = self.threads.setdefault(name, len(self.threads))
        self.rows += [(len(self.records), *interval) for interval in intervals]
        self.records.append((number, int(record.allocator), thread))


def read(path: str) -> Capture:
    memray = importlib.import_module("memray")
    with memray.FileReader(path, max_memory_records=MOST_SNAPSHOTS) as reader:
        about = reader.metadata
        native = bool(about.has_native_traces)
        capture = Capture(
            {
                "start": about.start_time.timestamp(),
                "end": about.end_time.timestamp(),
                "pid": about.pid,
                "main": about.main_thread_id,
                "command": about.command_line,
                "allocator": about.python_allocator,
                "native": native,
                # Captures of older versions have no such setting.
                "objects": bool(getattr(about, "trace_python_allocators", False)),
                "snapshots": [(one.time, one.rss) for one in reader.get_memory_snapshots()],
                "history": True,
            }
        )
        history = _history(reader)
        if history is None:
            capture.about["history"] = False
            for record in reader.get_leaked_allocation_records(merge_threads=False):
                capture.add(record, native, [(0, -1, record.n_allocations, record.size)])
            return capture
        for record in history:
            intervals = [
                (one.allocated_before_snapshot, _freed(one), one.n_allocations, one.n_bytes)
                for one in record.intervals
            ]
            capture.add(record, native, intervals)
    return capture


def _history(reader: Any) -> Iterator[Any] | None:
    """Allocations with their times; None of a capture of `memray run --aggregate`, which has totals alone.

    memray tells these captures apart by an error as the iteration begins.  It raises the same error later for
    a damaged record, so that only the first step may meet it here.
    """
    records = iter(reader.get_temporal_allocation_records(merge_threads=False))
    try:
        first = list(itertools.islice(records, 1))
    except NotImplementedError:  # memray raises it for an aggregated capture
        return None
    return itertools.chain(first, records)


def _freed(interval: Any) -> int:
    before = interval.deallocated_before_snapshot
    return -1 if before is None else int(before)


def _write(capture: Capture) -> None:
    names = [(*frame[:3], int(frame[3])) for frame in capture.frames]
    text = json.dumps({**capture.about, "frames": names, "threads": list(capture.threads)})
    np.savez(
        sys.stdout.buffer,
        text=np.frombuffer(text.encode("utf-8", "replace"), np.uint8),
        records=np.array(capture.records, np.int64).reshape(-1, 3),
        rows=np.array(capture.rows, np.int64).reshape(-1, 5),
        depths=np.array([len(stack) for stack in capture.stacks], np.int64),
        places=np.array([place for stack in capture.stacks for place in stack], np.int64),
    )


def main(path: str, memory: int) -> int:
    # If memory runs out where a target runs, the kernel should kill this process, not a JVM.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    # A command that reads a recording has a lower limit (recording/allowance.py).
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # memray logs a line for each fault that it skips, which nobody reads: a full pipe would stop it.
    said = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        capture = read(path)
        _write(capture)
    except Exception as error:  # whatever the reader raises is a fault of the file
        why = " ".join(str(error).split()) or type(error).__name__
        os.write(said, why[:_LONGEST_SAID].encode("utf-8", "replace"))
        return UNREADABLE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
