"""Puts the tables of a Profile together from stacks and their totals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offheap.errors import UserError
from offheap.formats.imported import source
from offheap.formats.imported.profile import Profile
from offheap.recording import allowance
from offheap.recording.model import LIVE, MALLOC, PROCESS, SERIES, Frame, Module

# Rows of LIVE: 240 MB.  With more blocks, one row stands for a group of blocks.
MOST_ROWS = 8_000_000
# Limits of one profile: ten times what a large server's profiles have.  Each costs some 200 bytes and more.
MOST_STACKS = 2_000_000
MOST_FRAMES = 20_000_000  # in all stacks together
# Different ones: each takes some 400 bytes with its names.  A large JVM's profile has 100,000.
MOST_DISTINCT_FRAMES = 1_000_000
# Frames of one stack of a text; the deepest that one of the tools records has 500 (Valgrind).
DEEPEST = 4096
# Bytes in memory, with what is made of them later: a function and its place, a stack and each of its frames,
# a stack's total at one time and its row.
_FRAME_BYTES, _STACK_BYTES, _PLACE_BYTES, TOTAL_BYTES = 300, 300, 24, 400
_LETTER_BYTES = 4  # of a name in any language
# A row of LIVE, and what is in memory while the rows are made.
_ROW_BYTES = 128
# Seconds: between files that several threads write at once; of a series, as long as copying it may take.
_AT_ONCE, _COPIED = 0.5, 1.0
_LEAST = 1e-6  # between two files: their times in the tables differ
GROUPED = (
    f"The file counts more live blocks than {MOST_ROWS:,}, or than OFFHEAP_READ_MEMORY allows: counts of "
    "blocks of one stack are kept in its totals, and a row of the live blocks stands for several"
)


class Total(NamedTuple):
    """A stack at one time.  `allocated_*`: since the start, freed blocks too; not below what is live."""

    live_blocks: float
    live_bytes: float
    allocated_blocks: float = 0.0
    allocated_bytes: float = 0.0


@dataclass
class TotalsAtTime:
    """What one file, or one snapshot of a file, says.  `totals` by stack number; stacks may change or not.

    time       seconds since the first moment
    totals     of the stacks that changed; `complete`: of all that hold anything
    rss_bytes  0 if not known
    """

    time: float
    totals: dict[int, Total]
    complete: bool = True
    rss_bytes: int = 0


@dataclass
class StackTable:
    """Distinct frames and distinct stacks; the numbers of stacks begin at 1.

    taken  bytes that they take, and what readers add with `charge`; at most `most`
    """

    path: Path
    frames: dict[Frame, int] = field(default_factory=dict)
    stacks: dict[tuple[tuple[int, ...], int], int] = field(default_factory=dict)
    length: int = 0
    taken: int = 0
    most: int = field(default_factory=allowance.limit)

    def charge(self, size: int) -> None:
        """UserError when so many bytes more exceed the memory that reading may take."""
        self.taken += size
        if self.taken > self.most:
            raise allowance.too_large(self.path)

    def frame(self, frame: Frame) -> int:
        """Its place in the list of frames."""
        place = self.frames.get(frame)
        if place is None:
            if len(self.frames) >= MOST_DISTINCT_FRAMES:
                raise UserError(
                    f"{self.path} has more than {MOST_DISTINCT_FRAMES:,} different functions",
                    "import a part of it",
                )
            self.charge(_FRAME_BYTES + _LETTER_BYTES * (len(frame.name) + len(frame.file)))
            place = self.frames[frame] = len(self.frames)
        return place

    def stack(self, places: Iterable[int], kind: int = MALLOC) -> int:
        """The number of a stack of places of frames, innermost first."""
        # Calls that several stacks share may have any number of frames each.
        key = (tuple(islice(places, MOST_FRAMES + 1)), kind)
        number = self.stacks.get(key)
        if number is None:
            self.length += len(key[0])
            if len(self.stacks) >= MOST_STACKS or self.length > MOST_FRAMES:
                raise UserError(
                    f"{self.path} has more than {MOST_STACKS:,} stacks, or {MOST_FRAMES:,} frames in them",
                    "import a part of it",
                )
            self.charge(_STACK_BYTES + _PLACE_BYTES * len(key[0]))
            number = self.stacks[key] = len(self.stacks) + 1
        return number

    def at(self, time: float, totals: dict[int, Total]) -> TotalsAtTime:
        """All that holds anything at that time, for a reader that keeps several times."""
        self.charge(TOTAL_BYTES * len(totals))
        return TotalsAtTime(time, totals)

    def of_frames(self, frames: Iterable[Frame], kind: int = MALLOC) -> int:
        """The number of a stack of frames, innermost first."""
        return self.stack(map(self.frame, frames), kind)


def add_frame(frames: list[Frame], frame: Frame, path: Path, line: int) -> None:
    """Appends a frame to a stack that is being read; UserError when it is deeper than DEEPEST."""
    if len(frames) >= DEEPEST:
        raise source.fault(path, f"line {line}", f"a stack of more than {DEEPEST:,} frames")
    frames.append(frame)


def profile(
    name: str,
    stacks: StackTable,
    moments: Iterable[TotalsAtTime],
    *,
    live: NDArray[np.void] | None = None,
    lacks: Sequence[str] = (),
    start: float = 0.0,
    pid: int = 0,
    program: str = "",
    modules: Sequence[Module] = (),
) -> Profile:
    """The Profile of these moments, ascending in time; without `live` its rows are made from the totals."""
    series, process, last, first = _tables(moments)
    sentences = list(lacks)
    if live is None:
        live, grouped = blocks(last, first)
        if grouped:
            sentences.append(GROUPED)
    return Profile(
        name,
        list(stacks.frames),
        [places for places, _ in stacks.stacks],
        np.array([kind for _, kind in stacks.stacks], np.uint8),
        live,
        series,
        process,
        lacks=tuple(sentences),
        start=start,
        pid=pid,
        program=program,
        modules=list(modules),
    )


def times_of(given: Sequence[float]) -> tuple[list[float], float, str]:
    """(seconds since the first, the first since the epoch, what is lacking) of the times of a series' files.

    Two files of one instant are no fault, nor are two that were written at the same time and end in reverse
    order: the later file gets the least time after the other.  Copied files all have the time of the copy;
    there the order of the files stands for the time.
    """
    lags = [earlier - later for earlier, later in pairwise(given)]
    if not lags or (max(lags) <= _AT_ONCE and given[-1] - given[0] > _COPIED):
        times = [0.0]
        times += [time - given[0] for time in given[1:]]
        for place in range(1, len(times)):
            times[place] = max(times[place], times[place - 1] + _LEAST)
        return times, given[0], ""
    return (
        [float(place) for place in range(len(given))],
        given[0],
        "The files' times do not ascend, or lie within a second (copies without their times?): each is taken "
        "as one second after the one before, so that a rate per second is a rate per file",
    )


def blocks(totals: dict[int, Total], first: dict[int, float]) -> tuple[NDArray[np.void], bool]:
    """(LIVE rows of each stack's mean size, whether a row may stand for several blocks)."""
    numbers = sorted(
        number for number, total in totals.items() if total.live_bytes > 0 or total.live_blocks > 0
    )
    counts = np.array([max(1.0, round(totals[number].live_blocks)) for number in numbers])
    sizes = np.array([totals[number].live_bytes for number in numbers])
    most = min(MOST_ROWS, allowance.limit() // _ROW_BYTES)
    grouped = bool(counts.sum() > most)
    if grouped:
        counts = np.maximum(1.0, np.floor(counts * (most / counts.sum())))
    rows = counts.astype(np.int64)
    live = np.zeros(int(rows.sum()), LIVE)
    live["stack"] = np.repeat(np.array(numbers, np.uint32), rows)
    live["birth"] = np.repeat(np.array([first[number] for number in numbers], np.float64), rows)
    live["probability"] = 1.0
    # The remainder goes to the first blocks, a byte each, so that the sum is the total.
    whole = np.floor(sizes).astype(np.uint64)
    base, over = np.divmod(whole, np.maximum(rows, 1).astype(np.uint64))
    place = np.arange(len(live), dtype=np.int64) - np.repeat(np.cumsum(rows) - rows, rows)
    live["size"] = np.repeat(base, rows) + (place < np.repeat(over.astype(np.int64), rows))
    return live, grouped


def _tables(
    moments: Iterable[TotalsAtTime],
) -> tuple[NDArray[np.void], NDArray[np.void], dict[int, Total], dict[int, float]]:
    """(SERIES, PROCESS, the totals at the end, when each stack came first); holds one moment at a time."""
    now: dict[int, Total] = {}
    first: dict[int, float] = {}
    series: list[NDArray[np.void]] = [np.zeros(0, SERIES)]
    process: list[tuple[float, ...]] = []
    live_blocks = live_bytes = allocated_bytes = 0.0
    for moment in moments:
        changed = {}
        for number, total in moment.totals.items():
            changed[number] = _not_below(total, now.get(number))
            first.setdefault(number, moment.time)
        if moment.complete:
            for number, total in now.items():
                if number not in moment.totals:
                    changed[number] = total._replace(live_blocks=0.0, live_bytes=0.0)
        rows = []
        for number, total in sorted(changed.items()):
            before = now.get(number, Total(0, 0))
            if total != before:
                rows.append((moment.time, number, *total))
            live_blocks += total.live_blocks - before.live_blocks
            live_bytes += total.live_bytes - before.live_bytes
            allocated_bytes += total.allocated_bytes - before.allocated_bytes
        now.update(changed)
        series.append(_series(rows))
        process.append((moment.time, moment.rss_bytes, live_bytes, live_blocks, allocated_bytes, 0))
    return np.concatenate(series), np.array(process, PROCESS), now, first


def _series(rows: Sequence[tuple[float, ...]]) -> NDArray[np.void]:
    series = np.zeros(len(rows), SERIES)
    if rows:
        columns = np.array(rows, float)
        names = ("time", "stack", "live_blocks", "live_bytes", "allocated_blocks", "allocated_bytes")
        for column, name in enumerate(names):
            series[name] = columns[:, column]
        series["samples"] = np.minimum(series["allocated_blocks"], 2.0**63).astype(np.uint64)
    return series


def _not_below(total: Total, before: Total | None) -> Total:
    """Allocated amounts never fall, and are at least what is live: the least that the file allows to say."""
    blocks, size = (
        max(total.allocated_blocks, total.live_blocks),
        max(total.allocated_bytes, total.live_bytes),
    )
    if before:
        blocks, size = max(blocks, before.allocated_blocks), max(size, before.allocated_bytes)
    return Total(total.live_blocks, total.live_bytes, blocks, size)
