"""A document as plain text of 80 columns; names longer than that keep their line."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from offheap.report.text.printable import printable
from offheap.report.ticket.document import Block, Facts, Heading, Listing, Paragraph, Table

_WIDTH = 80


def write(blocks: Sequence[Block]) -> str:
    """Ends with a newline."""
    return "\n\n".join("\n".join(map(printable, _lines(block))) for block in blocks) + "\n"


def _lines(block: Block) -> list[str]:
    match block:
        case Heading(text, level):
            return [text, ("=" if level == 1 else "-") * len(text)]
        case Paragraph(text):
            return _wrapped(text, _WIDTH)
        case Facts(facts):
            room = max((len(label) for label, _ in facts), default=0) + 2
            lines = []
            for label, value in facts:
                first, *more = _wrapped(value, _WIDTH - room)
                lines += [f"{label:<{room}}{first}", *(" " * room + line for line in more)]
            return lines
        case Table():
            return _table(block)
        case Listing(lines):
            return [f"  {line}" for line in lines]


def _table(table: Table) -> list[str]:
    """A line a row; where that is too long, the last cell has a line of its own below."""
    shown = [list(map(printable, row)) for row in (table.header, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)][:-1]
    lines = []
    for *cells, last in shown:
        head = "  ".join(
            cell.rjust(width) if index in table.right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        fits = len(head) + 2 + len(last) <= _WIDTH
        lines += [f"{head}  {last}".rstrip()] if fits else [head.rstrip(), f"    {last}"]
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(printable(text), width, break_long_words=False, break_on_hyphens=False) or [""]
