"""Totals of stacks as blocks that are born and freed at snapshots, for formats that have events alone.

The blocks of a stack that are live at the end share its live bytes, the other blocks its freed bytes.  A
block is born at the first snapshot that has it, and freed at the first snapshot that lacks it.  So each
snapshot has as many live blocks as in the recording; which blocks are live is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offheap.formats.exported.content.samples import Integers, Samples
from offheap.recording.model import Recording

# Births and frees of a file: 14 MB of heaptrack's text, which its programs read in a second.  Beyond it one
# block stands for several: bytes stay what they are, and only numbers of blocks are less.
MOST_EVENTS = 2_000_000


class EqualBlocks(NamedTuple):
    size: int  # bytes of each
    number: int


@dataclass
class SnapshotChanges:
    """What happened until a snapshot, by place of the stack in `Samples.stacks`.

    time     seconds since the start
    freed    born at an earlier snapshot
    passing  born and freed since the last snapshot
    born     live at this snapshot
    """

    time: float
    freed: list[tuple[int, EqualBlocks]] = field(default_factory=list)
    passing: list[tuple[int, EqualBlocks]] = field(default_factory=list)
    born: list[tuple[int, EqualBlocks]] = field(default_factory=list)


def births_and_frees(samples: Samples, most: int = MOST_EVENTS) -> list[SnapshotChanges]:
    """Changes by time; the last are those until the end of the recording."""
    recording = samples.recording
    series, process = recording.series, recording.process
    end = max(recording.info.duration_seconds, *series["time"].tolist()[-1:], 0.0)
    times = np.unique(np.concatenate((series["time"], process["time"], [end])))
    moments = [SnapshotChanges(time) for time in times.tolist()]
    live, allocated = samples.values["inuse_objects"], samples.values["alloc_objects"]
    live_bytes, allocated_bytes = samples.values["inuse_space"], samples.values["alloc_space"]
    stay = _Kind(live, live_bytes)
    go = _Kind(allocated - live, allocated_bytes - live_bytes)
    events = float(stay.count.sum()) + 2 * float(go.count.sum())
    if events > most:
        stay.merge(most / events)
        go.merge(most / events)
    for place, (at, held, every) in enumerate(_levels(recording, times, samples.stacks)):
        held, every = np.append(held, live[place]), np.append(every, allocated[place])
        at = np.append(at, len(times) - 1)
        # The blocks that a stack holds from a snapshot to the end may be those that stay.
        kept = np.minimum.accumulate(held[::-1])[::-1]
        born = np.maximum.accumulate(np.maximum(every - kept, 0))
        gone = np.maximum.accumulate(born - np.minimum(held - kept, born))
        births = stay.upto(place, kept)
        _add(moments, at, place, stay.sizes(place), births, np.zeros_like(births))
        _add(moments, at, place, go.sizes(place), go.upto(place, born), go.upto(place, gone))
    return moments


class _Kind:
    """The blocks of each stack that stay, or those that go; their sizes differ by a byte at most."""

    def __init__(self, known: Integers, size: Integers) -> None:
        self._known = known
        self.count = np.maximum(known, size > 0).astype(np.int64)
        self._bytes = size

    def merge(self, share: float) -> None:
        some = self.count > 0
        self.count = np.where(some, np.maximum((self.count * share).astype(np.int64), 1), 0)

    def sizes(self, place: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """(size, how many) of the larger blocks and of the others."""
        count, size = int(self.count[place]), int(self._bytes[place])
        if not count:
            return (0, 0), (0, 0)
        floor, larger = divmod(size, count)
        return (floor + 1, larger), (floor, count - larger)

    def upto(self, place: int, level: Integers) -> Integers:
        """The share of `count` that `level` has of the number before `merge`; all of them at the end."""
        known = max(int(self._known[place]), 1)
        part: Integers = np.rint(np.clip(level / known, 0.0, 1.0) * self.count[place]).astype(np.int64)
        part[-1] = self.count[place]
        return part


def _add(
    moments: Sequence[SnapshotChanges],
    at: Integers,
    place: int,
    sizes: tuple[tuple[int, int], tuple[int, int]],
    births: Integers,
    frees: Integers,
) -> None:
    """Blocks are born, and freed, the larger ones first."""
    first = 0
    for size, count in sizes:
        born = np.diff(np.clip(births - first, 0, count), prepend=0)
        freed = np.diff(np.clip(frees - first, 0, count), prepend=0)
        first += count
        for moment in np.flatnonzero((born > 0) | (freed > 0)).tolist():
            added, less = int(born[moment]), int(freed[moment])
            both = min(added, less)
            target = moments[int(at[moment])]
            for found, number in (
                (target.freed, less - both),
                (target.passing, both),
                (target.born, added - both),
            ):
                if number:
                    found.append((place, EqualBlocks(size, number)))


def _levels(
    recording: Recording, times: NDArray[np.float64], stacks: Sequence[int]
) -> list[tuple[Integers, Integers, Integers]]:
    """By place of a stack: places in `times`, live blocks and blocks ever allocated until then."""
    series = recording.series
    rows = series[np.argsort(series["stack"], kind="stable")]  # by time already
    numbers = np.array(stacks, np.int64)
    low = np.searchsorted(rows["stack"], numbers, "left").tolist()
    high = np.searchsorted(rows["stack"], numbers, "right").tolist()
    at = np.searchsorted(times, rows["time"])

    def whole(name: str) -> Integers:
        found: Integers = np.rint(np.clip(np.nan_to_num(rows[name]), 0, 1 << 62)).astype(np.int64)
        return found

    live, allocated = whole("live_blocks"), whole("allocated_blocks")
    return [(at[a:b], live[a:b], allocated[a:b]) for a, b in zip(low, high, strict=True)]
