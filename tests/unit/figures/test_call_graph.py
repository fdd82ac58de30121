"""The call graph: its figures against sums over stacks, its layout against overlaps, its picture as XML."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import simulation
from harness.screens.report_pages import HOSTILE
from harness.simulation import stacks as made
from offheap.analysis.totals import totals
from offheap.analysis.totals.call_graph import MOST_BOXES, CallGraph, call_graph
from offheap.recording.model import LIVE, SERIES, Frame, Recording
from offheap.report.callgraph.places import LABEL_HEIGHT, places
from offheap.report.callgraph.svg import MARK, svg

SVG = "{http://www.w3.org/2000/svg}"


def recorded(held: dict[tuple[Frame, ...], int], kinds: list[int] | None = None) -> Recording:
    """Each stack, innermost first, holds one block of so many bytes, and every block is known."""
    live = np.zeros(len(held), LIVE)
    live["stack"], live["size"] = np.arange(1, len(held) + 1), list(held.values())
    live["probability"] = 1.0
    series = np.zeros(len(held), SERIES)
    for name in ("stack", "live_bytes", "allocated_bytes"):
        series[name] = live["stack" if name == "stack" else "size"]
    return simulation.build(
        [(), *held],
        [0, *(kinds or [1] * len(held))],
        ["worker"],
        live,
        series,
        duration=1,
        interval=0,
        times=np.ones(1),
    )


def box(graph: CallGraph, name: str) -> int:
    (place,) = (at for at, one in enumerate(graph.boxes) if name in [its.name for its in one.functions])
    return place


MALLOC = Frame("malloc", "native")
MAIN, LEFT, RIGHT, DEEP = (
    made.java(f"com.example.Shop.{name}") for name in ("main", "left", "right", "deep")
)


def test_own_and_total_bytes_and_calls() -> None:
    graph = call_graph(
        recorded(
            {
                (MALLOC, MAIN): 100,
                (MALLOC, LEFT, MAIN): 300,
                (MALLOC, DEEP, LEFT, MAIN): 200,
                (MALLOC, DEEP, RIGHT, MAIN): 400,
            }
        )
    )
    figures = {one.functions[-1].name.rpartition(".")[2]: one for one in graph.boxes}
    assert {name: (one.own.malloc, one.total.malloc) for name, one in figures.items()} == {
        "main": (100, 1000),
        "left": (300, 500),
        "right": (0, 400),
        "deep": (600, 600),
    }
    calls = {(graph.boxes[one.caller], graph.boxes[one.callee]): one.amount.malloc for one in graph.calls}
    assert calls[figures["main"], figures["left"]] == 500
    assert calls[figures["left"], figures["deep"]] == 200
    assert calls[figures["right"], figures["deep"]] == 400
    assert graph.left_out == 0


def test_functions_that_pass_memory_on_share_a_box() -> None:
    graph = call_graph(recorded({(MALLOC, DEEP, RIGHT, LEFT, MAIN): 10}))
    (only,) = graph.boxes
    assert only.functions == (MAIN, LEFT, RIGHT, DEEP)
    assert only.own == only.total
    assert graph.calls == ()


def test_recursion_counts_a_block_once_and_closes_a_circle() -> None:
    graph = call_graph(recorded({(MALLOC, LEFT, RIGHT, LEFT, RIGHT, MAIN): 10, (MALLOC, RIGHT, MAIN): 5}))
    left, right = (graph.boxes[box(graph, frame.name)] for frame in (LEFT, RIGHT))
    assert (left.total.malloc, right.total.malloc) == (10, 15)
    pairs = {(graph.boxes[one.caller], graph.boxes[one.callee]) for one in graph.calls}
    assert {(left, right), (right, left)} <= pairs
    assert 'class="cg-call cg-up"' in svg(graph)
    assert "Red: calls that lead back up" in svg(graph)


def test_what_is_left_out_is_passed_through() -> None:
    held: dict[tuple[Frame, ...], int] = {(MALLOC, LEFT, MAIN): 1000}
    held |= {(MALLOC, DEEP, made.java(f"com.example.Part{at}.call"), MAIN): 10 for at in range(200)}
    graph = call_graph(recorded(held))
    (call,) = (one for one in graph.calls if one.callee == box(graph, DEEP.name))
    assert call.caller == box(graph, MAIN.name)
    assert (call.amount.malloc, call.direct) == (2000, False)
    assert graph.left_out == 200
    assert 'class="cg-call cg-indirect"' in svg(graph)
    assert "Red: " not in svg(graph)


def test_mappings_have_shares_of_their_own() -> None:
    graph = call_graph(
        recorded({(MALLOC, LEFT, MAIN): 10, (Frame("mmap", "native"), DEEP, MAIN): 1 << 30}, [1, 2])
    )
    small, large = graph.boxes[box(graph, LEFT.name)], graph.boxes[box(graph, DEEP.name)]
    assert (small.total.malloc, small.total.share) == (10, 1.0)
    assert (large.total.mapped, large.total.share) == (1 << 30, 1.0)
    assert "1.0 GiB mmap" in svg(graph)


def test_a_wide_recording_has_as_many_boxes_as_can_be_read() -> None:
    recording = simulation.large(20_000, 2000)
    graph = call_graph(recording)
    assert 1 <= len(graph.boxes) <= MOST_BOXES
    live = totals.live(recording)[0].estimate
    assert all(one.total.malloc + one.total.mapped <= live * (1 + 1e-9) for one in graph.boxes)
    assert len(svg(graph)) < 400_000


def test_nothing_live() -> None:
    process = simulation.Process(duration=10, seed=1)
    process.add(simulation.native_stack("main"), simulation.Churn(rate=10, size=100, lifetime=0.1))
    recording = process.record(exact=True)
    recording = Recording(**{**vars(recording), "live": recording.live[:0]})
    assert "Nothing is live" in svg(call_graph(recording))


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_is_text(name: str) -> None:
    picture = svg(call_graph(recorded({(MALLOC, Frame(name, "java"), Frame(name * 50, "native")): 10})))
    assert picture.startswith(MARK)
    root = ET.fromstring(picture)
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags <= {"svg", "title", "style", "rect", "text", "g", "path"}


boxes = st.lists(st.tuples(st.integers(20, 300), st.integers(20, 200)), min_size=1, max_size=25)


@settings(max_examples=60)
@given(boxes, st.data())
def test_nothing_overlaps(sizes: list[tuple[float, float]], data: st.DataObject) -> None:
    nodes = st.integers(0, len(sizes) - 1)
    calls = data.draw(
        st.lists(st.tuples(nodes, nodes).filter(lambda pair: pair[0] != pair[1]), unique=True, max_size=40)
    )
    labels = [float(data.draw(st.integers(20, 120))) for _ in calls]
    found = places(sizes, calls, labels)
    areas = [(x, y, x + wide, y + high) for (x, y), (wide, high) in zip(found.boxes, sizes, strict=True)]
    for line, wide in zip(found.lines, labels, strict=True):
        x, y = line.label
        areas.append((x - wide / 2, y - LABEL_HEIGHT / 2, x + wide / 2, y + LABEL_HEIGHT / 2))
    for one, other in itertools.combinations(areas, 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, (one, other)
    for left, top, right, bottom in areas:
        assert left >= -1e-6
        assert top >= 0
        assert right <= found.width + 1e-6
        assert bottom <= found.height + 1e-6
    for (caller, callee), line in zip(calls, found.lines, strict=True):
        upper, lower = (callee, caller) if line.up else (caller, callee)
        assert found.boxes[upper][1] < found.boxes[lower][1]
        _within(line.points[0], areas[upper])
        _within(line.points[-1], areas[lower])


def _within(point: tuple[float, float], area: tuple[float, float, float, float]) -> None:
    assert area[0] <= point[0] <= area[2]
    assert area[1] - 1e-6 <= point[1] <= area[3] + 1e-6


def test_callers_are_above_what_they_call_and_the_outermost_at_the_top() -> None:
    found = places([(50, 20)] * 4, [(0, 1), (1, 2), (0, 2), (3, 2)], [40.0] * 4)
    heights = [y for _, y in found.boxes]
    assert heights[0] == heights[3] == 0
    assert heights[0] < heights[1] < heights[2]
