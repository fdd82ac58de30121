"""Who holds the RSS, over the table of the live view: read while it is open, and no longer."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType

from offheap.analysis.owners.accounts import TITLES
from offheap.analysis.owners.results import OwnerGrowth, OwnersGrowth
from offheap.errors import UserError
from offheap.quantities import PER_SECOND, format_duration
from offheap.recording.model import OwnersOverTime
from offheap.report.text.printable import printable
from offheap.report.tui import live_text
from offheap.report.tui.screens import Overlay
from offheap.report.tui.widgets import BOLD, DIM, PLAIN, Line, Lines, Pager

# A reading walks the page tables of the whole process: for a large one it is taken more rarely.
_EVERY = 3.0  # seconds
_SHARE_OF_CPU = 0.01
_TITLE, _BARS = 24, 14

Owners = Callable[[], tuple[OwnersOverTime, OwnersGrowth]]


class OwnersScreen(Overlay):
    """RSS by owner; each call of `read` is a new reading, and gives all readings so far.

    The next reading is taken at once when `over` is set: the process may have ended.
    """

    keys = "Esc back  up down pgup pgdn scroll"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter,left,o", "close", show=False)]

    def __init__(self, read: Owners, over: asyncio.Event) -> None:
        super().__init__()
        self._read = read
        self._over = over

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(Pager).show([("reading the process ...", DIM)])
        self.run_worker(self._follow())

    async def _follow(self) -> None:
        while True:
            try:
                over, found, seconds = await asyncio.to_thread(self._measured)
            except (UserError, OSError) as error:
                # What was seen stays, and says that it is old.
                self.query_one("#keys", Lines).paint([(f"no more readings: {printable(str(error))}", BOLD)])
                return
            self.query_one(Pager).show(owner_lines(over, found))
            pause = max(_EVERY, seconds / _SHARE_OF_CPU)
            if self._over.is_set():
                await asyncio.sleep(pause)
            else:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._over.wait(), pause)

    def _measured(self) -> tuple[OwnersOverTime, OwnersGrowth, float]:
        # The CPU time of the process, since the inspection has a thread of its own.
        began = time.process_time()
        over, found = self._read()
        return over, found, time.process_time() - began


def owner_lines(over: OwnersOverTime, found: OwnersGrowth) -> list[Line]:
    """Owners by bytes, RSS last: what each holds, how it grows since the first reading, and how."""
    if not len(over.times):
        return [("the owners of this process's RSS were not read: offheap where reads them now", PLAIN)]
    span = (
        f"{found.readings} readings in {format_duration(found.seconds)}"
        if found.readings > 1
        else "one reading"
    )
    titles: dict[str, str] = {str(owner): title for owner, title in TITLES.items()}
    lines: list[Line] = [
        (f"RSS by owner, {span}: {found.verdict.kind}", BOLD),
        (printable(found.verdict.why), PLAIN),
        ("", PLAIN),
        (_line("owner", "now", "growth", "95 % interval", "over time"), BOLD),
    ]
    for one in found.owners:
        if one.bytes or one.first_bytes:
            trend = over.bytes[:, over.names.index(one.owner)].tolist()
            lines.append((_owner(titles.get(one.owner, one.owner), one, trend), PLAIN))
    lines.append((_owner("RSS", found.rss, over.rss.tolist()), BOLD))
    return lines


def _owner(title: str, one: OwnerGrowth, trend: list[float]) -> str:
    growth = one.growth
    return _line(
        live_text.clipped(printable(title), _TITLE),
        live_text.short_size(one.bytes),
        live_text.rate(growth, PER_SECOND) if growth else "",
        live_text.rate_interval(growth, PER_SECOND) if growth else "",
        live_text.sparkline(trend, _BARS),
    )


def _line(title: str, now: str, growth: str, interval: str, trend: str) -> str:
    return f"{title:<{_TITLE}} {now:>9} {growth:>13} {interval:>16} {trend}"
