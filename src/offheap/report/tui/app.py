"""The live view: a terminal UI over `live.follower`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Input

from offheap.analysis.live.view import SORTS, View
from offheap.errors import UserError
from offheap.live.follower import Follower
from offheap.report.text.output import private
from offheap.report.text.printable import printable
from offheap.report.tui import live_text, site_export
from offheap.report.tui.java_heap_screen import JavaHeapScreen
from offheap.report.tui.owners_screen import Owners, OwnersScreen
from offheap.report.tui.screens import HelpScreen, SiteScreen
from offheap.report.tui.widgets import BOLD, DIM, PLAIN, Line, Lines, SiteLines, fitting, wrapped

_POLL_SECONDS = 0.5  # how long a signal may wait
_COVERED_SECONDS = 5.0  # between readings of a recording while nobody sees the table
_SMALL = 24  # lines: in a smaller terminal the answer gets fewer
_KEYS = (
    ("Enter", "stack"),
    ("/", "filter"),
    ("s", "sort"),
    ("o", "owners"),
    ("b", "baseline"),
    ("space", "pause"),
    ("e", "export"),
    ("?", "help"),
    ("q", "quit"),
)
_JAVA_KEY = ("h", "Java heap")


class LiveScreen(Screen[None]):
    """Head, table, filter, keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", show=False),
        Binding("escape", "clear_filter", show=False),
        Binding("s", "sort", show=False),
        Binding("r", "reverse", show=False),
        Binding("o", "owners", show=False),
        Binding("h", "java_heap", show=False),
        Binding("b", "baseline", show=False),
        Binding("B", "no_baseline", show=False),
        Binding("space", "pause", show=False),
        Binding("e", "export", show=False),
        Binding("question_mark", "help", show=False),
        Binding("q", "quit", show=False),
    ]

    def __init__(self, follower: Follower, view: View, folder: Path, owners: Owners | None) -> None:
        super().__init__()
        self._owners = owners
        self.seen = asyncio.Event()  # not set while the owners cover the table
        self.seen.set()
        self._over = asyncio.Event()  # the recording has ended
        self._follower = follower
        self._newest = view  # what was read last
        self._shown = view  # the same, unless paused
        self._folder = folder
        self._message = ""
        self.paused = False
        self.problem = ""

    def compose(self) -> ComposeResult:
        yield Lines(id="head")
        yield SiteLines(id="sites")
        yield Input(placeholder="words of a frame, library or thread", id="filter")
        yield Lines(id="keys")

    def on_mount(self) -> None:
        self.query_one(Input).display = False
        self.query_one(SiteLines).focus()
        self.query_one(SiteLines).show(self._shown)
        self._repaint()

    def on_resize(self) -> None:
        self._repaint()

    def renew(self, view: View) -> None:
        """A newer view; while paused it only waits."""
        self._newest = view
        if view.over:
            self._over.set()
        if not self.paused:
            self._show(view)
        else:
            self._repaint()

    def say(self, message: str) -> None:
        """In place of the keys, until the next key."""
        self._message = printable(message)  # it may have a path in it
        self._repaint()

    def _show(self, view: View) -> None:
        self._shown = view
        self.query_one(SiteLines).show(view)
        top = self.app.screen
        if isinstance(top, SiteScreen):
            top.show(view)
        self._repaint()

    def _repaint(self) -> None:
        if not self.is_mounted or self.size.width == 0:
            return
        width, height = self.size
        head = self.query_one("#head", Lines)
        lines = self._head(width, height)
        if head.styles.height is None or head.styles.height.value != len(lines):
            head.styles.height = len(lines)
        head.paint(lines)
        keys = self.query_one("#keys", Lines)
        java = self._shown.info.java_heap is not None
        keys.paint([(self._message, BOLD) if self._message else (_keys(width, java), DIM)])

    def _head(self, width: int, height: int) -> list[Line]:
        view = self._shown
        state = live_text.state(view.info, view.over)
        if self.paused:
            state = f"PAUSED, {state}"
        room = max(width - len(state) - 2, 0)
        title = live_text.title(view.info, room)
        lines: list[Line] = [(f"{title:<{room}}  {state}"[:width], BOLD)]
        most = 3 if height >= _SMALL else 2
        answer = wrapped(printable(view.names.answer), width, "")
        if len(answer) > most:
            answer = [*answer[: most - 1], answer[most - 1][: width - 1] + "…"]
        lines += [(line, BOLD) for line in answer]
        lines += [(line, PLAIN) for line in live_text.totals(view, width)]
        lines.append((self._status(width), DIM))
        if self.problem:
            lines.append((self.problem[:width], BOLD))
        return lines

    def _status(self, width: int) -> str:
        view, table = self._shown, self.query_one(SiteLines)
        sites = len(view.names.suspects)
        count = f"{len(table.order)} of {sites} sites" if table.wanted else f"{sites} sites"
        words = [count, live_text.window(view)]
        if table.wanted:
            words.insert(1, f"filter: {table.wanted}")
        if view.unnamed_bytes:
            words.append(f"{live_text.short_size(view.unnamed_bytes)} in new call paths")
        lost = view.info.losses
        if lost:
            words.append(f"{lost} lost: offheap stats")
        if live_text.pages(view):
            words.append(live_text.pages(view))
        return fitting([printable(word) for word in words], width)

    def on_key(self) -> None:
        if self._message:
            self.say("")

    def action_filter(self) -> None:
        field = self.query_one(Input)
        field.display = True
        field.focus()

    def action_clear_filter(self) -> None:
        field = self.query_one(Input)
        field.value = ""
        self._leave_filter()

    def on_input_changed(self, event: Input.Changed) -> None:
        table = self.query_one(SiteLines)
        table.wanted = event.value
        table.sort_again()
        self._repaint()

    def on_input_submitted(self) -> None:
        self._leave_filter()

    def _leave_filter(self) -> None:
        self.query_one(Input).display = False
        self.query_one(SiteLines).focus()

    def action_sort(self) -> None:
        table = self.query_one(SiteLines)
        table.sort = SORTS[(SORTS.index(table.sort) + 1) % len(SORTS)]
        table.reverse = False
        table.sort_again()
        self.say(f"sorted by {table.sort}" + (", what surely grew" if table.sort == "growth" else ""))

    def action_reverse(self) -> None:
        table = self.query_one(SiteLines)
        table.reverse = not table.reverse
        table.sort_again()
        self.say(f"sorted by {table.sort}, in reverse" if table.reverse else f"sorted by {table.sort}")

    def action_owners(self) -> None:
        if self._owners is None:
            self.say("the process has ended, and the owners of its RSS were not read")
        else:
            self.seen.clear()
            self.app.push_screen(OwnersScreen(self._owners, self._over), lambda _: self.seen.set())

    def action_java_heap(self) -> None:
        if self._shown.info.java_heap is None:
            self.say("Java objects are not followed: record with --java-heap")
        else:
            self.app.push_screen(JavaHeapScreen(self._follower.java_heap))

    def action_baseline(self) -> None:
        if self._newest.over:
            self.say("the recording has ended: a baseline needs one that grows")
            return
        self._follower.mark(self._newest)
        self.say("baseline marked: growth counts from now on (B removes it)")

    def action_no_baseline(self) -> None:
        self._follower.mark(None)
        self.say("no baseline: growth as the verdict has it")

    def action_pause(self) -> None:
        self.paused = not self.paused
        if not self.paused:
            self._show(self._newest)
        self._repaint()

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen())

    def action_quit(self) -> None:
        self.app.exit()

    def on_site_lines_opened(self, event: SiteLines.Opened) -> None:
        self.app.push_screen(SiteScreen(event.key, self._shown))

    def action_export(self) -> None:
        view, table = self._shown, self.query_one(SiteLines)
        self.say(self._export("csv", site_export.table_csv(view, table.order)))

    def export_site(self, key: int) -> str:
        """Writes a site's stack; what to tell of it."""
        site = self._shown.find(key)
        return self._export("txt", site_export.stack_text(self._shown, site)) if site is not None else ""

    def _export(self, suffix: str, text: str) -> str:
        stamp = time.strftime("%H%M%S")
        for number in ("", *(f"-{n}" for n in range(2, 100))):
            path = self._folder / f"live-{self._shown.info.pid}-{stamp}{number}.{suffix}"
            try:
                with open(path, "x", encoding="utf-8", opener=private) as file:
                    file.write(text)
            except FileExistsError:
                continue
            except OSError as error:
                return f"{path} cannot be written: {error.strerror}"
            return f"wrote {path}"
        return f"{self._folder} has too many exports of this second"


