"""Follows a recording while it grows: the live memory of each site, its growth rate and its history.

A `Follower` asks its source for an update and returns a `View`.  Figures are those of the last update.
Sites, names and verdicts take longer to compute: the follower renews them from time to time, within a small
share of one CPU, and sums newer call paths in one row until then.

Growth is that of the verdict, as in `offheap leaks` on the same recording, and as old as the verdict.
After a baseline is marked, growth is the bytes born since and alive, less the bytes freed since, per
second, with the 95 % interval of sampling, renewed at each update.

The answer includes the owners of the RSS while somebody views them (`live_owners`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.java_heap.report import report as java_heap
from offheap.analysis.java_heap.results import JavaHeapReport
from offheap.analysis.leaks import answer
from offheap.analysis.leaks.leaks import Ranking, ranking
from offheap.analysis.live.live_owners import owners_now, still_count, with_owners
from offheap.analysis.live.standing_verdict import Standings
from offheap.analysis.live.view import LiveSnapshot, Names, View
from offheap.analysis.owners.results import OwnersGrowth
from offheap.analysis.stacks.packages import with_application
from offheap.analysis.statistics import estimates
from offheap.analysis.statistics.estimates import Estimates
from offheap.analysis.verdicts.site_history import by_snapshots
from offheap.recording.live_update import LiveUpdate
from offheap.recording.model import SERIES, OwnersOverTime, Recording

Rows = NDArray[Any]
Floats = NDArray[np.float64]

# Number of snapshots: enough for the verdict's eras, and for a sparkline.
_SNAPSHOTS = 48
# Share of one CPU for names and verdicts in the long run.  At first the follower renews them whenever the
# followed time has doubled: a verdict after one second shows nothing, and half a minute is long to wait.
_SHARE_OF_CPU = 0.003
_FIRST_RENEWAL = 4.0  # seconds
# In a shorter window the rate of survivors' births shows more than two updates.
_SHORTEST_WINDOW = 3.0  # seconds


class Source(Protocol):
    """The part of recording.capture.live_source that a Follower uses."""

    def update(self) -> LiveUpdate | None:
        """The new data; None when there are none."""

    def recording(self) -> Recording:
        """The recording as of the last update; its series may have only that update."""


class Follower:
    """Follows a source.  Not thread-safe; a View never changes.

    `application`: packages that the user names as the application's.
    """

    def __init__(self, source: Source, application: Sequence[str] = ()) -> None:
        self._source = source
        self._application = application
        self._names = Names((), np.zeros(1, np.int64), "")
        self._snapshots: list[LiveSnapshot] = []
        self._spacing = 0.0
        self._latest: Rows = np.zeros(0, SERIES)
        self._baseline: LiveSnapshot | None = None
        self._standings = Standings()
        self._due = 0.0  # time.monotonic() at which names may be renewed
        self._update: LiveUpdate | None = None
        self._ranked: Ranking | None = None  # as old as the names
        self._concluded: Ranking | None = None  # the same, with the owners that count
        self._owners: OwnersOverTime | None = None  # the owners in view; replaced, never changed
        self._taken: OwnersOverTime | None = None  # the owners that the answer includes
        self._began = time.monotonic()
        self._learned: Recording | None = None  # as old as the names; replaced, never changed
        self._java: tuple[Recording, JavaHeapReport | None] | None = None

    def advance(self) -> View | None:
        """The next View; None when the source has nothing new."""
        update = self._source.update()
        if update is None:
            return None
        self._update = update
        if update.whole:
            self._snapshots, self._spacing, self._latest = [], 0.0, np.zeros(0, SERIES)
        for snapshot in self._new_snapshots(update):
            self._keep(snapshot)
        if update.whole or update.over or time.monotonic() >= self._due:
            self._learn(update)
        owners = self._owners
        if owners is not None and not still_count(owners, self._snapshots[-1].time):
            owners = None
        if owners is not self._taken:
            self._taken = owners
            self._names = replace(self._names, answer=self._answer(), owners_time=self._owners_time())
        return self.view()

    def owners(self) -> tuple[OwnersOverTime, OwnersGrowth]:
        """The owners of the RSS by the recording's own readings, as of the last view.  For any thread."""
        assert self._concluded is not None, "advance first"
        over = self._concluded.sites.recording.owners
        return over, owners_now(self._concluded, over)

    def see(self, over: OwnersOverTime, pid: int) -> OwnersGrowth:
        """The owners of the RSS by readings of the process, in seconds since the recording's start.

        For any thread.  The next view's answer includes them.
        """
        assert self._concluded is not None, "advance first"
        self._owners = over
        return owners_now(self._concluded, over, pid)

    def java_heap(self) -> JavaHeapReport | None:
        """The Java heap, as old as the names; None where Java objects were not requested.  For any thread."""
        assert self._learned is not None, "advance first"
        learned = self._learned
        if self._java is None or self._java[0] is not learned:
            self._java = learned, java_heap(learned)
        return self._java[1]

    def mark(self, view: View | None) -> None:
        """Measures growth from this view on; None: over the last two thirds again."""
        self._baseline = view.now if view else None

    def view(self) -> View:
        """The last update, compared with the present baseline."""
        assert self._update is not None, "advance first"
        update, names = self._update, self._names
        live, rows = update.live, self._latest
        weight = 1.0 / live["probability"]
        size = live["size"] * weight
        live_bytes = names.sum(live["stack"], size)
        births = names.sum(live["stack"], size * live["birth"])
        now = self._snapshots[-1].time
        with np.errstate(invalid="ignore", divide="ignore"):
            age = np.maximum(now - births / live_bytes, 0.0)
        start = self._window_start()
        window = now - start.time if start else 0.0
        return View(
            info=update.info,
            names=names,
            snapshots=tuple(self._snapshots),
            live_bytes=live_bytes,
            live_blocks=names.sum(live["stack"], weight),
            allocated=np.maximum(names.sum(rows["stack"], rows["allocated_bytes"]), live_bytes),
            age=age,
            growth=_growth(update, names, start, window)
            if self._baseline and start
            else _judged_growth(names),
            window=window,
            baseline=self._baseline.time if self._baseline else None,
            over=update.over,
            live=live,
        )

    def _window_start(self) -> LiveSnapshot | None:
        """The start of the growth window; None when the followed time is too short."""
        first, now = self._snapshots[0].time, self._snapshots[-1].time
        if self._baseline:
            return self._baseline if now > self._baseline.time else None
        if now - first < _SHORTEST_WINDOW:
            return None
        third = first + (now - first) / 3
        return min(self._snapshots, key=lambda snapshot: abs(snapshot.time - third))

    def _new_snapshots(self, update: LiveUpdate) -> list[LiveSnapshot]:
        process, series = update.process, update.series
        taken = np.unique(np.concatenate((process["time"], series["time"])))
        if not len(taken):
            taken = np.array([update.info.duration_seconds])
        if len(taken) > _SNAPSHOTS:
            taken = taken[np.unique(np.linspace(0, len(taken) - 1, _SNAPSHOTS).round().astype(int))]
        snapshots, start = [], 0
        for at in taken.tolist():
            end = int(np.searchsorted(series["time"], at, "right"))
            self._latest = _renewed(self._latest, series[start:end])
            start = end
            row = process[max(int(np.searchsorted(process["time"], at, "right")) - 1, 0) :][:1]
            snapshots.append(
                LiveSnapshot(
                    time=at,
                    rss_bytes=int(row["rss_bytes"].sum()),
                    live_bytes=float(self._latest["live_bytes"].sum()),
                    threads=int(row["threads"].sum()),
                    rows=self._latest,
                )
            )
        return snapshots

    def _keep(self, snapshot: LiveSnapshot) -> None:
        """Adds a snapshot; the last one is always now, older ones lie ever further apart."""
        snapshot = self._names.place(snapshot)
        if len(self._snapshots) >= 2 and snapshot.time - self._snapshots[-2].time < self._spacing:
            self._snapshots[-1] = snapshot
        else:
            self._snapshots.append(snapshot)
        if len(self._snapshots) > _SNAPSHOTS:
            last = self._snapshots[-1]
            self._snapshots = self._snapshots[:-1:2]
            self._snapshots.append(last)
            span = last.time - self._snapshots[0].time
            self._spacing = 0.99 * span / (len(self._snapshots) - 1)

    def _learn(self, update: LiveUpdate) -> None:
        """Renews names, sites and verdicts."""
        began = time.thread_time()
        recording = with_application(self._source.recording(), self._application)
        if not update.whole:
            recording = replace(recording, series=self._series(), process=self._process(recording.process))
        # The final answer equals that of `offheap leaks` on the same recording.
        settle = (
            None if update.over else partial(self._standings.settle, time=recording.info.duration_seconds)
        )
        self._learned = recording
        ranked = ranking(recording, settle=settle)
        found = tuple(ranked)
        of_stack = np.full(len(recording.stack_offsets) - 1, len(found), np.int64)
        for number, suspect in enumerate(found):
            of_stack[list(suspect.site.stacks)] = number
        self._ranked = ranked
        self._names = Names(
            found,
            of_stack,
            self._answer(),
            rate_unit=ranked.rate_unit,
            time=self._snapshots[-1].time,
            by_birth=not by_snapshots(recording),
            owners_time=self._owners_time(),
        )
        self._snapshots = [self._names.place(snapshot) for snapshot in self._snapshots]
        cost, now = time.thread_time() - began, time.monotonic()
        self._due = now + min(cost / _SHARE_OF_CPU, max(now - self._began, _FIRST_RENEWAL))

    def _answer(self) -> str:
        """The answer, with the owners that count."""
        assert self._ranked is not None, "learn first"
        whole = self._update is not None and self._update.whole
        series = None if whole or self._taken is None else self._series()
        self._concluded = with_owners(self._ranked, self._taken, series)
        return answer.answer(self._concluded)

    def _owners_time(self) -> float | None:
        return None if self._taken is None else self._taken.times.item(-1)

    def _judged(self) -> list[LiveSnapshot]:
        """The snapshots behind verdicts: only now, if most of the recording's time was not followed."""
        late = self._snapshots[0].time > self._snapshots[-1].time / 2
        return self._snapshots[-1:] if late else self._snapshots

    def _series(self) -> Rows:
        """model.SERIES of the snapshots kept."""
        parts: list[Rows] = []
        before: Rows = np.zeros(0)
        for snapshot in self._judged():
            changed = snapshot.rows["samples"] > 0
            changed[: len(before)] &= snapshot.rows["time"][: len(before)] != before
            part = snapshot.rows[changed]
            part["time"] = snapshot.time
            parts.append(part)
            before = snapshot.rows["time"]
        return np.concatenate(parts)

    def _process(self, now: Rows) -> Rows:
        """model.PROCESS of the snapshots kept."""
        judged = self._judged()
        rows = np.repeat(now[-1:], len(judged))
        for row, snapshot in zip(rows, judged, strict=True):
            row["time"], row["rss_bytes"], row["threads"] = (
                snapshot.time,
                snapshot.rss_bytes,
                snapshot.threads,
            )
            for name in ("live_bytes", "live_blocks", "allocated_bytes"):
                row[name] = snapshot.rows[name].sum()
        return rows


