"""A document as Markdown for tickets and notebooks: GitHub's tables, no HTML.

A class may be called anything: no name may become a link, an image, markup, a mention or the end of a table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from offheap.report.text.printable import printable
from offheap.report.ticket.document import Block, CodeText, Facts, Heading, Listing, Paragraph, Table

# Also "$": between two of them GitHub sets mathematics, and nested Java classes have one each.
_MARKUP = re.compile(r"([\\`*_\[\]<>|~$&#])")
_TICKS = re.compile("`+")
# What turns into a link or a mention by itself; an entity is text.
_BY_ITSELF = re.compile(r"@|://|(?<=\bwww)\.", re.IGNORECASE)


def write(blocks: Sequence[Block]) -> str:
    """Ends with a newline."""
    return "\n\n".join("\n".join(_lines(block)) for block in blocks) + "\n"


def _lines(block: Block) -> list[str]:
    match block:
        case Heading(text, level):
            return [f"{'#' * (level + 1)} {_inline(text)}"]
        case Paragraph(text, strong):
            return [f"**{_inline(text)}**" if strong else _inline(text)]
        case Facts(facts):
            return [f"- {_inline(label)}: {_inline(value)}" for label, value in facts]
        case Table(header, rows, right):
            rule = ["---:" if index in right else "---" for index in range(len(header))]
            return [_row(map(_inline, header)), _row(rule), *(_row(map(_cell, row)) for row in rows)]
        case Listing(lines):
            shown = list(map(printable, lines))
            fence = _fence(shown, 3)
            return [f"{fence}text", *shown, fence]


def _row(cells: Sequence[str] | map[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    if not isinstance(text, CodeText):
        return _inline(text)
    # A table ends its cell at "|" even within code, and this one escape is taken back there.
    return _code(text).replace("|", "\\|")


def _inline(text: str) -> str:
    if isinstance(text, CodeText):
        return _code(text)
    escaped = _MARKUP.sub(r"\\\1", printable(text))
    return _BY_ITSELF.sub(lambda found: f"&#{ord(found[0][0])};{found[0][1:]}", escaped)


def _code(text: str) -> str:
    shown = printable(text)
    fence = _fence([shown], 1)
    # A backtick at an end would join the fence.
    room = " " if shown[:1] == "`" or shown[-1:] == "`" else ""
    return f"{fence}{room}{shown}{room}{fence}"


def _fence(lines: Sequence[str], least: int) -> str:
    """Longer than any run of backticks within."""
    runs = (len(run) for line in lines for run in _TICKS.findall(line))
    return "`" * max(least, max(runs, default=0) + 1)
