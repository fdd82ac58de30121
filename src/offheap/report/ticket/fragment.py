"""A document as HTML to be put into another page: what a notebook shows of a recording."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from offheap.report.text.printable import printable
from offheap.report.ticket.document import Block, CodeText, Facts, Heading, Listing, Paragraph, Table

# Figures to the right, names to the left: Jupyter sets every cell to the right.
_LEFT, _RIGHT = ' style="text-align:left"', ' style="text-align:right"'


def write(blocks: Sequence[Block]) -> str:
    """One div; takes the page's own colours, so it is readable on dark ones too."""
    return f"<div>{''.join(map(_element, blocks))}</div>"


def _element(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level + 2}>{_inline(text)}</h{level + 2}>"
        case Paragraph(text, strong):
            return f"<p>{f'<strong>{_inline(text)}</strong>' if strong else _inline(text)}</p>"
        case Facts(facts):
            rows = (
                f"<tr>{_cell('th', label, _LEFT)}{_cell('td', value, _LEFT)}</tr>" for label, value in facts
            )
            return f"<table>{''.join(rows)}</table>"
        case Table(header, rows, right):
            sides = [_RIGHT if index in right else _LEFT for index in range(len(header))]
            head = "".join(_cell("th", text, side) for text, side in zip(header, sides, strict=True))
            body = (
                f"<tr>{''.join(_cell('td', text, side) for text, side in zip(row, sides, strict=True))}</tr>"
                for row in rows
            )
            return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
        case Listing(lines):
            return f"<pre>{escape(chr(10).join(map(printable, lines)))}</pre>"


def _cell(tag: str, text: str, side: str) -> str:
    return f"<{tag}{side}>{_inline(text)}</{tag}>"


def _inline(text: str) -> str:
    shown = escape(printable(text))
    return f"<code>{shown}</code>" if isinstance(text, CodeText) else shown
