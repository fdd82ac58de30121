"""Everything live and everything ever allocated, over the whole recording."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.sites import sites
from offheap.analysis.sites.results import Live
from offheap.analysis.statistics import estimates
from offheap.analysis.statistics.estimate import Estimate
from offheap.recording.model import MMAP, Recording


def live(recording: Recording) -> tuple[Estimate, Estimate]:
    """Live bytes and live blocks at the end of the recording."""
    sizes = recording.live["size"].astype(np.float64)
    probabilities = recording.live["probability"]
    everything, error = np.zeros(len(sizes), np.int64), recording.info.weight_error
    return (
        estimates.of_blocks(sizes, probabilities, error),
        estimates.of_counts(everything, sizes, probabilities, 1, error=error).at(0),
    )


def live_by_kind(recording: Recording) -> Live:
    """The same, of blocks and of mappings."""
    mapped = (recording.stack_kinds == MMAP)[recording.live["stack"]].astype(np.int64)
    sizes = recording.live["size"].astype(np.float64)
    probabilities = recording.live["probability"]
    error = recording.info.weight_error
    in_bytes = estimates.of_groups(mapped, sizes, probabilities, 2, error=error)
    blocks = estimates.of_counts(mapped, sizes, probabilities, 2, error=error)
    return Live(in_bytes.at(0), blocks.at(0), in_bytes.at(1), blocks.at(1))


def live_over_time(
    recording: Recording, group: NDArray[np.int64], count: int, times: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Live bytes [groups, times]; `group` has the group 0..count-1 of each stack, -1 for none."""
    series = recording.series
    order = np.lexsort((series["time"], series["stack"]))
    stack, held = series["stack"][order], series["live_bytes"][order]
    first = np.diff(stack.astype(np.int64), prepend=-1) != 0
    steps = np.where(first, held, np.diff(held, prepend=0.0))
    of, at = group[stack], np.searchsorted(times, series["time"][order], "left")
    known = (of >= 0) & (at < len(times))
    table = np.bincount(
        of[known] * len(times) + at[known], weights=steps[known], minlength=count * len(times)
    )
    # Steps of floating numbers may add up to a little less than nothing.
    summed: NDArray[np.float64] = np.maximum(table.reshape(count, len(times)).cumsum(axis=1), 0.0)
    return summed


def allocated(recording: Recording) -> tuple[Estimate, Estimate]:
    """Bytes and blocks allocated while it recorded, freed or not."""
    everything = np.zeros(len(recording.stack_offsets) - 1, np.int64)
    return sites.allocated(recording, everything, 1)[0]


def samples(recording: Recording) -> int:
    """Blocks ever recorded: all of them when exact."""
    latest = sites.latest_rows(recording)
    return int(recording.series["samples"][latest[latest >= 0]].sum())
