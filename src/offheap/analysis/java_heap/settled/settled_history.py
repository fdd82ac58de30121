"""The history of sites of Java objects, without the garbage that waited for a collection at each snapshot.

A snapshot counts all objects that no collection has freed yet.  The first snapshot after a collection shows
what was live at the collection: no object that was born since has been freed, so

    live at the collection = counted at the snapshot - allocated between the two

Between two collections, live bytes are interpolated, from 0 at the start of the recording, which knows no
older object.  Survivors of the last collection were live all the time since their birth.  With few
collections, or a long time without one, only births and survivors are known.

Followed objects may be thinned at random, and the sampling interval moves.  So births count as if they were
sampled as finely as the survivors of their era.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.java_heap.settled.last_collection import Ran
from offheap.analysis.sites.grouping import Grouping
from offheap.analysis.statistics.estimates import NEARLY_SURE, Floats
from offheap.analysis.verdicts.site_history import (
    Histories,
    exposure,
    histories,
    intervals_by_era,
    size_class,
    totals_at,
)
from offheap.recording.model import Recording

# Seconds after a collection in which the probe takes dead objects out of the live table.  A collection wakes
# its thread; one that ends within 250 ms of the last sweep waits for the thread's tick of a second.
SWEEP_SECONDS = 1.1
# Collections whose survivors are known, and the longest time without one, as a share: with fewer, or a
# longer one, the interpolation decides what was live.
_FEWEST, _LONGEST = 2, 1 / 2
_ALIKE = 1.01  # factor by which intervals may differ and count as one


def settled_histories(survivors: Recording, grouping: Grouping, ran: Ran) -> Histories:
    """`survivors`: the Java objects as of a collection, see `last_collection.as_of`."""
    raw = histories(survivors, grouping)
    live = survivors.live
    era = np.clip(np.searchsorted(raw.times, live["birth"], "left") - 1, 0, raw.end - 1)
    if _moves(survivors):
        raw = replace(
            raw,
            births=None if raw.births is None else _births(survivors, grouping, raw, era),
            exposure=exposure(
                survivors, raw.times, era, grouping.of_stack[live["stack"]], len(grouping.members)
            ),
        )
    if raw.live is None:
        return raw
    snapshots, begun = first_after(survivors, ran, float(raw.times[-1]))
    gaps = np.diff(np.concatenate(([0.0], begun, [raw.times[-1]])))
    if len(begun) < _FEWEST or gaps.max() > _LONGEST * raw.times[-1]:
        return replace(raw, live=None, live_variance=None)
    chosen = _around(begun, raw.times)
    amounts = ("bytes", "bytes_variance")
    (known, variance), _ = live_after(survivors, grouping, snapshots[chosen], begun[chosen], amounts)
    count = len(grouping.members)
    edge = np.zeros((count, 1))
    points = np.concatenate(([0.0], begun[chosen], [raw.times[-1]]))

    def at_boundaries(table: Floats, end: Floats, least: Floats) -> Floats:
        values = _interpolated(points, np.hstack((edge, table, end[:, None])), raw.times)
        values = np.maximum(values, least)
        values[:, -1] = end
        return values

    return replace(
        raw,
        live=at_boundaries(known, raw.born[:, -1], raw.born),
        live_variance=at_boundaries(variance, raw.variance[:, -1], raw.variance),
    )


def _moves(survivors: Recording) -> bool:
    """Whether the objects were not all sampled at one interval, or were thinned later."""
    heap = survivors.info.java_heap
    live = survivors.live[survivors.live["probability"] < NEARLY_SURE]
    intervals = -live["size"] / np.log1p(-live["probability"])
    varied = len(intervals) > 0 and float(intervals.max()) > _ALIKE * float(intervals.min())
    return varied or (heap is not None and heap.thinned > 0)


def _births(survivors: Recording, grouping: Grouping, raw: Histories, era: NDArray[np.int64]) -> Floats:
    """By site and boundary: objects born until then, as many as the sampling of the survivors would take."""
    names = ("allocated_blocks", "allocated_bytes")
    (blocks, allocated), _ = totals_at(survivors, grouping, raw.times, names)
    size = allocated[:, -1] / np.maximum(blocks[:, -1], 1e-9)
    intervals = intervals_by_era(survivors, era, raw.end, size_class(np.maximum(size, 1.0)))
    taken = np.diff(blocks, axis=1) * -np.expm1(-size[:, None] / intervals)
    counted: Floats = np.pad(np.maximum(taken, 0.0).cumsum(axis=1), ((0, 0), (1, 0)))
    return counted


def first_after(survivors: Recording, ran: Ran, end: float) -> tuple[Floats, Floats]:
    """The first snapshots after a collection that lack its dead objects, and `until` of that collection."""
    order = np.argsort(ran.ended, kind="stable")
    until = np.maximum.accumulate(ran.until[order])
    snapshots = np.unique(survivors.process["time"])
    place = np.searchsorted(ran.ended[order], snapshots - SWEEP_SECONDS, "right")
    snapshots, begun = snapshots[place > 0], until[place[place > 0] - 1]
    first = np.diff(begun, prepend=-np.inf) > 0
    first &= (begun > 0) & (begun < end)
    return snapshots[first], begun[first]


def _around(begun: Floats, times: Floats) -> NDArray[np.int64]:
    """The collections before and after each boundary; further collections have no effect there."""
    after = np.searchsorted(begun, times, "right")
    chosen = np.unique(np.concatenate((after - 1, after)))
    around: NDArray[np.int64] = chosen[(chosen >= 0) & (chosen < len(begun))]
    return around


def live_after(
    survivors: Recording, grouping: Grouping, snapshots: Floats, begun: Floats, amounts: Sequence[str]
) -> tuple[list[Floats], list[Floats]]:
    """By site and collection, for each of the amounts: what survived it, and what had been allocated by then.

    amounts: columns of SERIES without `live_` or `allocated_`
    """
    every = np.unique(np.concatenate(([0.0], survivors.process["time"])))
    place = np.clip(np.searchsorted(every, begun, "right"), 1, max(len(every) - 1, 1))
    before, after = every[place - 1], every[np.minimum(place, len(every) - 1)]
    part = np.clip((begun - before) / np.maximum(after - before, 1e-9), 0.0, 1.0)
    times = np.unique(np.concatenate((snapshots, before, after)))
    now, low, high = (np.searchsorted(times, each) for each in (snapshots, before, after))
    names = [f"{what}_{amount}" for what in ("live", "allocated") for amount in amounts]
    tables, _ = totals_at(survivors, grouping, times, names)
    left, born = [], []
    for counted, allocated in zip(tables[: len(amounts)], tables[len(amounts) :], strict=True):
        then = allocated[:, low] + part * (allocated[:, high] - allocated[:, low])
        born.append(then)
        left.append(np.maximum(counted[:, now] - (allocated[:, now] - then), 0.0))
    return left, born


def _interpolated(points: Floats, values: Floats, times: Floats) -> Floats:
    """By row, as numpy.interp of one."""
    place = np.clip(np.searchsorted(points, times, "right"), 1, len(points) - 1)
    width = np.maximum(points[place] - points[place - 1], 1e-9)
    part = np.clip((times - points[place - 1]) / width, 0.0, 1.0)
    between: Floats = values[:, place - 1] + part * (values[:, place] - values[:, place - 1])
    return between
