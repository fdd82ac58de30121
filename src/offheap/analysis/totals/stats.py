"""What was recorded, over what time, what was lost and what could not be seen."""

from __future__ import annotations

from dataclasses import dataclass

from offheap.analysis.sites.grouping import Grouping
from offheap.analysis.sites.results import Live
from offheap.analysis.sites.sites import group
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.totals import totals
from offheap.quantities import format_count
from offheap.recording.model import JAVA, Info, Recording

# Key of Info.lost -> what one of them is, singular and plural, and what it means for the answer.
_LOSSES: dict[str, tuple[str, str, str]] = {
    "lost_blocks": (
        "sampled block",
        "sampled blocks",
        "not recorded, the live table was full (--memory): live bytes too low",
    ),
    "lost_ranges": ("mapping", "mappings", "not recorded, the table of ranges was full or busy"),
    "lost_unmaps": (
        "munmap",
        "munmaps",
        "missed, the table of ranges was busy: mapped bytes may be too high",
    ),
    "lost_stacks": ("sample", "samples", "without a stack, the table of stacks was full"),
    "lost_methods": ("Java frame", "Java frames", "without a name, the table of methods was full"),
    "lost_strings": ("name", "names", "cut, the table of names was full"),
    "lost_threads": ("block", "blocks", "without its thread's name, the table of threads was full"),
    "lost_modules": ("module", "modules", "without a name, the table of modules was full"),
    "lost_unwinds": ("sample has", "samples have", "an incomplete native stack"),
    "lost_java": ("sample has", "samples have", "no Java frames"),
    "lost_reentries": ("sample", "samples", "skipped inside the probe"),
    "lost_objects": (
        "sampled Java object",
        "sampled Java objects",
        "not followed, there was no place: the live Java heap too low",
    ),
    "java_inexact": (
        "sample has",
        "samples have",
        "a compiled Java frame whose inlined methods are not known",
    ),
    "truncated": ("stack", "stacks", "cut at the depth limit"),
}

# Losses that leave memory out of every total.
_SAMPLES = ("lost_blocks", "lost_ranges", "lost_reentries")


@dataclass(frozen=True, slots=True)
class Stats:
    """One recording in figures.

    samples         of native memory
    object_samples  of Java objects; Info.joined counts both
    rss_bytes       at the first and the last snapshot, (0, 0) if not known
    """

    info: Info
    live_bytes: Estimate
    live_blocks: Estimate
    live: Live
    allocated_bytes: Estimate
    allocated_blocks: Estimate
    samples: int
    object_samples: int
    sites: int
    stacks: int
    frames: int
    threads: int
    modules: int
    snapshots: int
    rss_bytes: tuple[int, int]
    lost_samples: int
    losses: tuple[str, ...]  # sentences
    coverage: tuple[str, ...]


def stats(recording: Recording, grouping: Grouping | None = None) -> Stats:
    """The figures of a recording; `grouping` is its sites, if they are known already."""
    live_bytes, live_blocks = totals.live(recording)
    allocated_bytes, allocated_blocks = totals.allocated(recording)
    rss = recording.process["rss_bytes"]
    rss = rss[rss > 0]
    native = recording.stack_kinds != JAVA
    native[:1] = False  # "no stack"
    return Stats(
        info=recording.info,
        live_bytes=live_bytes,
        live_blocks=live_blocks,
        live=totals.live_by_kind(recording),
        allocated_bytes=allocated_bytes,
        allocated_blocks=allocated_blocks,
        samples=totals.samples(recording),
        object_samples=totals.samples(recording.java) if recording.java else 0,
        sites=sum(bool(native[members].any()) for members in (grouping or group(recording)).members),
        stacks=int(native.sum()),
        frames=len(recording.frames),
        threads=len(recording.threads),
        modules=len(recording.modules),
        snapshots=len(recording.process),
        rss_bytes=(int(rss[0]), int(rss[-1])) if len(rss) else (0, 0),
        lost_samples=lost_samples(recording.info),
        losses=losses(recording.info),
        coverage=recording.info.coverage,
    )


def lost_samples(info: Info) -> int:
    """Lost samples: memory that is missing from every total."""
    return sum(info.lost.get(key, 0) for key in _SAMPLES)


def losses(info: Info) -> tuple[str, ...]:
    """One sentence for each kind of loss; () when nothing is lost."""
    result = []
    for key, count in info.lost.items():
        one, many, meaning = _LOSSES.get(key, (key, key, "lost"))
        if count:
            result.append(f"{format_count(count)} {one if count == 1 else many} {meaning}")
    return tuple(result)
