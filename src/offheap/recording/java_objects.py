"""Separates Java objects from native memory: both share the tables, and the kind of a stack tells which.

Java objects are no part of the process's native memory: they lie in the Java heap, which is one mapping.
Therefore analysis of native memory has a recording without them, and they have one of their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.recording.model import JAVA, PROCESS, SERIES, Info, OwnersOverTime, Recording

Rows = NDArray[Any]

# HotSpot's sampler is no Poisson process beside arrays that do not fit into a thread's buffer (TLAB): after
# such an array, bytes of the buffer since the last sample count twice or not at all (memAllocator.cpp,
# threadLocalAllocBuffer.cpp).  Measured with arrays of 64 bytes to 70 KB under Serial, G1 and ZGC: means of
# estimate / truth are 0.97 to 1.05 (docs/evaluation.md).  On JDK 11, 0.90 to 1.15 after less_often: the
# objects behind a large one have more than their part of the samples.
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
        alive, objects = recording.live[live], recording.series[series]
        if _carries_over(info.java_version):
            alive, objects = less_often(alive, objects)
        java = replace(
            recording,
            info=_java_info(info),
            live=alive,
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
    error = _OLD_WEIGHT_ERROR if _carries_over(info.java_version) else _WEIGHT_ERROR
    return replace(info, mode="sampled", interval_bytes=interval, budget=None, weight_error=error)


def _carries_over(java_version: str) -> bool:
    """Whether the rest of a sampled object shortens the way to the next sample: before JDK 17."""
    major = java_version.partition(".")[0]
    return major.isdecimal() and int(major) < 17


def less_often(live: Rows, series: Rows) -> tuple[Rows, Rows]:
    """Both with the probabilities under which JDK 11 samples, which are higher than its interval says.

    HotSpot draws the way to the next sample from the exponential distribution, mean 1, and subtracts from it
    the rest o of the sampled object; a way that is shorter than o stays as it is, and so is too short
    (threadHeapSampler.cpp).  The mean way is then 1 - o e^-o.  For an object of length x, sampled with
    the probability p = 1 - e^-x, the mean of o e^-o is (1 - p) x^2 / 2p.  All ways together are too short by
    the mean of that over all samples: 0.2 where all objects are half an interval long, 0.008 where they are
    a 64th.
    """
    by_stack = series[np.argsort(series["stack"], kind="stable")]
    latest = by_stack[np.append(by_stack["stack"][1:] != by_stack["stack"][:-1], True)[: len(series)]]
    samples = latest["samples"].astype(np.float64)
    p = _probability(samples, latest["allocated_blocks"])
    length = -np.log1p(-p)
    short = np.sum(samples * (1 - p) * length**2 / (2 * p)) / max(samples.sum(), 1.0)
    often = 1 / (1 - short)
    live, series = live.copy(), series.copy()
    live["probability"] = -np.expm1(often * np.log1p(-_below_one(live["probability"])))
    p = _probability(series["samples"].astype(np.float64), series["allocated_blocks"])
    scale = p / -np.expm1(often * np.log1p(-p))
    for name in SERIES.names or ():
        if name.endswith(("_blocks", "_bytes")):
            series[name] *= scale
        elif name.endswith("_variance"):
            series[name] *= scale**2
    return live, series


def _probability(samples: NDArray[np.float64], blocks: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probability of a stack's mean object, from what its samples stand for."""
    return _below_one(np.maximum(samples, 1.0) / np.maximum(blocks, np.maximum(samples, 1.0)))


def _below_one(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Objects of many intervals are sampled for certain."""
    below: NDArray[np.float64] = np.minimum(probability, 1 - np.finfo(np.float64).eps)
    return below


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
