"""Where live memory is: the sites that hold it, most first."""

from __future__ import annotations

from dataclasses import dataclass

from offheap.analysis import frames, totals
from offheap.analysis.results import Estimate, Live, Site
from offheap.analysis.sites import sites
from offheap.recording.model import Frame, Info, Recording


@dataclass(frozen=True, slots=True)
class Held:
    """A site, the frame to look at, and its share (0..1) of all live bytes."""

    site: Site
    blamed: Frame
    share: float


@dataclass(frozen=True, slots=True)
class Summary:
    """All sites that hold or held memory, most live bytes first, then most allocated."""

    info: Info
    live_bytes: Estimate
    live_blocks: Estimate
    live: Live
    allocated_bytes: Estimate
    held: tuple[Held, ...]


def summary(recording: Recording) -> Summary:
    """The sites by live bytes."""
    live_bytes, live_blocks = totals.live(recording)
    known = [site for site in sites(recording) if site.live_bytes.high or site.allocated_bytes.high]
    known.sort(key=lambda site: (-site.live_bytes.estimate, -site.allocated_bytes.estimate))
    whole = live_bytes.estimate
    return Summary(
        info=recording.info,
        live_bytes=live_bytes,
        live_blocks=live_blocks,
        live=totals.live_by_kind(recording),
        allocated_bytes=totals.allocated(recording)[0],
        held=tuple(
            Held(site, frames.blamed(site.stack), site.live_bytes.estimate / whole if whole else 0.0)
            for site in known
        ),
    )
