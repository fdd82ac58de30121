"""Where live memory is: the sites that hold it, most first."""

from __future__ import annotations

from dataclasses import dataclass

from offheap.analysis.sites.results import Live, Site
from offheap.analysis.sites.sites import sites
from offheap.analysis.stacks.blame import blamed
from offheap.analysis.stacks.namesakes import Mark, apart
from offheap.analysis.stacks.packages import Application
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.totals import totals
from offheap.recording.model import Frame, Info, Recording


@dataclass(frozen=True, slots=True)
class Held:
    """A site, the frame to look at, and its share (0..1) of live bytes of its kind: malloc's, or mappings.

    marks  what tells it from other sites of its name
    """

    site: Site
    blamed: Frame
    share: float
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """All sites that hold or held memory, most live bytes first, then most allocated."""

    info: Info
    live_bytes: Estimate
    live_blocks: Estimate
    live: Live
    allocated_bytes: Estimate
    held: tuple[Held, ...]

    def live_beyond(self, first: int) -> float:
        """The live bytes of all sites but the first ones."""
        return sum(held.site.live_bytes.estimate for held in self.held[first:])


def summary(recording: Recording) -> Summary:
    """The sites by live bytes."""
    live_bytes, live_blocks = totals.live(recording)
    by_kind = totals.live_by_kind(recording)
    known = [site for site in sites(recording) if site.live_bytes.high or site.allocated_bytes.high]
    known.sort(key=lambda site: (-site.live_bytes.estimate, -site.allocated_bytes.estimate))
    application = Application.of(recording.info)
    blamed_frames = [blamed(site.stack, application) for site in known]
    return Summary(
        info=recording.info,
        live_bytes=live_bytes,
        live_blocks=live_blocks,
        live=by_kind,
        allocated_bytes=totals.allocated(recording)[0],
        held=tuple(
            Held(site, frame, share(site, by_kind), marks)
            for site, frame, marks in zip(known, blamed_frames, apart(known, blamed_frames), strict=True)
        ),
    )


def share(site: Site, whole: Live) -> float:
    """The share of its kind's live bytes: malloc's blocks are nothing beside mapped address space."""
    return share_of(
        site.live_bytes.estimate, whole.mapped_bytes if site.kind == "mmap" else whole.malloc_bytes
    )


def share_of(part: float, whole: Estimate) -> float:
    """0 where there is nothing."""
    return part / whole.estimate if whole.estimate else 0.0
