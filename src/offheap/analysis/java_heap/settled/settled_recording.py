"""The Java objects as a recording that ended with the last collection and took a snapshot at collections.

Its counts contain no garbage and no too young object, so it can be compared with another like native memory.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.java_heap.settled.last_collection import as_of, ran
from offheap.analysis.java_heap.settled.settled_history import first_after, live_after
from offheap.analysis.sites.grouping import Grouping
from offheap.analysis.statistics.estimates import Floats
from offheap.analysis.totals import stack_totals_at
from offheap.recording.model import PROCESS, SERIES, Recording

_MOST = 48  # snapshots: each costs a row for every stack
_AMOUNTS = ("blocks", "bytes", "blocks_variance", "bytes_variance")


def settled_recording(recording: Recording) -> Recording | None:
    """`recording`: the whole one.  None: nothing was followed, or no collection ran."""
    java, known = recording.java, ran(recording)
    if java is None or not len(known.until):
        return None
    end = known.last
    survivors = as_of(java, end)
    snapshots, begun = first_after(java, known, end)
    if len(begun) > _MOST:
        chosen = np.unique(np.linspace(0, len(begun) - 1, _MOST).astype(np.int64))
        snapshots, begun = snapshots[chosen], begun[chosen]
    stacks = len(java.stack_kinds)
    each = Grouping(np.arange(stacks), [[stack] for stack in range(stacks)])
    times = np.append(begun, end)
    until = np.append(snapshots, java.process["time"].max(initial=end))
    live, allocated = live_after(java, each, until, times, _AMOUNTS)
    held = stack_totals_at.live_at_end(survivors)
    at_end = (held.blocks, held.bytes, held.blocks_variance, held.bytes_variance)
    for table, born, last in zip(live, allocated, at_end, strict=True):
        table[:, -1] = last
        born[:, -1] = np.maximum(born[:, -1], last)
    samples = stack_totals_at.allocated_until(java).samples
    series = np.concatenate(
        [_rows(float(time), place, live, allocated, samples) for place, time in enumerate(times.tolist())]
    )
    process = np.zeros(len(times), PROCESS)
    process["time"] = times
    for name, table in (("live_blocks", live[0]), ("live_bytes", live[1]), ("allocated_bytes", allocated[1])):
        process[name] = table.sum(axis=0)
    info = replace(survivors.info, live_time=0.0, duration_seconds=end)
    return replace(survivors, info=info, series=series, process=process)


def with_java_objects(recording: Recording) -> Recording:
    """Native memory, and what survived each collection of the Java heap; a stack is of one kind."""
    java = settled_recording(recording)
    if java is None:
        return recording
    series = np.concatenate((recording.series, java.series))
    return replace(
        recording,
        live=np.concatenate((recording.live, java.live)),
        series=series[np.argsort(series["time"], kind="stable")],
        java=None,
    )


def _rows(
    time: float, place: int, live: list[Floats], allocated: list[Floats], samples: Floats
) -> NDArray[np.void]:
    """The stacks that have allocated by that time.  `samples` of the whole recording: in proportion."""
    blocks, every = allocated[0][:, place], np.maximum(allocated[0][:, -1], 1e-9)
    stacks = np.flatnonzero(blocks > 0)
    rows = np.zeros(len(stacks), SERIES)
    rows["time"], rows["stack"] = time, stacks
    rows["samples"] = np.ceil(samples * np.minimum(blocks / every, 1.0))[stacks]
    for what, tables in (("live", live), ("allocated", allocated)):
        for amount, table in zip(_AMOUNTS, tables, strict=True):
            rows[f"{what}_{amount}"] = table[stacks, place]
    return rows
