"""A report in words as blocks; `plain`, `markdown` and `fragment` write them, each for its readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class CodeText(str):
    """A name or a command: set as code where there is such a thing.  Elsewhere text is prose."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Heading:
    """`level` 1 is the report's title."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Pairs of a label and what is so."""

    facts: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of as many cells as `header`; `right`: the columns of figures.  The last column is the widest."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Listing:
    """Lines to be kept as they are: a stack, commands."""

    lines: Sequence[str]


Block = Heading | Paragraph | Facts | Table | Listing
