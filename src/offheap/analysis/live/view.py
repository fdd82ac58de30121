"""What a live view shows at one time: its sites with their figures, in any order; a view never changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.leaks.results import Suspect
from offheap.analysis.sites.sites import holdings, unmet_paths
from offheap.analysis.stacks.namesakes import Mark, apart, brief
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.statistics.estimates import Estimates
from offheap.quantities import PER_MINUTE, RateUnit
from offheap.recording.model import SHORTEST_AXIS, Info

Rows = NDArray[Any]
Floats = NDArray[np.float64]
Sort = Literal["growth", "live", "blocks", "age", "allocated", "name"]
SORTS: tuple[Sort, ...] = get_args(Sort)


@dataclass(frozen=True, slots=True)
class LiveSnapshot:
    """The recording at one time.  `rows`: model.SERIES by stack, each with the time it last changed."""

    time: float
    rss_bytes: int
    live_bytes: float
    threads: int
    rows: Rows
    by_site: Floats = field(default_factory=lambda: np.zeros(0))  # live bytes, see Names.of_stack


@dataclass(frozen=True)
class Names:
    """The sites.

    of_stack  index of a stack's site; len(suspects) for one that has none yet
    rate_unit of all rates that are shown
    time      of the reading that they were judged by
    by_birth  too few readings for growth over time: it is the rate at which survivors were born
    owners_time  of the last reading of RSS's owners that the answer takes in; None: it has none, or those of
              the recording itself
    """

    suspects: tuple[Suspect, ...]
    of_stack: NDArray[np.int64]
    answer: str
    rate_unit: RateUnit = PER_MINUTE
    time: float = 0.0
    by_birth: bool = True
    owners_time: float | None = None

    @cached_property
    def texts(self) -> list[str]:
        """By site what a filter searches, case folded."""
        return [_text(suspect).casefold() for suspect in self.suspects]

    @cached_property
    def marks(self) -> list[tuple[Mark, ...]]:
        """By site what tells it from others of its brief name."""
        return apart([one.site for one in self.suspects], [one.blamed for one in self.suspects], brief)

    def sum(self, stacks: Rows, weights: Floats | None = None) -> Floats:
        """By site, and one more for stacks without one."""
        sites = len(self.suspects)
        known = np.where(stacks < len(self.of_stack), stacks, 0)
        of = np.where(stacks < len(self.of_stack), self.of_stack[known], sites)
        return np.bincount(of, weights=weights, minlength=sites + 1).astype(np.float64)

    def place(self, snapshot: LiveSnapshot) -> LiveSnapshot:
        return replace(snapshot, by_site=self.sum(snapshot.rows["stack"], snapshot.rows["live_bytes"]))


@dataclass(frozen=True, slots=True)
class SiteNow:
    """One site now.

    key        of the site, the same in every View
    age        mean age of what is live, by bytes, in seconds; None when nothing is
    growth     bytes per second
    allocated  bytes since the recording started
    trend      live bytes, snapshot by snapshot
    marks      what tells it from other sites of its name
    """

    key: int
    suspect: Suspect
    live_bytes: float
    live_blocks: float
    allocated: float
    age: float | None
    growth: Estimate
    trend: tuple[float, ...]
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class View:
    """All there is to show, at one time.

    growth    by site: the verdict's, or since the baseline
    window    seconds that the growth of totals, and growth since a baseline, is measured over; 0: not known
    baseline  when it was marked, seconds since the recording started; None: no
    over      nothing more will come
    """

    info: Info
    names: Names
    snapshots: tuple[LiveSnapshot, ...]
    live_bytes: Floats  # by site, and one more
    live_blocks: Floats
    allocated: Floats
    age: Floats  # nan when nothing is live
    growth: Estimates
    window: float
    baseline: float | None
    over: bool
    live: Rows

    @property
    def now(self) -> LiveSnapshot:
        return self.snapshots[-1]

    @cached_property
    def malloc_bytes(self) -> tuple[float, ...]:
        """Live bytes snapshot by snapshot without mappings: those are address space, touched or not."""
        malloc = np.array([*(s.site.kind != "mmap" for s in self.names.suspects), True])
        return tuple(float(snapshot.by_site[malloc].sum()) for snapshot in self.snapshots)

    @property
    def mapped_bytes(self) -> float:
        """Live mappings now."""
        return max(self.now.live_bytes - self.malloc_bytes[-1], 0.0)

    @property
    def unnamed_bytes(self) -> float:
        """Live bytes of call paths that have no site yet."""
        return float(self.live_bytes[-1])

    def order(
        self, sort: Sort, label: Callable[[Suspect], str], *, wanted: str = "", reverse: bool = False
    ) -> list[int]:
        """Sites by number, largest first (names: from A), of those in which each word of `wanted` occurs."""
        sites = list(range(len(self.names.suspects)))
        for word in wanted.casefold().split():
            sites = [site for site in sites if word in self.names.texts[site]]
        if sort == "name":
            return sorted(sites, key=lambda n: label(self.names.suspects[n]).casefold(), reverse=reverse)
        chosen = np.array(sites, np.int64)
        live = self.live_bytes[chosen]
        key = {
            # What surely grew: the estimate of a busy site jumps about, that of a leak does not.
            # In whole bytes per second: less may be rounding.
            "growth": np.floor(np.maximum(self.growth.low[chosen], 0.0)),
            "live": live,
            "blocks": self.live_blocks[chosen],
            "age": np.nan_to_num(self.age[chosen]),
            "allocated": self.allocated[chosen],
        }[sort]
        ranked: list[int] = chosen[np.lexsort((-live, -key))].tolist()
        return ranked[::-1] if reverse else ranked

    def row(self, site: int) -> SiteNow:
        suspect = self.names.suspects[site]
        age = float(self.age[site])
        return SiteNow(
            key=suspect.site.stacks[0],
            suspect=suspect,
            live_bytes=float(self.live_bytes[site]),
            live_blocks=float(self.live_blocks[site]),
            allocated=float(self.allocated[site]),
            age=age if age == age else None,
            growth=self.growth.at(site),
            trend=tuple(float(snapshot.by_site[site]) for snapshot in self.snapshots),
            marks=self.names.marks[site],
        )

    def find(self, key: int) -> int | None:
        """The number of the site with this key; None when it is gone."""
        if key >= len(self.names.of_stack):
            return None
        site = int(self.names.of_stack[key])
        return site if site < len(self.names.suspects) else None

    def live_now(self, site: int) -> tuple[Estimate, Estimate]:
        """Live bytes and blocks of a site, with their intervals."""
        rows = self.now.rows[np.isin(self.now.rows["stack"], self.names.suspects[site].site.stacks)]
        its = self._live_of(site)
        return self._held(its, unmet_paths(rows, np.zeros(len(rows), np.int64), its["stack"], 1))

    def shown_now(self, site: int) -> tuple[Estimate, Estimate] | None:
        """The same of the stack that is shown; None where it holds all of it."""
        its = self._live_of(site)
        own = its[its["stack"] == self.names.suspects[site].site.shown]
        return self._held(own) if 0 < len(own) < len(its) else None

    def _held(self, rows: Rows, unmet: Floats | None = None) -> tuple[Estimate, Estimate]:
        size, one = rows["size"].astype(np.float64), np.zeros(len(rows), np.int64)
        in_bytes, blocks = holdings(
            one, rows["stack"], size, rows["probability"], 1, unmet, self.info.weight_error
        )
        return in_bytes.at(0), blocks.at(0)

    def births(self, site: int, eras: int) -> tuple[float, ...]:
        """Live bytes of a site by when they were allocated: from the recording's start to now, in eras."""
        its = self._live_of(site)
        end = max(self.now.time, float(its["birth"].max(initial=0.0)), SHORTEST_AXIS)
        weights = its["size"] / its["probability"]
        table, _ = np.histogram(its["birth"], bins=eras, range=(0.0, end), weights=weights)
        return tuple(table.tolist())

    def rate(self, values: Sequence[float]) -> float | None:
        """How fast a total, given snapshot by snapshot, grew over the window; None if that is not known."""
        if not self.window:
            return None
        start = self.now.time - self.window
        nearest = min(range(len(self.snapshots)), key=lambda n: abs(self.snapshots[n].time - start))
        seconds = self.now.time - self.snapshots[nearest].time
        return (values[-1] - values[nearest]) / seconds if seconds > 0 else None

    def _live_of(self, site: int) -> Rows:
        return self.live[np.isin(self.live["stack"], self.names.suspects[site].site.stacks)]


def _text(suspect: Suspect) -> str:
    site = suspect.site
    parts = [part for frame in site.stack for part in (frame.name, frame.module, frame.file)]
    return "\n".join([suspect.verdict, site.kind, *site.threads, *parts])
