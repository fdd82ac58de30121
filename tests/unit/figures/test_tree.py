"""The call tree of live bytes."""

from __future__ import annotations

import pytest

from harness.simulation import Leak, Process, inflater, java, native, native_stack
from offheap.analysis.totals.tree import Node, tree
from offheap.recording.model import Frame


def names(nodes: tuple[Node, ...]) -> list[str]:
    return [node.frame.name for node in nodes]


def test_callers_are_at_the_root_and_shares_add_up() -> None:
    process = Process(duration=5, seed=2)
    process.add(inflater("com.example.A.a", "com.example.Main.main"), Leak(100, 10_000))
    process.add(inflater("com.example.B.b", "com.example.Main.main"), Leak(300, 10_000))
    process.add(native_stack("agent"), Leak(50, 10_000))
    result = tree(process.record(exact=True))
    assert names(result.roots) == ["java.lang.Thread.run", "start_thread"]
    assert sum(node.share for node in result.roots) == pytest.approx(1)
    (main,) = result.roots[0].children
    assert names(main.children) == ["com.example.B.b", "com.example.A.a"]
    assert main.live_bytes.estimate == sum(child.live_bytes.estimate for child in main.children)
    node = main
    while node.children:
        node = node.children[0]
    assert node.frame.name == "malloc"
    assert result.live_bytes.estimate == sum(process.truth(stack)[1] for stack in (1, 2, 3))


def test_what_is_below_the_least_share_is_left_out() -> None:
    process = Process(duration=5, seed=2)
    process.add(native_stack("large"), Leak(1000, 10_000))
    process.add(native_stack("small"), Leak(5, 10_000))
    recording = process.record(exact=True)
    assert names(tree(recording, 0.05).roots[0].children) == ["large"]
    assert names(tree(recording, 0).roots[0].children) == ["large", "small"]


def test_recursion_as_deep_as_the_probe_records_is_no_trouble() -> None:
    process = Process(duration=5)
    deep: tuple[Frame, ...] = tuple(java(f"com.example.Deep.call{i}") for i in range(3000))
    process.add((native("malloc"), *deep), Leak(100, 10_000))
    node = tree(process.record(exact=True)).roots[0]
    depth = 1
    while node.children:
        node, depth = node.children[0], depth + 1
    assert depth == 3001


def test_an_empty_recording_has_an_empty_tree() -> None:
    result = tree(Process(duration=5).record())
    assert result.roots == ()
    assert result.live_bytes.estimate == 0


def test_blocks_without_a_stack_have_a_place() -> None:
    process = Process(duration=5)
    process.add((), Leak(100, 10_000))
    assert names(tree(process.record(exact=True)).roots) == ["no stack"]
