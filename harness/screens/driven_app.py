"""The app of `offheap live` under test, driven by keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from textual.pilot import Pilot

from offheap.analysis.live.view import View
from offheap.live.follower import Follower
from offheap.report.tui.app import LiveApp
from offheap.report.tui.owners_screen import Owners
from offheap.report.tui.widgets import Lines, SiteLines


@dataclass
class Driven:
    """An app under test, with short names for what tests ask."""

    app: LiveApp
    pilot: Pilot[None]
    folder: Path = field(default_factory=Path)

    @property
    def head(self) -> str:
        return self.app.main.query_one("#head", Lines).text

    @property
    def keys(self) -> str:
        return self.app.screen.query_one("#keys", Lines).text

    @property
    def table(self) -> SiteLines:
        return self.app.main.query_one(SiteLines)

    @property
    def rows(self) -> list[str]:
        return [line for line in self.table.text.splitlines()[1:] if line.strip()]

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def see(self, what: Callable[[], bool], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, f"no such screen came:\n{self.head}\n{self.table.text}"
            await asyncio.sleep(0.05)


def drive(
    follower: Follower,
    view: View,
    steps: Callable[[Driven], Awaitable[None]],
    folder: Path,
    *,
    size: tuple[int, int] = (80, 24),
    every: float = 3600.0,
    owners: Owners | None = None,
) -> None:
    async def run() -> None:
        app = LiveApp(follower, view, every=every, folder=folder, owners=owners)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await steps(Driven(app, pilot, folder))

    asyncio.run(run())