def _renewed(latest: Rows, rows: Rows) -> Rows:
    """By stack: the latest rows, with `rows` in their places.  A new array: snapshots share the old one."""
    count = max(len(latest), int(rows["stack"].max(initial=0)) + 1)
    renewed = np.zeros(count, SERIES)
    renewed["stack"] = np.arange(count)
    renewed[: len(latest)] = latest
    renewed[rows["stack"]] = rows  # by time: the latest wins
    return renewed


def _growth(update: LiveUpdate, names: Names, start: LiveSnapshot, seconds: float) -> Estimates:
    """Bytes per second by site, from a snapshot to the update."""
    live = update.live
    size, probability = live["size"].astype(np.float64), live["probability"]
    weighted = size / probability
    spread = weighted * weighted * (1 - probability)
    stack, new = live["stack"], live["birth"] > start.time

    def total(weights: Floats | None, chosen: NDArray[np.bool_]) -> Floats:
        return names.sum(stack[chosen], None if weights is None else weights[chosen])

    seen, samples = total(size, new), total(None, new)
    unseen = np.maximum(total(weighted, new) - seen, 0.0)
    before = names.sum(start.rows["stack"], start.rows["live_bytes"])
    variance = names.sum(start.rows["stack"], start.rows["live_bytes_variance"])
    old = total(weighted, ~new)
    freed = np.maximum(before - old, 0.0)
    freed = np.where(freed <= 1e-9 * before, 0.0, freed)
    # The sampled part of the freed bytes is known: the same sampled blocks are in both variances.
    freed_variance = np.where(freed > 0, np.maximum(variance - total(spread, ~new), 0.0), 0.0)
    interval = update.info.interval_bytes
    block = (seen + total(size, ~new)) / np.maximum(samples + total(None, ~new), 1)
    most = estimates.hidden(interval, block)
    none = np.zeros(len(seen))
    born = estimates.of_many_sums(seen, unseen, total(spread, new), samples).where(
        samples > 0, Estimates(none, none, most)
    )
    gone = estimates.of_many_sums(none, freed, freed_variance, np.ones(len(freed))).where(
        freed > 0, Estimates(none, none, np.minimum(most, before))
    )
    net = born.less(gone)
    # Births are whole ticks: a birth right after the window's start may appear to be before it.
    late = np.maximum(old - before, 0.0)
    net = Estimates(net.estimate + late, net.low + late, net.high + late)
    return net.over(np.full(len(seen), max(seconds, 1e-9)))


def _judged_growth(names: Names) -> Estimates:
    growth = [suspect.growth_bytes_per_second for suspect in names.suspects]
    columns = ([getattr(g, name) for g in growth] for name in ("estimate", "low", "high"))
    return Estimates(*(np.array([*column, 0.0]) for column in columns))
