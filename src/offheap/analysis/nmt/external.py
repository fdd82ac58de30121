"""External memory as one of Native Memory Tracking's categories, from an inspection or from a recording."""

from __future__ import annotations

import numpy as np

from offheap.analysis.nmt.results import External, ExternalSite
from offheap.analysis.owners.accounts import Accounts
from offheap.analysis.stacks import frames
from offheap.jvm.texts.nmt import Category
from offheap.recording.model import MALLOC, Recording

NAME = "External"


def of_process(accounts: Accounts) -> External:
    """malloc's blocks that have no header of the JVM's, and anonymous memory that the JVM did not map."""
    heap = accounts.native_heap
    known = heap is not None and heap.told_apart
    mapped = sum(holding.bytes for holding in accounts.holdings if holding.owner == "anonymous")
    missing = [] if known else ["external malloc is not told: malloc's memory could not be walked"]
    malloc, count = (heap.external.bytes, heap.external.blocks) if heap and known else (0, 0)
    category = Category(
        NAME,
        reserved=malloc + mapped,
        committed=malloc + mapped,
        malloc=malloc,
        malloc_count=count,
        mmap_reserved=mapped,
        mmap_committed=mapped,
    )
    return External(category, heap.free_resident if heap else None, (), tuple(missing))


def of_recording(recording: Recording) -> External:
    """What the probe saw libraries take, by call path; estimates where it sampled."""
    live = recording.live
    count = len(recording.stack_kinds)
    weight = 1 / np.maximum(live["probability"], 1e-12)
    sizes = np.bincount(live["stack"], live["size"] * weight, count)
    blocks = np.bincount(live["stack"], weight, count)
    own = np.array(
        [number > 0 and not frames.by_jvm(recording.stack(number)) for number in range(count)], np.bool_
    )
    sums = {"malloc": [0, 0], "mmap": [0, 0]}
    sites = []
    for number in np.flatnonzero(own & (sizes > 0)).tolist():
        kind = "malloc" if recording.stack_kinds[number] == MALLOC else "mmap"
        names = tuple(frame.name for frame in recording.stack(number))
        site = ExternalSite(names, kind, round(float(sizes[number])), max(round(float(blocks[number])), 1))
        sums[kind][0] += site.bytes
        sums[kind][1] += site.blocks
        sites.append(site)
    (malloc, malloc_count), (mapped, _) = sums["malloc"], sums["mmap"]
    peak, peak_count = _peak(recording, own & (recording.stack_kinds == MALLOC))
    category = Category(
        NAME,
        reserved=malloc + mapped,
        committed=malloc + mapped,
        malloc=malloc,
        malloc_count=malloc_count,
        mmap_reserved=mapped,
        mmap_committed=mapped,
        malloc_peak=max(peak, malloc),
        malloc_peak_count=max(peak_count, malloc_count) if peak <= malloc else peak_count,
    )
    missing = ["the JVM's own categories are in no recording: while it runs, offheap nmt PID"]
    return External(category, None, tuple(sorted(sites, key=lambda site: -site.bytes)), tuple(missing))


def _peak(recording: Recording, chosen: np.ndarray) -> tuple[int, int]:
    """(bytes, blocks) of the chosen stacks together at the snapshot where they had most bytes."""
    series = recording.series[chosen[recording.series["stack"]]]
    if not len(series):
        return 0, 0
    order = np.lexsort((series["time"], series["stack"]))
    series = series[order]
    first = np.concatenate([[True], series["stack"][1:] != series["stack"][:-1]])
    changes = []
    for name in ("live_bytes", "live_blocks"):
        before = np.where(first, 0.0, np.concatenate([[0.0], series[name][:-1]]))
        changes.append(series[name] - before)
    # A snapshot's rows are one moment: sum them before looking for the highest.
    _, moment = np.unique(series["time"], return_inverse=True)
    size, blocks = (np.cumsum(np.bincount(moment, change)) for change in changes)
    at = int(np.argmax(size))
    return round(float(size[at])), round(float(blocks[at]))
