"""The state of a recording at its last snapshot, as events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.leaks.leaks import ranking
from offheap.analysis.leaks.results import Suspect
from offheap.analysis.sites.sites import latest_rows
from offheap.analysis.stacks import frames
from offheap.analysis.stacks.blame import short
from offheap.analysis.stacks.origins import origins
from offheap.jfr.event_text import Event, LeakSuspect, NativeMemory, ResidentSet
from offheap.recording.model import MMAP, Frame, OwnersOverTime, Recording

# Each event costs a few hundred bytes of the JFR recording, each time.
_MOST_LIBRARIES = 20  # of each kind; what others hold is in one event
_MOST_SUSPECTS = 10
_MOST_OWNERS = 30
OTHERS, UNKNOWN = "others", "unknown"
_REPORTED = ("leak", "growing")


def events(recording: Recording) -> list[Event]:
    """Libraries by live bytes, suspects by rank, owners of RSS by bytes."""
    return [*native_memory(recording), *leak_suspects(recording), *resident_set(recording.owners)]


def native_memory(recording: Recording) -> Iterator[NativeMemory]:
    """By library and kind, memory that code outside the JVM holds and has allocated."""
    latest = latest_rows(recording)
    seen = np.flatnonzero(latest >= 0)
    external = seen[~origins(recording, seen).by_jvm]
    rows = recording.series[latest[external]]
    names, of_stack = libraries(recording)
    for kind, chosen in (("malloc", False), ("mmap", True)):
        its = (recording.stack_kinds[external] == MMAP) == chosen
        of = of_stack[external][its]
        live, blocks, allocated = (
            np.bincount(of, rows[column][its], len(names))
            for column in ("live_bytes", "live_blocks", "allocated_bytes")
        )
        order = np.lexsort((-allocated, -live))
        order = order[allocated[order] > 0]
        for number in order[:_MOST_LIBRARIES].tolist():
            figures = (round(float(column[number])) for column in (live, blocks, allocated))
            yield NativeMemory(names[number], kind, *figures)
        rest = order[_MOST_LIBRARIES:]
        if len(rest):
            sums = (round(float(column[rest].sum())) for column in (live, blocks, allocated))
            yield NativeMemory(OTHERS, kind, *sums)


def libraries(recording: Recording) -> tuple[list[str], NDArray[np.int64]]:
    """The libraries' names, and the index of each stack's own: of the innermost native frame that is no
    run time's."""
    owns = np.array([_is_owner(frame) for frame in recording.frames], np.bool_)
    modules = [frame.module if own else UNKNOWN for frame, own in zip(recording.frames, owns, strict=True)]
    names = sorted({UNKNOWN, *modules})
    numbers = {name: number for number, name in enumerate(names)}
    of_frame = np.array([numbers[module] for module in modules], np.int64)
    places = np.flatnonzero(owns[recording.stack_frames]) if len(owns) else np.zeros(0, np.int64)
    low, high = recording.stack_offsets[:-1], recording.stack_offsets[1:]
    of_stack = np.full(len(low), numbers[UNKNOWN], np.int64)
    if len(places):
        first = np.searchsorted(places, low)
        place = places[np.minimum(first, len(places) - 1)]
        found = (first < len(places)) & (place < high)
        of_stack[found] = of_frame[recording.stack_frames[place[found]]]
    return names, of_stack


def leak_suspects(recording: Recording) -> Iterator[LeakSuspect]:
    """The sites that leak or grow, the worst first, as `offheap leaks` would judge them now."""
    ranked = ranking(recording)
    found = [place for place, verdict in enumerate(ranked.verdicts) if verdict in _REPORTED]
    for place in found[:_MOST_SUSPECTS]:
        yield _suspect(ranked[place])


def _suspect(suspect: Suspect) -> LeakSuspect:
    site = suspect.site
    return LeakSuspect(
        rank=suspect.rank,
        verdict=suspect.verdict,
        confidence=suspect.confidence,
        kind=site.kind,
        site=short(suspect.blamed),
        library=next((frame.module for frame in site.stack if _is_owner(frame)), UNKNOWN),
        live=round(site.live_bytes.estimate),
        blocks=round(site.live_blocks.estimate),
        growth=round(suspect.growth_bytes_per_second.estimate),
        path=_path(site.stack),
    )


def _path(stack: Sequence[Frame]) -> str:
    return "\n".join(short(frame) for frame in stack[frames.allocating(stack) :])


def resident_set(owners: OwnersOverTime) -> Iterator[ResidentSet]:
    """The last reading, most bytes first."""
    if not len(owners.times):
        return
    last, total = owners.bytes[-1], round(float(owners.rss[-1]))
    for number in np.argsort(-last, kind="stable")[:_MOST_OWNERS].tolist():
        if last[number] > 0:
            yield ResidentSet(owners.names[number], round(float(last[number])), total)


def _is_owner(frame: Frame) -> bool:
    return frame.kind in ("native", "jvm") and bool(frame.module) and not frames.is_runtime(frame)
