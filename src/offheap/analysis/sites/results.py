"""The results of the analysis of sites, which reports render."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from offheap.analysis.statistics.estimate import Estimate
from offheap.recording.model import Frame

SiteKind = Literal["malloc", "mmap", "java"]


@dataclass(frozen=True, slots=True)
class Live:
    """Live memory, separately for malloc and mmap.

    Mappings count in full from mmap to munmap, touched or not: a JVM reserves address space for its
    whole heap at the start, so the sum of both is not comparable with RSS.
    """

    malloc_bytes: Estimate
    malloc_blocks: Estimate
    mapped_bytes: Estimate
    mappings: Estimate


@dataclass(frozen=True, slots=True)
class CallPath:
    """One stack of a site; its blocks have about one size.

    inner   frames up to the first that all stacks of the site share, innermost first
    """

    inner: tuple[Frame, ...]
    live_bytes: Estimate
    live_blocks: Estimate


@dataclass(frozen=True, slots=True)
class Site:
    """Stacks that share the caller that allocates: one line of every report.

    stack    the stack shown: of the member with the most live bytes, innermost first
    stacks   all members' numbers in the recording
    *_bytes, *_blocks  of all members
    paths    the members with live memory, the stack shown first, at most sites.MOST_PATHS
    shown    the number of the stack shown
    """

    kind: SiteKind
    stack: tuple[Frame, ...]
    stacks: tuple[int, ...]
    live_bytes: Estimate
    live_blocks: Estimate
    allocated_bytes: Estimate
    allocated_blocks: Estimate
    threads: tuple[str, ...]  # names, most live bytes first
    paths: tuple[CallPath, ...] = ()
    shown: int = 0

    @property
    def part_shown(self) -> CallPath | None:
        """The path of the stack shown; None if that stack holds all live memory of the site."""
        return self.paths[0] if len(self.paths) > 1 else None
