"""Stacks as a tree of calls, outermost first, for formats that write each common beginning once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

from offheap.formats.exported.content.samples import Samples
from offheap.recording.model import Frame

_Entry = TypeVar("_Entry", bound=Hashable)
Call = tuple[Frame, ...]  # the functions of one return address, innermost first: several where inlined


class CallTree:
    """calls    distinct, in the order in which stacks have them
    nodes    (place in calls, parent); a parent is a place in nodes, before its children; -1: outermost
    leaves   by stack of the samples: the node of its innermost call; -1: no frame is known
    """

    def __init__(self, samples: Samples) -> None:
        self.calls: list[Call] = []
        self.nodes: list[tuple[int, int]] = []
        self._call_numbers: dict[Call, int] = {}
        self._node_numbers: dict[tuple[int, int], int] = {}
        self.leaves = [self._leaf(list(samples.calls(place))) for place in range(len(samples.stacks))]

    def _leaf(self, calls: Sequence[Sequence[Frame]]) -> int:
        node = -1
        for call in reversed(calls):
            number = _number(self._call_numbers, self.calls, tuple(call))
            node = _number(self._node_numbers, self.nodes, (number, node))
        return node


def _number(numbers: dict[_Entry, int], entries: list[_Entry], entry: _Entry) -> int:
    number = numbers.setdefault(entry, len(entries))
    if number == len(entries):
        entries.append(entry)
    return number
