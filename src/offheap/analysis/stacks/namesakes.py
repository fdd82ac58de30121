"""Marks that distinguish sites of one name, so that no two rows of a table look alike.

Sites that blame the same function differ in its callers; if the callers have the same names, in their lines;
else in the function that it called, or in the omitted part of a C++ name.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from offheap.analysis.stacks import frames
from offheap.analysis.stacks.blame import short
from offheap.recording.model import Frame

MOST_MARKS = 3

How = Literal["caller", "line", "callee", "name"]


class Stacked(Protocol):
    """A site of a recording, or one of a diff."""

    @property
    def kind(self) -> str: ...
    @property
    def stack(self) -> Sequence[Frame]: ...


@dataclass(frozen=True, slots=True)
class _Path:
    """Frames of a stack from an index on, from the inside outwards."""

    start: int
    stack: Sequence[Frame]

    def at(self, step: int) -> Frame | None:
        place = self.start + step
        return self.stack[place] if place < len(self.stack) else None


@dataclass(frozen=True, slots=True)
class Mark:
    """A frame to show beside a site's name.

    caller  a caller of the blamed function that the namesakes lack in the same place
    line    a caller, or the blamed frame itself, that differs only in its line
    callee  the function that the blamed function called
    name    the blamed frame, whose full name differs
    """

    how: How
    frame: Frame


def brief(frame: Frame) -> str:
    """A short name where space is short: `PriceImport.openFeed` of a Java method, without its package."""
    return ".".join(frame.name.rsplit(".", 2)[-2:]) if frame.kind == "java" else short(frame)


def apart(
    sites: Sequence[Stacked], blamed: Sequence[Frame], name: Callable[[Frame], str] = short
) -> list[tuple[Mark, ...]]:
    """The marks that distinguish each site from its namesakes by `name`; none for most sites.

    Callers come from the inside outwards.  If recursion makes more than MOST_MARKS of them differ, the
    first ones and the last stay, and such sites may still look alike.
    """
    marks: list[dict[int, Mark]] = [{} for _ in sites]  # by place in the stack
    alike: dict[tuple[str, str], list[int]] = {}
    for number, (site, frame) in enumerate(zip(sites, blamed, strict=True)):
        alike.setdefault((site.kind, _shown(frame, name)), []).append(number)
    for group in alike.values():
        if len(group) > 1:
            _tell(group, sites, blamed, name, marks)
    return [_few([mark for _, mark in sorted(its.items())]) for its in marks]


def _few(marks: list[Mark]) -> tuple[Mark, ...]:
    return tuple(marks if len(marks) <= MOST_MARKS else [*marks[: MOST_MARKS - 1], marks[-1]])


def _tell(
    group: list[int],
    sites: Sequence[Stacked],
    blamed: Sequence[Frame],
    name: Callable[[Frame], str],
    marks: list[dict[int, Mark]],
) -> None:
    places = {number: _place(sites[number].stack, blamed[number]) for number in group}
    stacks = {number: sites[number].stack for number in group}
    steps: tuple[tuple[How, int, int | None, Callable[[Frame], Hashable]], ...] = (
        ("caller", 1, None, lambda frame: _shown(frame, name)),
        ("line", 0, None, lambda frame: (_shown(frame, name), frame.line)),
        ("callee", -1, 0, lambda frame: _shown(frame, name)),
        ("name", 0, 1, lambda frame: frame.name),
    )
    left = [group]
    for how, first, end, key in steps:
        paths = {
            number: _Path(max(place + first, 0), stacks[number][: None if end is None else place + end])
            for number, place in places.items()
        }
        left = [rest for alike in left for rest in _branch(alike, paths, how, key, marks)]


def _branch(
    group: list[int],
    paths: dict[int, _Path],
    how: How,
    key: Callable[[Frame], Hashable],
    marks: list[dict[int, Mark]],
) -> list[list[int]]:
    """Marks the frames at which a site's path leaves those of others; returns groups whose paths agree."""
    agree: list[list[int]] = []
    pending = [(group, 0)]
    while pending:
        together, step = pending.pop()
        by_key: dict[Hashable, list[int]] = {}
        for number in together:
            frame = paths[number].at(step)
            by_key.setdefault(None if frame is None else key(frame), []).append(number)
        for one, members in by_key.items():
            for number in members:
                frame = paths[number].at(step)
                if frame is not None and len(by_key) > 1:
                    marks[number][paths[number].start + step] = Mark(how, frame)
            if len(members) > 1:
                if one is None:
                    agree.append(members)
                else:
                    pending.append((members, step + 1))
    return agree


def _shown(frame: Frame, name: Callable[[Frame], str]) -> str:
    """The name as in a table, without the JVM's numbers of hidden classes."""
    stable = frames.stable_name(frame)
    return name(frame if stable == frame.name else frame._replace(name=stable))


def _place(stack: Sequence[Frame], blamed: Frame) -> int:
    """The index of the blamed frame; the last index if the stack lacks it."""
    return next((index for index, frame in enumerate(stack) if frame.name == blamed.name), len(stack) - 1)
