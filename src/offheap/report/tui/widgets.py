"""Widgets of the live view: lines that scroll, and the table of sites.

They paint whole lines themselves.  Textual's DataTable lays every cell out anew at each refresh, which
alone takes more of a CPU than the live view may.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from offheap.analysis.live.view import Sort, View
from offheap.report.tui import live_text

PLAIN = Style()
BOLD = Style(bold=True)
DIM = Style(dim=True)
REVERSE = Style(reverse=True)

Line = tuple[str, Style]

MOVES: list[BindingType] = [
    Binding("up,k", "move(-1)", show=False),
    Binding("down,j", "move(1)", show=False),
    Binding("pageup", "page(-1)", show=False),
    Binding("pagedown", "page(1)", show=False),
    Binding("home,g", "move(-1000000)", show=False),
    Binding("end,G", "move(1000000)", show=False),
]


class Lines(Widget):
    """Lines of text, each cut at the right edge; only those that changed are painted again."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._painted: list[Line] = []

    def paint(self, lines: Sequence[Line]) -> None:
        """What to show from the widget's first line on."""
        before, self._painted = self._painted, list(lines)
        pairs = zip_longest(before, self._painted)
        changed = [y for y, (old, new) in enumerate(pairs) if old != new]
        if changed:
            self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))

    def render_line(self, y: int) -> Strip:
        text, style = self._painted[y] if y < len(self._painted) else ("", PLAIN)
        # The terminal's own colours: asking for the widget's style would cost more than the line.
        return Strip([Segment(text, style)]).adjust_cell_length(self.size.width)

    @property
    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(text.rstrip() for text, _ in self._painted)


class Pager(Lines, can_focus=True):
    """Lines that wrap, and scroll by key."""

    BINDINGS: ClassVar[list[BindingType]] = MOVES

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._unwrapped: list[Line] = []
        self._lines: list[Line] = []
        self._top = 0

    def show(self, lines: Sequence[Line]) -> None:
        self._unwrapped = list(lines)
        self._wrap()

    def on_resize(self, _event: events.Resize) -> None:
        self._wrap()

    def action_move(self, lines: int) -> None:
        self._top = max(0, min(self._top + lines, len(self._lines) - self.size.height))
        self.paint(self._lines[self._top : self._top + self.size.height])

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(self.size.height - 1, 1))

    def _wrap(self) -> None:
        width = max(self.size.width, 20)
        self._lines = [
            (part, style) for text, style in self._unwrapped for part in wrapped(text, width, " " * 11)
        ]
        self.action_move(0)


class SiteLines(Lines, can_focus=True):
    """The sites, one a line under a header; the cursor stays on its site however the order changes."""

    BINDINGS: ClassVar[list[BindingType]] = [*MOVES, Binding("enter", "open", show=False)]

    class Opened(Message):
        """Enter on a site."""

        def __init__(self, key: int) -> None:
            super().__init__()
            self.key = key

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.view: View | None = None
        self.sort: Sort = "growth"
        self.reverse = False
        self.wanted = ""
        self.order: list[int] = []
        self._key: int | None = None  # of the site under the cursor; None: the first one, whichever
        self._cursor = 0
        self._top = 0

    def show(self, view: View) -> None:
        self.view = view
        self.sort_again()

    def sort_again(self) -> None:
        """Sorts and filters anew."""
        if self.view is None:
            return
        self.order = self.view.order(self.sort, live_text.label, wanted=self.wanted, reverse=self.reverse)
        if self._key is not None:
            site = self.view.find(self._key)
            self._cursor = self.order.index(site) if site in self.order else self._cursor
        self._settle()

    def on_resize(self, _event: events.Resize) -> None:
        self._settle()

    def action_move(self, lines: int) -> None:
        self._cursor += lines
        self._settle()
        # Back at the top means: follow the worst.
        self._key = self.key if self._cursor else None

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(self.size.height - 2, 1))

    def action_open(self) -> None:
        key = self.key
        if key is not None:
            self.post_message(self.Opened(key))

    @property
    def key(self) -> int | None:
        """The key of the site under the cursor; None in an empty table."""
        if self.view is None or not self.order:
            return None
        return self.view.names.suspects[self.order[self._cursor]].site.stacks[0]

    def _line(self, y: int) -> Line:
        width = self.size.width
        if y == 0:
            return live_text.header(width, self.sort, self.reverse), BOLD
        place = self._top + y - 1
        if self.view is None or place >= len(self.order):
            empty = "no site has these words: / changes them" if self.wanted else "nothing recorded yet"
            return (f"   {empty}" if y == 1 and self.view is not None else ""), DIM
        row = self.view.row(self.order[place])
        text = live_text.table_line(row, width, self.view.names.rate_unit)
        if place == self._cursor:
            return ">" + text[1:], REVERSE
        return text, BOLD if row.suspect.verdict == "leak" else PLAIN

    def _settle(self) -> None:
        """Keeps the cursor in the table and in sight."""
        self._cursor = max(0, min(self._cursor, len(self.order) - 1))
        rows = max(self.size.height - 1, 1)
        self._top = max(min(self._top, self._cursor, len(self.order) - rows), self._cursor - rows + 1, 0)
        self.paint([self._line(y) for y in range(self.size.height)])


def fitting(words: Sequence[str], width: int) -> str:
    """One line of as many of them as fit, whole, the first always."""
    kept = list(words)
    while len("  ".join(kept)) > width and len(kept) > 1:
        kept.pop()
    return "  ".join(kept)[:width]


def wrapped(text: str, width: int, indent: str) -> list[str]:
    """Lines of at most `width`; names longer than that are broken, nothing is left out."""
    if len(text) <= width:
        return [text]
    return textwrap.wrap(
        text,
        width,
        subsequent_indent=indent,
        drop_whitespace=True,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
