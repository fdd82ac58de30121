"""Where boxes, labels and lines of a layered graph are, in pixels."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from offheap.report.callgraph.layers import Layers, layers

LABEL_HEIGHT = 16.0
_GAP = 18.0  # between neighbours of a layer
_LINE_GAP = 12.0  # where one of the two is a line that passes
_LEAST_STEP, _MOST_STEP = 26.0, 72.0  # between two layers
# A line is hard to follow if it runs so many times as far sideways as down: the layers move apart.
_SLOPE = 6.0
_SWEEPS = 24  # the places move by less than a pixel after some 15
_LEAST_ROW = 1200.0  # pixels: the width of rows of boxes without a call, or the width of the rest
_STRAIGHT = 4.0  # weight of the points of lines: a bend in a line costs more than a box beside its mean

Point = tuple[float, float]


@dataclass(frozen=True)
class EdgeLine:
    """points  down through the layers, two for each: where it enters and where it leaves
    label   the middle of its label
    up      it leads from the last point to the first
    """

    points: list[Point]
    label: Point
    up: bool


@dataclass(frozen=True)
class Places:
    """boxes: of each the left upper corner; lines: one for each call."""

    width: float
    height: float
    boxes: list[Point]
    lines: list[EdgeLine]


def places(
    boxes: Sequence[tuple[float, float]], calls: Sequence[tuple[int, int]], labels: Sequence[float]
) -> Places:
    """Where everything of a graph is, callers above what they call.

    boxes   (width, height) of each
    calls   (caller, callee), places in boxes, the most important first
    labels  the width of each call's label
    """
    linked = sorted({box for call in calls for box in call})
    at = {box: place for place, box in enumerate(linked)}
    found = _linked([boxes[box] for box in linked], [(at[a], at[b]) for a, b in calls], labels)
    corners: list[Point] = [(0.0, 0.0)] * len(boxes)
    for box in linked:
        corners[box] = found.boxes[at[box]]
    most, right, bottom = max(found.width, _LEAST_ROW), 0.0, found.height
    x, top = 0.0, found.height + (_MOST_STEP if linked else 0.0)
    for box in [box for box in range(len(boxes)) if box not in at]:
        width, height = boxes[box]
        if x and x + width > most:
            x, top = 0.0, bottom + _LEAST_STEP
        corners[box] = x, top
        x, right, bottom = x + width + _GAP, max(right, x + width), max(bottom, top + height)
    return Places(max(found.width, right), bottom, corners, found.lines)


def _linked(
    boxes: Sequence[tuple[float, float]], calls: Sequence[tuple[int, int]], labels: Sequence[float]
) -> Places:
    """Boxes that call or are called."""
    graph = layers(len(boxes), calls)
    widths = [width for width, _ in boxes] + [0.0] * (len(graph.rank) - len(boxes))
    for chain, label in zip(graph.chains, labels, strict=True):
        widths[chain[1]] = label
    middles = _middles(graph, widths, len(boxes))
    tops, bottoms = _bands(graph, middles, boxes)
    left = min((middle - width / 2 for middle, width in zip(middles, widths, strict=True)), default=0.0)
    right = max((middle + width / 2 for middle, width in zip(middles, widths, strict=True)), default=0.0)
    middles = [middle - left for middle in middles]
    corners = [(middles[box] - width / 2, tops[graph.rank[box]]) for box, (width, _) in enumerate(boxes)]
    ends = _ends(graph, middles, boxes)
    lines = []
    for number, chain in enumerate(graph.chains):
        first, last = ends[number]
        upper = graph.rank[chain[0]]
        points = [(first, tops[upper] + boxes[chain[0]][1]), (first, bottoms[upper])]
        for node in chain[1:-1]:
            points += [(middles[node], tops[graph.rank[node]]), (middles[node], bottoms[graph.rank[node]])]
        points.append((last, tops[graph.rank[chain[-1]]]))
        middle = middles[chain[1]], (tops[upper + 1] + bottoms[upper + 1]) / 2
        lines.append(EdgeLine(points, middle, graph.turned[number]))
    return Places(right - left, bottoms[-1] if bottoms else 0.0, corners, lines)


def _middles(graph: Layers, widths: Sequence[float], boxes: int) -> list[float]:
    """Puts each node as near to the mean of its neighbours as the widths of the other nodes allow."""
    above, below = graph.above, graph.below
    steps = [_steps(row, widths, boxes) for row in graph.rows]
    weights = [1.0 if node < boxes else _STRAIGHT for node in range(len(widths))]
    middles = [0.0] * len(widths)
    for row, step in zip(graph.rows, steps, strict=True):
        at = -sum(step) / 2
        for node, width in zip(row, [*step, 0.0], strict=True):
            middles[node] = at
            at += width
    for sweep in range(_SWEEPS):
        both = sweep >= _SWEEPS - 2
        downward = sweep % 2 == 0
        numbers = range(len(graph.rows)) if downward else range(len(graph.rows) - 1, -1, -1)
        for number in numbers:
            row = graph.rows[number]
            wanted = []
            for node in row:
                its = above[node] + below[node] if both else above[node] if downward else below[node]
                wanted.append(sum(middles[one] for one in its) / len(its) if its else middles[node])
            for node, middle in zip(
                row, _apart(wanted, steps[number], [weights[n] for n in row]), strict=True
            ):
                middles[node] = middle
    return middles


def _steps(row: Sequence[int], widths: Sequence[float], boxes: int) -> list[float]:
    """The least distances between the middles of neighbours."""
    found = []
    for left, right in itertools.pairwise(row):
        passes = min(widths[left], widths[right]) == 0.0
        found.append((widths[left] + widths[right]) / 2 + (_LINE_GAP if passes else _GAP))
    return found


def _apart(wanted: Sequence[float], steps: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The least squares of (place - wanted) where neighbours are `steps` apart: isotonic regression.

    Pool adjacent violators (M. Ayer and others, 1955), after the steps are subtracted.
    """
    offsets = [0.0]
    for step in steps:
        offsets.append(offsets[-1] + step)
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for place, offset, weight in zip(wanted, offsets, weights, strict=False):
        mean, members = place - offset, 1
        while pools and pools[-1][0] >= mean:
            other, its, more = pools.pop()
            mean = (mean * weight + other * its) / (weight + its)
            weight, members = weight + its, members + more
        pools.append((mean, weight, members))
    flat = [mean for mean, _, members in pools for _ in range(members)]
    return [mean + offset for mean, offset in zip(flat, offsets, strict=False)]


