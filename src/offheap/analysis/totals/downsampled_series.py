"""What every stack held and had allocated over time, at a few common times: for views of a part of the time.

The times are snapshots, spread evenly; there are fewer of them where many stacks change at each, so that
what is returned stays small.  Between two of them nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.sites.results import Site
from offheap.analysis.statistics.estimates import Floats
from offheap.recording.model import SHORTEST_AXIS, Recording

AGES = 24
_MOST_TIMES = 61
_FEWEST_TIMES = 13
_MOST_CELLS = 250_000

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class DownsampledSeries:
    """A cell is the state of one stack at one of the times, where it differs from the time before.

    times  seconds since the start, the first 0, when nothing was known to be held; empty if there are not
           two snapshots
    stack, time     of every cell, sorted by stack, then by time: an index into `times`
    live_bytes ...  of every cell: the stack's estimates (Horvitz-Thompson) at that time
    """

    times: Floats
    stack: Integers
    time: Integers
    live_bytes: Floats
    live_blocks: Floats
    allocated_bytes: Floats
    allocated_blocks: Floats


@dataclass(frozen=True)
class DownsampledSiteSeries:
    """A row a site.

    live_error       standard error of the bytes that were live at each of the times
    allocated_error  standard error of the bytes allocated until each of them
    births           bytes alive at the end, by the part of the recording they were born in: AGES equal parts
                     from 0 to `end` seconds
    """

    live_error: Floats
    allocated_error: Floats
    births: Floats
    end: float


def downsampled_series(recording: Recording) -> DownsampledSeries:
    """The state of every stack over time."""
    times, rows, time = _cells(recording)
    cells = recording.series[rows]
    return DownsampledSeries(
        times=times,
        stack=cells["stack"].astype(np.int64),
        time=time,
        live_bytes=cells["live_bytes"],
        live_blocks=cells["live_blocks"],
        allocated_bytes=cells["allocated_bytes"],
        allocated_blocks=cells["allocated_blocks"],
    )


def downsampled_site_series(recording: Recording, sites: Sequence[Site]) -> DownsampledSiteSeries:
    """The state of each of these sites over time, at the times of `downsampled_series`."""
    of_stack = np.full(len(recording.stack_offsets) - 1, -1, np.int64)
    for number, each in enumerate(sites):
        of_stack[list(each.stacks)] = number
    times, rows, time = _cells(recording)
    cells = recording.series[rows]
    stack = cells["stack"].astype(np.int64)
    site = of_stack[stack]
    wanted = site >= 0
    first = np.diff(stack, prepend=-1) != 0

    def errors(name: str) -> Floats:
        values = cells[name]
        steps = np.where(first, values, np.diff(values, prepend=0.0))
        place = site[wanted] * len(times) + time[wanted]
        table = np.bincount(place, weights=steps[wanted], minlength=len(sites) * len(times))
        # Steps of floating numbers may add up to slightly less than zero.
        summed = np.maximum(table.reshape(len(sites), len(times)).cumsum(axis=1), 0.0)
        error: Floats = np.sqrt(summed)
        return error

    live = recording.live
    end = max(
        recording.info.live_time or recording.info.duration_seconds,
        live["birth"].max(initial=0.0),
        SHORTEST_AXIS,
    )
    of_block = of_stack[live["stack"]]
    live, of_block = live[of_block >= 0], of_block[of_block >= 0]
    part = np.clip((live["birth"] / end * AGES).astype(np.int64), 0, AGES - 1)
    births = np.bincount(
        of_block * AGES + part, weights=live["size"] / live["probability"], minlength=len(sites) * AGES
    )
    return DownsampledSiteSeries(
        live_error=errors("live_bytes_variance"),
        allocated_error=errors("allocated_bytes_variance"),
        births=births.astype(np.float64).reshape(len(sites), AGES),
        end=float(end),
    )


def _cells(recording: Recording) -> tuple[Floats, Integers, Integers]:
    """The times; and of every cell, its row in the series and the index of its time."""
    # Snapshots that are newer than the live set would not agree with what is live at the end.
    until = recording.info.live_time or np.inf
    series = recording.series[: int(np.searchsorted(recording.series["time"], until, "right"))]
    taken = np.unique(np.concatenate((recording.process["time"], series["time"])))
    taken = taken[(taken > 0) & (taken <= until)]
    nothing = np.zeros(0, np.int64)
    if len(taken) < 2:
        return np.zeros(0), nothing, nothing
    count = _MOST_TIMES
    while True:
        picked = np.linspace(0, len(taken) - 1, min(count - 1, len(taken))).round().astype(np.int64)
        times = np.concatenate(([0.0], taken[np.unique(picked)]))
        key = series["stack"].astype(np.int64) * len(times) + np.searchsorted(times, series["time"], "left")
        order = np.argsort(key, kind="stable")  # by time within a cell: its last row is its state
        last = np.flatnonzero(np.diff(key[order], append=-1))
        if len(last) <= _MOST_CELLS or count == _FEWEST_TIMES:
            break
        count = max(count * 3 // 4, _FEWEST_TIMES)
    rows = order[last]
    return times, rows, key[rows] % len(times)
