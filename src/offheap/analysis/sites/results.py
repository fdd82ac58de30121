"""What analysis returns and reports render."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from offheap.recording.model import Frame

Verdict = Literal["leak", "growing", "steady", "startup", "freed", "cannot tell yet"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A quantity with its 95 % interval; low == estimate == high when it is exact."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Live:
    """What is live, apart by how it was asked for.

    Mappings count in full from mmap to munmap, touched or not: a JVM reserves address space for its
    whole heap at the start, so beside RSS the sum of the two would puzzle.
    """

    malloc_bytes: Estimate
    malloc_blocks: Estimate
    mapped_bytes: Estimate
    mappings: Estimate


@dataclass(frozen=True, slots=True)
class CallPath:
    """One of the stacks of a site; it makes blocks of about one size.

    inner   its frames up to the first that all stacks of the site share, innermost first
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
    paths    the members that hold something, the stack shown first, at most sites.MOST_PATHS
    shown    the number of the stack shown
    """

    kind: Literal["malloc", "mmap", "java"]
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
        """What the stack shown holds; None where it holds all that is live of the site."""
        return self.paths[0] if len(self.paths) > 1 else None


@dataclass(frozen=True, slots=True)
class Suspect:
    """A site with its verdict.  `why` is one sentence with the figures behind the verdict.

    called    the library's outermost method that `blamed` called, None where it called none
    triggers  of an agent's callback: the Java methods that ran when it was called, most live bytes first
    """

    rank: int
    verdict: Verdict
    confidence: float  # 0..1
    site: Site
    blamed: Frame  # the frame a person should look at: the application's, not the allocator's wrapper
    growth_bytes_per_second: Estimate
    # What the recording saw it grow by, where it freed nothing: without the chance by which births come.
    grown_bytes_per_second: Estimate
    old_bytes: Estimate  # live bytes born before the last fifth of the recording
    why: str
    # A Java object may own it, and no collection is known to have run that would have freed it.
    waits_for_gc: bool = False
    called: Frame | None = None
    triggers: tuple[Frame, ...] = ()
    seconds_to_limit: Estimate | None = None  # by this growth alone; None: no limit is known, or no growth
    next: str = ""  # what would tell, or bounds it; "" where nothing is known
