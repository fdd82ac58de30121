"""Where the events of a chunk begin: each begins with its size, so that one leads to the next.

A loop over millions of events is slow.  So the reader cuts a window into lanes and follows all lanes at the
same time, each from a place where an event seems to begin.  A lane counts only if the lane before it ends
exactly at its beginning; otherwise the reader follows the bytes between event by event.  The result is that
of the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offheap.errors import UserError
from offheap.formats.imported import source
from offheap.formats.imported.jfr.file.chunks import HEADER, Chunk
from offheap.formats.imported.jfr.file.varints import Places, Window

WINDOW = 8 << 20  # bytes of a chunk that are in memory at one time
_LANE = 4 << 10  # bytes
_SOUGHT = 128  # bytes of a lane in which an event must begin; most events have 20 to 40
_HOPS = 5  # events that must follow each other for a begin to count as one
_MOST_STEPS = 512  # events that are followed in a lane; most of 20 bytes have 200
_FAR = np.int32(1 << 30)  # behind any window
_HEAD = 16  # bytes: size and type of an event have 9 at most each, and 5 in practice
_LEAST = 2  # bytes of an event: size and type


@dataclass(frozen=True)
class Events:
    """The whole events in a window, in the order of the file.

    base    offset of the window in the chunk
    starts  places in the window; ends: those behind the events; bodies: behind size and type
    types   numbers of types
    """

    window: Window
    base: int
    starts: Places
    ends: Places
    bodies: Places
    types: NDArray[np.uint64]


def events(chunk: Chunk, types: NDArray[np.bool_]) -> Iterator[Events]:
    """All events of a chunk but those larger than a window, which are constants and metadata.

    `types`: by number up to 255, whether there is such a type.
    """
    at = HEADER
    while at < chunk.size:
        data = chunk.read(at, WINDOW)
        window = Window(data)
        last = at + len(data) >= chunk.size
        if not data:
            raise fault(chunk, at, "the chunk ends too early")
        starts = _starts(chunk, at, data, window, types)
        sizes, behind = window.short_integers(starts)
        ends = starts + np.minimum(sizes, np.uint64(chunk.size)).astype(np.int64)
        whole = (ends <= len(data)) & (last | (starts + _HEAD <= len(data)))
        count = len(starts) if whole.all() else int(np.argmin(whole))
        if count == 0:
            at += int(ends[0] - starts[0])
            if at > chunk.size:
                raise fault(chunk, at - int(ends[0]), "an event leaves its chunk")
            continue
        numbers, bodies = window.short_integers(np.minimum(behind[:count], len(data)))
        yield Events(window, at, starts[:count], ends[:count], bodies, numbers)
        at += int(ends[count - 1])


def fault(chunk: Chunk, offset: int, what: str) -> UserError:
    """`offset` in the chunk."""
    return source.fault(chunk.path, f"byte {chunk.at + offset:#x}", what)


def _starts(chunk: Chunk, base: int, data: bytes, window: Window, types: NDArray[np.bool_]) -> Places:
    lanes = _lanes(window, types)
    taken, lengths, ends = _follow(window, lanes)
    pieces: list[Places] = []
    at = lane = 0
    while at < len(data):
        while lane < len(lanes) and lanes[lane] < at:
            lane += 1
        if lane < len(lanes) and lanes[lane] == at and ends[lane] > at:
            # The lanes that join: the first gap is where a lane does not end at the beginning of the next.
            joined = ends[lane:-1] == lanes[lane + 1 :]
            until = lane + 1 + (len(joined) if joined.all() else int(np.argmin(joined)))
            for one in range(lane, until):
                pieces.append(taken[: lengths[one], one].astype(np.int64))
            at, lane = int(ends[until - 1]), until
        else:
            until = int(lanes[lane]) if lane < len(lanes) else len(data)
            if until == at:  # a lane that leads nowhere
                until = int(lanes[lane + 1]) if lane + 1 < len(lanes) else len(data)
            piece, at = _one_by_one(chunk, base, data, at, until)
            pieces.append(np.array(piece, np.int64))
    return np.concatenate(pieces)


def _one_by_one(chunk: Chunk, base: int, data: bytes, at: int, until: int) -> tuple[list[int], int]:
    """(begins from `at` to `until`, place behind the last)."""
    found = []
    while at < until:
        size = data[at]
        if size >= 0x80:
            size, shift = size & 0x7F, 7
            for byte in data[at + 1 : at + 9]:
                size |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
        if size < _LEAST and at + _HEAD <= len(data):
            raise fault(chunk, base + at, f"an event of {size} bytes")
        found.append(at)
        at += max(size, _LEAST)
    return found, at


def _lanes(window: Window, types: NDArray[np.bool_]) -> Places:
    """The first place of the window, and of each lane one at which an event seems to begin."""
    firsts = np.arange(_LANE, window.length - _LANE, _LANE, dtype=np.int64)
    # Such an event has one byte for its size and one for its type, as most events of async-profiler have.
    at = (firsts[:, None] + np.arange(_SOUGHT)).reshape(-1)
    alive = np.arange(len(at))
    place = at
    for _ in range(_HOPS):
        size = window.bytes[place]
        good = (size >= 4) & (size < 0x80) & types[window.bytes[place + 1]]
        alive, place = alive[good], place[good] + size[good]
    _, index = np.unique(alive // _SOUGHT, return_index=True)
    return np.concatenate((np.zeros(1, np.int64), at[alive[index]]))


def _follow(window: Window, lanes: Places) -> tuple[NDArray[np.int32], Places, Places]:
    """(begins of events [step, lane], how many of them are the lane's, where it ends).

    A lane ends at the beginning of the next lane or behind it; at its own beginning if it leads nowhere.
    """
    limits = np.append(lanes[1:], window.length).astype(np.int32)
    place = lanes.astype(np.int32)
    steps = [place.copy()]
    while len(steps) < _MOST_STEPS and (place < limits).any():
        # Behind the window there are zeros: a lane that reaches them stays there.
        size = window.bytes.take(place, mode="clip").astype(np.int32)
        long = np.flatnonzero(size >= 0x80)
        if len(long):
            values, _ = window.integers(np.minimum(place[long], window.length).astype(np.int64))
            size[long] = np.minimum(values, np.uint64(window.length)).astype(np.int32)
        np.add(place, size, out=place)
        np.minimum(place, _FAR, out=place)
        steps.append(place.copy())
    every = np.stack(steps)
    lengths = (every < limits).sum(axis=0)
    columns = np.arange(len(lanes))
    lost = lengths == len(steps)
    ends = every[np.where(lost, 0, lengths), columns].astype(np.int64)
    # An event without a size would count without end.
    stuck = (every[np.maximum(lengths - 1, 0), columns] == ends) | lost
    return every, lengths, np.where(stuck, lanes, ends)
