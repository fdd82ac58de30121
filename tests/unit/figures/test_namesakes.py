"""Callers distinguish sites of one name, else lines, callees or the full name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.simulation import MALLOC, inflater, java, native, native_stack
from offheap.analysis.sites.results import Site
from offheap.analysis.stacks import blame
from offheap.analysis.stacks.namesakes import Mark, apart
from offheap.analysis.statistics.estimate import Estimate
from offheap.recording.model import Frame
from offheap.report.text.namesakes import fitted

NOTHING = Estimate(0, 0, 0)


def site(stack: tuple[Frame, ...], kind: str = "malloc") -> Site:
    return Site(kind, stack, (1,), NOTHING, NOTHING, NOTHING, NOTHING, ())  # type: ignore[arg-type]


def marks(*stacks: tuple[Frame, ...]) -> list[list[tuple[str, str]]]:
    found = apart([site(stack) for stack in stacks], [blame.blamed(stack) for stack in stacks])
    return [[(mark.how, mark.frame.name) for mark in its] for its in found]


OPEN = "com.example.Feed.open"


def test_callers_tell_apart_and_only_those_that_differ() -> None:
    assert marks(
        inflater(OPEN, "com.example.Feed.read", "com.example.Prices.load"),
        inflater(OPEN, "com.example.Feed.read", "com.example.Images.load"),
        inflater("com.example.Other.open", "com.example.Feed.read"),
    ) == [[("caller", "com.example.Prices.load")], [("caller", "com.example.Images.load")], []]


def test_of_three_each_shows_what_makes_it_the_only_one() -> None:
    assert marks(
        inflater(OPEN, "com.example.A.one", "com.example.A.two"),
        inflater(OPEN, "com.example.A.one", "com.example.A.three"),
        inflater(OPEN, "com.example.B.one", "com.example.A.two"),
    ) == [
        [("caller", "com.example.A.one"), ("caller", "com.example.A.two")],
        [("caller", "com.example.A.one"), ("caller", "com.example.A.three")],
        [("caller", "com.example.B.one")],
    ]


def test_lines_tell_apart_where_names_do_not() -> None:
    stack = inflater(OPEN)
    here = stack.index(java(OPEN, 10))
    other = (*stack[:here], java(OPEN, 99), *stack[here + 1 :])
    found = apart([site(stack), site(other)], [stack[here], other[here]])
    assert found == [(Mark("line", java(OPEN, 10)),), (Mark("line", java(OPEN, 99)),)]


def test_callees_tell_apart_where_callers_do_not() -> None:
    outer = (native("app::handle"), native("main"))
    one, other = ((MALLOC, native(inner), *outer) for inner in ("SSL_new", "BIO_new"))
    blamed = [outer[0], outer[0]]
    assert [[m.frame.name for m in its] for its in apart([site(one), site(other)], blamed)] == [
        ["SSL_new"],
        ["BIO_new"],
    ]


def test_folded_names_tell_apart_in_full() -> None:
    long = "app::Pool<std::map<std::string, std::vector<{0}>, std::less<std::string>>>::take({0}, long)"
    one, other = ((MALLOC, native(long.format(kind)), native("main")) for kind in ("int", "double"))
    found = marks(one, other)
    assert found == [[("name", one[1].name)], [("name", other[1].name)]]


def test_of_another_kind_is_no_namesake() -> None:
    stack = inflater(OPEN)
    blamed = [blame.blamed(stack)] * 2
    assert apart([site(stack), site(stack, "mmap")], blamed) == [(), ()]


def test_numbers_of_hidden_classes_tell_nothing_apart() -> None:
    assert marks(
        inflater(OPEN, "com.example.Shop$$Lambda/0x00007f0001.run"),
        inflater(OPEN, "com.example.Shop$$Lambda/0x00007f0002.run"),
    ) == [[], []]


def test_of_recursion_few_frames_are_shown() -> None:
    deep = [native_stack("visit", *["walk"] * depth, "main") for depth in range(1, 9)]
    found = marks(*deep)
    assert [name for _, name in found[1]] == ["walk", "main"]
    assert [name for _, name in found[6]] == ["walk", "walk", "main"]


@given(st.integers(20, 90))
def test_a_line_keeps_some_of_the_name_and_of_what_tells_it_apart(room: int) -> None:
    stacks = [inflater(OPEN, "com.example.Retry.again", f"com.example.{'Long' * 9}.load{n}") for n in (1, 2)]
    sites, blamed = [site(stack) for stack in stacks], [blame.blamed(stack) for stack in stacks]
    line = fitted(blamed[0], apart(sites, blamed)[0], room)
    assert len(line) <= room
    assert line.startswith(("Feed.open ← ", "open ← "))
    assert ("load1" in line) == (room >= len("open ← load1"))


NAMES = st.sampled_from(["a.A.a", "a.A.b", "b.B.c"])


@given(st.sets(st.lists(NAMES, min_size=1, max_size=3).map(tuple), min_size=2, max_size=8))
def test_whatever_the_callers_no_two_are_marked_alike(paths: set[tuple[str, ...]]) -> None:
    stacks = [(MALLOC, *(Frame(name, "java") for name in (OPEN, *path))) for path in sorted(paths)]
    found = apart([site(stack) for stack in stacks], [stack[1] for stack in stacks])
    assert len(set(found)) == len(stacks)
    for stack, its in zip(stacks, found, strict=True):
        assert all(mark.how == "caller" and mark.frame in stack for mark in its)
