"""Address ranges that claim memory, and mappings cut along them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from offheap.analysis.owners.accounts import Owner


@dataclass(frozen=True, slots=True)
class Range:
    """Addresses [start, end) that belong to an owner; `name` is the line it makes below that owner."""

    start: int
    end: int
    owner: Owner
    name: str


class Claims:
    """Ranges that do not overlap: the range added first wins an address."""

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._starts: list[int] = []
        self._ranges: list[Range] = []
        self.add(ranges)

    def add(self, ranges: Iterable[Range]) -> None:
        """Claims the unclaimed parts of each range."""
        for wanted in ranges:
            for start, end, holder in list(self.cut(wanted.start, wanted.end)):
                if holder is None:
                    at = bisect_right(self._starts, start)
                    self._starts.insert(at, start)
                    self._ranges.insert(at, Range(start, end, wanted.owner, wanted.name))

    def cut(self, start: int, end: int) -> Iterator[tuple[int, int, Range | None]]:
        """[start, end) in pieces, each with the range that claims it or None, in order and without a gap."""
        at = max(bisect_right(self._starts, start) - 1, 0)
        while start < end:
            if at < len(self._ranges) and self._ranges[at].end <= start:
                at += 1
                continue
            if at == len(self._ranges) or self._ranges[at].start >= end:
                yield start, end, None
                return
            holder = self._ranges[at]
            if start < holder.start:
                yield start, holder.start, None
            yield max(start, holder.start), min(end, holder.end), holder
            start = holder.end
            at += 1
