"""Who holds the RSS of a live process, and what its blocks say: one answer on all screens of a live view.

A ranking knows the owners of its own recording.  A live file has none: the live view inspects the process
while the owners panel is open, and these readings are evidence like a recording's.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.leaks.leaks import Ranking
from offheap.analysis.leaks.owners_with_blocks import owners_with_blocks
from offheap.analysis.live.standing_verdict import hold
from offheap.analysis.owners.results import OwnersGrowth
from offheap.analysis.owners.verdict import judge
from offheap.recording.model import OwnersOverTime


def with_owners(
    ranked: Ranking, over: OwnersOverTime | None, series: NDArray[np.void] | None = None
) -> Ranking:
    """The ranking, concluded with these readings; what it says of sites stays.

    over    in seconds since the recording began; None: nobody read them, and what was counted beside owners
            says nothing about their pages
    series  newer than the ranking's own, to compare blocks with pages over the same time
    """
    recording = ranked.sites.recording
    if over is None:
        over = recording.owners if recording.owners.names else OwnersOverTime.none()
    if series is not None:
        known = len(recording.stack_offsets) - 1  # call paths that are newer have no site yet
        recording = replace(recording, series=series[series["stack"] < known])
    return replace(ranked, sites=replace(ranked.sites, recording=replace(recording, owners=over)))


def still_count(over: OwnersOverTime, time: float) -> bool:
    """Whether readings tell about `time`, seconds since the recording began: as long as a verdict stands."""
    return bool(len(over.times)) and time - over.times.item(-1) <= hold(time)


def owners_now(ranked: Ranking, over: OwnersOverTime, pid: int | None = None) -> OwnersGrowth:
    """Who holds RSS by these readings, with a verdict that does not contradict the ranking's."""
    found = judge(over, pid=pid)
    return owners_with_blocks(found, with_owners(ranked, over)) if len(over.times) else found