class LiveApp(App[None]):
    """Shows a Follower that has advanced once, `every` so many seconds, until a key or `stop` ends it."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "offheap live"
    CSS = """
    Screen { background: ansi_default; color: ansi_default; }
    #head { height: 6; }
    #sites, #pager { height: 1fr; }
    #filter { height: 1; border: none; padding: 0; background: ansi_default; color: ansi_default; }
    #keys { height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("ctrl+q", "quit", show=False, priority=True),
    ]

    def __init__(
        self,
        follower: Follower,
        view: View,
        *,
        every: float = 1.0,
        folder: Path | None = None,
        stop: Callable[[], bool] | None = None,
        owners: Owners | None = None,
    ) -> None:
        super().__init__(ansi_color=True)
        self._follower = follower
        self._every = every
        self._stop = stop
        self.main = LiveScreen(follower, view, folder or Path(os.curdir), owners)
        self._over = view.over

    def on_mount(self) -> None:
        self.push_screen(self.main)
        if self._stop:
            self.set_interval(_POLL_SECONDS, self._leave_if_asked)
        self.run_worker(self._follow())

    async def _follow(self) -> None:
        # In a thread: the first use of a new library reads its symbols, and keys must not wait for that.
        while not self._over:
            await asyncio.sleep(self._every)
            # The owners cover all of it, and their readings need the CPU that both may take.
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.main.seen.wait(), _COVERED_SECONDS)
            try:
                view = await asyncio.to_thread(self._follower.advance)
            except (UserError, OSError) as error:
                # What was read stays on the screen.
                self.main.problem = f"cannot be read any more: {printable(str(error))}"
                self.main.renew(self.main._newest)
                return
            if view is not None:
                self._over = view.over
                self.main.renew(view)

    def _leave_if_asked(self) -> None:
        if self._stop and self._stop():
            self.exit()

    def on_site_screen_export(self, event: SiteScreen.Export) -> None:
        top = self.screen
        if isinstance(top, SiteScreen):
            top.say(self.main.export_site(event.key))


def _keys(width: int, java: bool) -> str:
    """As many keys as fit, the last ones always; that of the Java heap where it is followed."""
    words = [f"{key} {what}" for key, what in (*_KEYS[:4], *([_JAVA_KEY] if java else []), *_KEYS[4:])]
    while len("  ".join(words)) > width and len(words) > 3:
        del words[-4 if len(words) > 4 else 1]
    return "  ".join(words)
