"""How fast leaking memory is requested, beside how fast the process's memory grows by it.

Live bytes are requested bytes.  They cost memory only where they are touched: a large block that is hardly
written costs a page or two, and one that fills memory which malloc had kept costs none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from offheap.analysis.leaks.results import Suspect
from offheap.analysis.statistics import estimates
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.statistics.trend import trend
from offheap.quantities import RateUnit, format_size
from offheap.recording.model import Recording

# glibc gives blocks from this size on pages of their own, which the kernel fills when they are touched
# (M_MMAP_THRESHOLD; it may rise).
_OWN_PAGES = 128 << 10  # bytes


def requested_and_touched(recording: Recording, some: Sequence[Suspect], unit: RateUnit) -> str:
    """`2.9 MiB/s are requested, RSS grows by 0.4 MiB/s (0.3 to 0.5)`; "" where the two do not clearly differ.

    `some`: the suspects that the headline is about.
    """
    requested = estimates.total([suspect.growth_bytes_per_second for suspect in some])
    grown = _rss(recording)
    if not some or grown is None or requested.low <= 0 or grown.high >= requested.low:
        return ""
    if grown.estimate < 0:
        return ""  # another owner shrinks: `rss_beside_leak` says which
    low, high = unit.format(max(grown.low, 0.0)), unit.format(grown.high)
    text = (
        f"{unit.format(requested.estimate)} are requested, RSS grows by {unit.format(grown.estimate)} "
        f"({low} to {high})"
    )
    blocks = sum(suspect.site.live_blocks.estimate for suspect in some)
    size = sum(suspect.site.live_bytes.estimate for suspect in some) / max(blocks, 1.0)
    if size >= _OWN_PAGES:
        text += f": blocks of {format_size(size)} take memory only where they are touched"
    return text


def _rss(recording: Recording) -> Estimate | None:
    """How fast RSS grows, over the same two thirds of the time that verdicts are about; None: not known."""
    known = recording.process[recording.process["rss_bytes"] > 0]
    if not len(known):
        return None
    found = trend(known["time"], known["rss_bytes"].astype(np.float64))
    return found.rate if found else None
