"""Checks of profiles that readers of other tools' files give."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from harness.paths import TESTS
from offheap.errors import UserError
from offheap.formats.imported.profile import Profile
from offheap.recording.model import JAVA, Frame

SAMPLES = TESTS / "formats" / "samples"
# Where a fault is: a line, an offset, or the type of JFR's metadata that names what the file lacks.
PLACE = re.compile(r"(?:line \d+|byte 0x[0-9a-f]+(?: of 0x[0-9a-f]+)?|metadata of type \d+): ")
# What is true of a file as a whole, and not of a place in it.
OF_ALL = (
    " has no events of native memory",
    " is not a profile of memory: its values are ",
    " is not read by memray: ",
    " was written by another version of memray",
    " are of several processes",
    " has more than ",
)


class Reader(Protocol):
    """A module of offheap.formats.imported."""

    FORMAT: str

    def recognises(self, head: bytes) -> bool: ...
    def read(self, files: Sequence[Path]) -> Profile: ...


def check(profile: Profile) -> Profile:
    """AssertionError where the tables of a profile contradict each other."""
    count = len(profile.stacks)
    assert len(set(profile.frames)) == len(profile.frames)
    assert all(frame.name for frame in profile.frames)
    assert all(0 <= place < len(profile.frames) for places in profile.stacks for place in places)
    assert profile.kinds.shape == (count,)
    for table in (profile.live, profile.series):
        assert ((table["stack"] >= 1) & (table["stack"] <= count)).all()
    assert (np.diff(profile.series["time"]) >= 0).all()
    assert (np.diff(profile.process["time"]) > 0).all()
    assert (profile.series["live_bytes"] >= 0).all()
    assert (profile.series["live_bytes"] <= profile.series["allocated_bytes"]).all()
    assert profile.lacks
    ends = last(profile)
    weights = profile.live["size"] / profile.live["probability"]
    sums = np.bincount(profile.live["stack"], weights, count + 1)
    for number, size in enumerate(sums):
        assert abs(size - (ends[number][1] if number in ends else 0.0)) < 1 + 1e-9 * size, number
    if len(profile.process):
        # The process's rows are of native memory.
        total = sum(size for number, (_, size) in ends.items() if profile.kinds[number - 1] != JAVA)
        assert abs(profile.process[-1]["live_bytes"] - total) < 1 + 1e-9 * total
    return profile


def last(profile: Profile) -> dict[int, tuple[float, float]]:
    """(blocks, bytes) live at the end, by stack number."""
    return {
        int(row["stack"]): (float(row["live_blocks"]), float(row["live_bytes"])) for row in profile.series
    }


def stacks_of(profile: Profile, function: str) -> Iterator[tuple[int, list[Frame]]]:
    """(number, frames innermost first) of the stacks that have a function of this name."""
    for number, places in enumerate(profile.stacks, 1):
        frames = [profile.frames[place] for place in places]
        if any(frame.name == function for frame in frames):
            yield number, frames


def held_by(profile: Profile, function: str) -> tuple[float, float]:
    """(blocks, bytes) live at the end of all stacks that have a function of this name."""
    ends = last(profile)
    found = [ends.get(number, (0.0, 0.0)) for number, _ in stacks_of(profile, function)]
    return sum(blocks for blocks, _ in found), sum(size for _, size in found)


def outcome(reader: Reader, path: Path) -> Profile | str:
    """The checked profile, or the message of the UserError, which names the file and the place in it.

    Any other error is the test's.
    """
    try:
        profile = reader.read([path])
    except UserError as error:
        what = error.what
    else:
        return check(profile)
    rest = what.partition(str(path))[2]
    assert PLACE.match(rest, 2) or rest.startswith(OF_ALL), what
    return what
