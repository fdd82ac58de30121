"""Everything live and everything ever allocated, over the whole recording."""

from __future__ import annotations

import numpy as np

from offheap.analysis import estimates
from offheap.analysis.results import Estimate
from offheap.analysis.sites import latest_rows
from offheap.recording.model import Recording


def live(recording: Recording) -> tuple[Estimate, Estimate]:
    """Live bytes and live blocks at the end of the recording."""
    sizes = recording.live["size"].astype(np.float64)
    probabilities = recording.live["probability"]
    return (
        estimates.of_blocks(sizes, probabilities),
        estimates.of_blocks(np.ones(len(sizes)), probabilities),
    )


def allocated(recording: Recording) -> tuple[Estimate, Estimate]:
    """Bytes and blocks allocated while it recorded, freed or not."""
    latest = latest_rows(recording)
    rows = recording.series[latest[latest >= 0]]
    samples = float(rows["samples"].sum())
    return (
        estimates.of_totals(
            float(rows["allocated_bytes"].sum()), float(rows["allocated_bytes_variance"].sum()), samples
        ),
        estimates.of_totals(
            float(rows["allocated_blocks"].sum()), float(rows["allocated_blocks_variance"].sum()), samples
        ),
    )


def samples(recording: Recording) -> int:
    """Blocks ever recorded: all of them when exact."""
    latest = latest_rows(recording)
    return int(recording.series["samples"][latest[latest >= 0]].sum())
