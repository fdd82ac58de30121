"""What opens over the table of the live view: one site with its stack, and the help."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen

from offheap.analysis.live.view import View
from offheap.report.text.printable import printable
from offheap.report.tui import live_text, site_export
from offheap.report.tui.widgets import BOLD, DIM, PLAIN, Line, Lines, Pager, fitting

HELP = """keys
  up down pgup pgdn home end   move (also k j g G)
  Enter     the site under the cursor: figures, ages, the whole stack
  /         filter: sites with all these words in a frame, library, file, thread, verdict
  Esc       no filter
  s         sort by the next column: growth, live, blocks, age, allocated, name
  r         reverse the order
  o         who holds the RSS: heap, metaspace, malloc, files, threads
  h         the Java heap: answer, books, sites, classes (of a recording with --java-heap)
  b         mark a baseline: growth is measured from now on; B removes it
  space     pause the display; the recording continues
  e         write the table (CSV) or the stack (text) to a file
  f         in a stack: whole C++ names, or folded
  q         quit

columns
  live      bytes allocated here and not freed
  growth    of live bytes, as the verdict has it: over the last two thirds; or since the baseline
  95 % ...  where the true growth lies; sorted by its lower end: what has surely grown
  blocks    that are live
  age       of the live bytes, on average
  over time live bytes since the watch began; the bars show the change, not from zero
  site      the method to look at; mmap before it: mappings, address space touched or not;
            ← its caller, where there is room or several sites have one name

in front of a site
  >  the cursor        !  a leak
  +  growing           ?  cannot tell yet
"""


class Overlay(Screen[None]):
    """A pager over a line of keys."""

    keys = "Esc back"

    def compose(self) -> ComposeResult:
        yield Pager(id="pager")
        yield Lines(id="keys")

    def on_mount(self) -> None:
        self.query_one(Pager).focus()
        self.paint_keys()

    def paint_keys(self) -> None:
        words = self.keys.split("  ")
        self.query_one("#keys", Lines).paint([(fitting(words, self.app.size.width), DIM)])

    def on_resize(self) -> None:
        self.paint_keys()

    def action_close(self) -> None:
        self.dismiss()


class HelpScreen(Overlay):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "close", show=False)]

    def on_mount(self) -> None:
        super().on_mount()
        lines = HELP.splitlines()
        self.query_one(Pager).show([(line, PLAIN if line[:1] == " " else BOLD) for line in lines])


_SITE_KEYS = "Esc back  e export  up down pgup pgdn scroll"


class SiteScreen(Overlay):
    """One site, updated while it is open."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,left", "close", show=False),
        Binding("e", "export", show=False),
        Binding("f", "full", show=False),
    ]

    class Export(Message):
        """The stack is wanted in a file."""

        def __init__(self, key: int) -> None:
            super().__init__()
            self.key = key

    def __init__(self, key: int, view: View) -> None:
        super().__init__()
        self.key = key
        self._view = view
        self.keys = _SITE_KEYS
        self._full = False  # whether whole stacks and names are shown

    def on_mount(self) -> None:
        super().on_mount()
        self.show(self._view)

    def show(self, view: View) -> None:
        """The site in a newer view; as it was if it has no site there."""
        self._view = view
        site = view.find(self.key)
        if site is None:
            return
        row = view.row(site)
        head = live_text.site_lines(row, view, site)
        lines: list[Line] = [(live_text.heading(row), BOLD), *((line, PLAIN) for line in head)]
        lines.append(("", PLAIN))
        stack = site_export.stack_lines(row.suspect, self._full)
        lines += [(line, BOLD if line[:1] == ">" else PLAIN) for line in stack]
        self.query_one(Pager).show(lines)
        folded = f"  {'f fold' if self._full else 'f full'}" if site_export.folds(row.suspect) else ""
        if self.keys != _SITE_KEYS + folded:  # else what `say` told stays
            self.keys = _SITE_KEYS + folded
            self.paint_keys()

    def action_full(self) -> None:
        self._full = not self._full
        self.show(self._view)

    def say(self, message: str) -> None:
        self.query_one("#keys", Lines).paint([(printable(message), BOLD)])

    def action_export(self) -> None:
        self.post_message(self.Export(self.key))
