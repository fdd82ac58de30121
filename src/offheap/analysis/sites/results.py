"""What analysis returns and reports render."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from offheap.analysis.statistics.estimate import Estimate
from offheap.recording.model import Frame


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