def _bands(
    graph: Layers, middles: Sequence[float], boxes: Sequence[tuple[float, float]]
) -> tuple[list[float], list[float]]:
    """Top and bottom of each layer: two layers are as far apart as lines between them run sideways."""
    aside = [0.0] * len(graph.rows)
    for chain in graph.chains:
        for upper, lower in itertools.pairwise(chain):
            rank = graph.rank[lower]
            aside[rank] = max(aside[rank], abs(middles[upper] - middles[lower]))
    tops: list[float] = []
    bottoms: list[float] = []
    for rank, row in enumerate(graph.rows):
        step = min(max(aside[rank] / _SLOPE, _LEAST_STEP), _MOST_STEP) if rank else 0.0
        tops.append(bottoms[-1] + step if rank else 0.0)
        high = max((boxes[node][1] for node in row if node < len(boxes)), default=LABEL_HEIGHT)
        bottoms.append(tops[-1] + high)
    return tops, bottoms


def _ends(
    graph: Layers, middles: Sequence[float], boxes: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    """Where each line leaves the upper box and where it meets the lower one: side by side."""
    leaving: list[list[int]] = [[] for _ in boxes]
    meeting: list[list[int]] = [[] for _ in boxes]
    for number, chain in enumerate(graph.chains):
        leaving[chain[0]].append(number)
        meeting[chain[-1]].append(number)

    def spread(numbers: list[int], box: int, neighbour: int) -> dict[int, float]:
        width = boxes[box][0]
        numbers = sorted(numbers, key=lambda one: middles[graph.chains[one][neighbour]])
        share = width / (len(numbers) + 1)
        return {one: middles[box] - width / 2 + share * at for at, one in enumerate(numbers, 1)}

    firsts: dict[int, float] = {}
    lasts: dict[int, float] = {}
    for box in range(len(boxes)):
        firsts.update(spread(leaving[box], box, 1))
        lasts.update(spread(meeting[box], box, -2))
    return [(firsts[number], lasts[number]) for number in range(len(graph.chains))]
