"""Java objects apart from native memory: both are in the same tables, the kind of a stack tells which.

Java objects are no part of the process's native memory: they lie in the Java heap, which is one mapping.
Therefore analysis of native memory has a recording without them, and they have one of their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.recording.model import JAVA, PROCESS, Info, OwnersOverTime, Recording

Rows = NDArray[Any]

# Measured with arrays of 64 bytes to 70 KB under Serial, G1 and ZGC: means of estimate / truth are 0.97 to
# 1.05, and 1.01 to 1.16 on JDK 11 (docs/evaluation.md).
_WEIGHT_ERROR = 0.03
_OLD_WEIGHT_ERROR = 0.08

# Columns of model.PROCESS that are sums of model.SERIES.
_SUMS = ("live_bytes", "live_blocks", "allocated_bytes")


def apart(recording: Recording) -> Recording:
    """The recording without Java objects, and `java` beside it if they were followed."""
    info, kinds = recording.info, recording.stack_kinds
    followed = info.java_heap is not None and info.java_heap.state == "followed"
    if not followed and not (kinds == JAVA).any():
        return recording
    live, series = of_java(recording.live, kinds), of_java(recording.series, kinds)
    java = None
    if followed:
        objects = recording.series[series]
        java = replace(
            recording,
            info=_java_info(info),
            live=recording.live[live],
            series=objects,
            process=_process(objects, recording.process),
            owners=OwnersOverTime.none(),
        )
    return replace(recording, live=recording.live[~live], series=recording.series[~series], java=java)


def native(rows: Rows, kinds: NDArray[np.uint8]) -> Rows:
    """The rows of model.LIVE or model.SERIES that are of native memory; `kinds` by stack number."""
    # A million live blocks need not be there twice where no object is among them.
    return rows[~of_java(rows, kinds)] if (kinds == JAVA).any() else rows


def of_java(rows: Rows, kinds: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which of these rows are of Java objects."""
    java: NDArray[np.bool_] = kinds[rows["stack"]] == JAVA
    return java


def _java_info(info: Info) -> Info:
    """About the Java objects of a recording: they have an interval of their own, also beside exact blocks."""
    interval = info.java_heap.interval_bytes if info.java_heap else 0
    error = _weight_error(info.java_version)
    return replace(info, mode="sampled", interval_bytes=interval, budget=None, weight_error=error)


def _weight_error(java_version: str) -> float:
    """HotSpot's sampler is no Poisson process beside arrays that do not fit into a thread's buffer (TLAB).

    After such an array, bytes of the buffer since the last sample count twice or not at all
    (memAllocator.cpp, threadLocalAllocBuffer.cpp).  Before JDK 17 the rest of a sampled object shortens the
    way to the next sample (threadHeapSampler.cpp).
    """
    major = java_version.partition(".")[0]
    return _OLD_WEIGHT_ERROR if major.isdecimal() and int(major) < 17 else _WEIGHT_ERROR


def process_row(process: Rows, latest: Rows) -> Rows:
    """A row of model.PROCESS with the sums of the latest values of stacks, and all else as in `process`."""
    row: Rows = process.copy()
    for name in _SUMS:
        row[name] = latest[name].sum()
    return row


def _process(series: Rows, process: Rows) -> Rows:
    """model.PROCESS of the stacks in `series`, at the times of `process`."""
    rows = process.astype(PROCESS)
    order = np.lexsort((np.arange(len(series)), series["stack"]))
    by_stack = series[order]
    first = np.ones(len(series), np.bool_)
    first[1:] = by_stack["stack"][1:] != by_stack["stack"][:-1]
    upto = np.searchsorted(series["time"], rows["time"], side="right")
    for name in _SUMS:
        change = np.empty(len(series))
        change[order] = np.where(first, by_stack[name], np.diff(by_stack[name], prepend=0.0))
        sums = np.concatenate(([0.0], np.cumsum(change)))[upto]
        rows[name] = np.maximum(sums, 0.0)  # rounding leaves a little less than nothing of what is gone
    return rows
