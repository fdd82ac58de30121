"""Everything live and everything ever allocated, over the whole recording."""

from __future__ import annotations

import numpy as np

from offheap.analysis import estimates, sites
from offheap.analysis.results import Estimate, Live
from offheap.recording.model import MMAP, Recording


def live(recording: Recording) -> tuple[Estimate, Estimate]:
    """Live bytes and live blocks at the end of the recording."""
    sizes = recording.live["size"].astype(np.float64)
    probabilities = recording.live["probability"]
    everything = np.zeros(len(sizes), np.int64)
    return (
        estimates.of_blocks(sizes, probabilities),
        estimates.of_counts(everything, sizes, probabilities, 1).at(0),
    )


def live_by_kind(recording: Recording) -> Live:
    """The same, of blocks and of mappings."""
    mapped = (recording.stack_kinds == MMAP)[recording.live["stack"]].astype(np.int64)
    sizes = recording.live["size"].astype(np.float64)
    probabilities = recording.live["probability"]
    in_bytes = estimates.of_groups(mapped, sizes, probabilities, 2)
    blocks = estimates.of_counts(mapped, sizes, probabilities, 2)
    return Live(in_bytes.at(0), blocks.at(0), in_bytes.at(1), blocks.at(1))


def allocated(recording: Recording) -> tuple[Estimate, Estimate]:
    """Bytes and blocks allocated while it recorded, freed or not."""
    everything = np.zeros(len(recording.stack_offsets) - 1, np.int64)
    return sites.allocated(recording, everything, 1)[0]


def samples(recording: Recording) -> int:
    """Blocks ever recorded: all of them when exact."""
    latest = sites.latest_rows(recording)
    return int(recording.series["samples"][latest[latest >= 0]].sum())
