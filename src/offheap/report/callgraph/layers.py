"""A graph in layers, callers above what they call, as K. Sugiyama, S. Tagawa and M. Toda draw it (1981).

Box layers have even numbers.  The layers between them hold the labels of calls, so that no label lies on
another one or on a box.  A call that passes a layer has a point of its own there.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

_SWEEPS = 16  # down and up; most graphs of 60 boxes do not change after 6


@dataclass
class Layers:
    """rank    of each node: first the boxes, in their order, then points of calls
    rows    nodes of each layer, from left to right
    chains  of each call the nodes from the upper box to the lower one
    turned  which calls lead upwards: those that close a cycle
    """

    rank: list[int]
    rows: list[list[int]] = field(default_factory=list)
    chains: list[list[int]] = field(default_factory=list)
    turned: list[bool] = field(default_factory=list)

    @property
    def above(self) -> list[list[int]]:
        """The neighbours of each node in the layer above."""
        found: list[list[int]] = [[] for _ in self.rank]
        for chain in self.chains:
            for upper, lower in itertools.pairwise(chain):
                found[lower].append(upper)
        return found

    @property
    def below(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in self.rank]
        for chain in self.chains:
            for upper, lower in itertools.pairwise(chain):
                found[upper].append(lower)
        return found


def layers(count: int, calls: Sequence[tuple[int, int]]) -> Layers:
    """Layers of boxes 0..count-1; calls (caller, callee) have the most important first; none calls itself."""
    turned = _closing(count, calls)
    downward = [(b, a) if up else (a, b) for (a, b), up in zip(calls, turned, strict=True)]
    result = Layers([2 * rank for rank in _ranks(count, downward)], turned=turned)
    for upper, lower in downward:
        chain = [upper]
        for rank in range(result.rank[upper] + 1, result.rank[lower]):
            chain.append(len(result.rank))
            result.rank.append(rank)
        result.chains.append([*chain, lower])
    _order(result, count)
    return result


def _closing(count: int, calls: Sequence[tuple[int, int]]) -> list[bool]:
    """Which calls lead back to a box on the path that a walk from the callers takes."""
    going: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    called = [False] * count
    for number, (caller, callee) in enumerate(calls):
        going[caller].append((callee, number))
        called[callee] = True
    closing = [False] * len(calls)
    state = [0] * count  # 1: on the path, 2: left
    # First the boxes without a caller; then boxes that lie on cycles only.
    for start in sorted(range(count), key=lambda box: called[box]):
        pending = [(start, 0)] if state[start] == 0 else []
        while pending:
            box, at = pending.pop()
            state[box] = 1
            if at == len(going[box]):
                state[box] = 2
                continue
            pending.append((box, at + 1))
            callee, number = going[box][at]
            if state[callee] == 1:
                closing[number] = True
            elif state[callee] == 0:
                pending.append((callee, 0))
    return closing


def _ranks(count: int, downward: Sequence[tuple[int, int]]) -> list[int]:
    """The longest path from a box without a caller; such boxes are at the top."""
    callees: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for upper, lower in downward:
        callees[upper].append(lower)
        waiting[lower] += 1
    ranks = [0] * count
    ready = [box for box in range(count) if waiting[box] == 0]
    while ready:
        box = ready.pop()
        for lower in callees[box]:
            ranks[lower] = max(ranks[lower], ranks[box] + 1)
            waiting[lower] -= 1
            if waiting[lower] == 0:
                ready.append(lower)
    return ranks


def _order(result: Layers, count: int) -> None:
    """Rows with few crossings: each node at the mean of its neighbours, downwards and upwards in turn."""
    rows: list[list[int]] = [[] for _ in range(max(result.rank, default=-1) + 1)]
    above, below = result.above, result.below
    met = [False] * len(result.rank)
    for start in sorted(range(count), key=lambda box: result.rank[box]):
        pending = [start]
        while pending:
            node = pending.pop()
            if not met[node]:
                met[node] = True
                rows[result.rank[node]].append(node)
                pending += reversed(below[node])
    best, least = [list(row) for row in rows], _crossings(rows, below)
    for sweep in range(_SWEEPS):
        if least == 0:
            break
        neighbours, order = (above, rows) if sweep % 2 == 0 else (below, rows[::-1])
        for fixed, row in itertools.pairwise(order):
            place = {node: at for at, node in enumerate(fixed)}
            here = {node: at for at, node in enumerate(row)}
            means = {
                node: sum(place[one] for one in neighbours[node]) / len(neighbours[node])
                if neighbours[node]
                else here[node]
                for node in row
            }
            row.sort(key=lambda node: (means[node], here[node]))
        crossings = _crossings(rows, below)
        if crossings < least:
            best, least = [list(row) for row in rows], crossings
    result.rows = best


def _crossings(rows: Sequence[Sequence[int]], below: Sequence[Sequence[int]]) -> int:
    total = 0
    for row, lower in itertools.pairwise(rows):
        place = {node: at for at, node in enumerate(lower)}
        ends: list[int] = []
        for node in row:
            its = sorted(place[one] for one in below[node])
            total += sum(1 for end in ends for one in its if end > one)
            ends += its
    return total
