"""The history of each site over the recording: births of its survivors, and live memory over time.

Boundaries common to all sites cut time into eras.  For every site and era, the history has the bytes born in
the era and alive at the end.  With snapshots it also has the live bytes at each boundary; the difference to
the survivors born until then was freed since.  The sampled part of the difference is known exactly (the
same sampled blocks), so its variance is the difference of the two variances.

Under a budget the sampling interval changes, and numbers of samples depend on it as much as on births.  So
numbers of samples are compared with `exposure`: time weighted by the probability that births are sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.sites.grouping import Grouping
from offheap.analysis.sites.sites import latest_rows
from offheap.analysis.statistics import estimates, student
from offheap.analysis.statistics.estimates import Estimates, Floats
from offheap.recording.model import SHORTEST_AXIS, Recording

# Eight in each third of the time.  The scatter over the sixteen of two thirds has a Student's t of 2.13, near
# that of the normal distribution; more eras would leave fewer samples in each.
ERAS = 24
# They cut the time into six eras, two in each third: a scatter needs two values.
_FEWEST_SNAPSHOTS = 5
# Share of the allocated bytes: a site with less alive has freed blocks, maybe its oldest.
_FREES_NOTHING = 0.9

Boundaries = NDArray[np.int64]  # one per site


@dataclass(frozen=True)
class Histories:
    """All sites: tables of bytes, a row per site, a column per boundary (n + 1 for n eras).

    Methods take one boundary per site, or one for all, and return one value per site.
    """

    times: Floats  # of the boundaries: seconds since the start
    first: Boundaries  # the boundary before each site's first known allocation
    born: Floats  # live at the end and born until the boundary
    seen: Floats  # the sampled part of `born`
    variance: Floats  # of `born`
    samples: Floats  # sampled blocks in `born`
    live: Floats | None  # live at the boundary; None without snapshots
    live_variance: Floats | None
    births: Floats | None  # sampled blocks born until the boundary, alive or not; None without snapshots
    exposure: Floats  # seconds until the boundary, weighted by how finely the site was sampled
    interval_bytes: int
    block_bytes: Floats  # a typical block of each site, 0 if none was sampled alive

    @property
    def end(self) -> int:
        return len(self.times) - 1

    def at(self, share: float | Floats) -> Boundaries:
        """The boundary nearest to this share of each site's own time, from `first` to the end."""
        start = self.times[self.first]
        target = start + share * (self.times[-1] - start)
        after = np.clip(np.searchsorted(self.times, target, "left"), self.first + 1, self.end)
        nearer = target - self.times[after - 1] < self.times[after] - target
        boundary: Boundaries = np.where(nearer, after - 1, after)
        return boundary

    def seconds(self, start: Boundaries | int, end: Boundaries | int) -> Floats:
        result: Floats = self.times[end] - self.times[start]
        return result

    def exposed(self, start: Boundaries | int, end: Boundaries | int) -> Floats:
        """Exposure between two boundaries, never 0."""
        return np.maximum(self._between(self.exposure, start, end), 1e-9)

    def survivors(self, start: Boundaries | int, end: Boundaries | int) -> Estimates:
        """Bytes alive at the end of the recording and born between two boundaries."""
        none = self.sampled(start, end) == 0
        zero = np.zeros(len(none))
        return Estimates(zero, zero, self._hidden()).where(none, self.found(start, end))

    def found(
        self, start: Boundaries | int, end: Boundaries | int, z: float = student.NORMAL_95
    ) -> Estimates:
        """`survivors`, but 0 if none was sampled; `z`: the normal quantile of both ends."""
        samples = self.sampled(start, end)
        seen = self._between(self.seen, start, end)
        unseen = np.maximum(self._between(self.born, start, end) - seen, 0.0)
        variance = np.maximum(self._between(self.variance, start, end), 0.0)
        return estimates.of_many_sums(seen, unseen, variance, samples, z)

    def sampled(self, start: Boundaries | int, end: Boundaries | int) -> Floats:
        """How many sampled blocks `survivors` are estimated from."""
        return self._between(self.samples, start, end)

    def mean_size(self, start: Boundaries | int, end: Boundaries | int) -> Floats:
        """Mean bytes of a sampled block of `survivors`, 0 if there is none."""
        return self._between(self.seen, start, end) / np.maximum(self.sampled(start, end), 1)

    def born_sampled(self, start: Boundaries | int, end: Boundaries | int) -> Floats:
        """Number of sampled blocks born between two boundaries, alive or not."""
        if self.births is None:
            raise ValueError("without snapshots it is not known how many blocks were born")
        return self._between(self.births, start, end)

    def live_at(self, boundary: Boundaries | int) -> Floats:
        if self.live is None:
            raise ValueError("without snapshots what was live is not known")
        return self._column(self.live, boundary)

    def freed_since(self, boundary: Boundaries | int) -> Estimates:
        """Bytes alive at a boundary and freed since."""
        alive = self.live_at(boundary)
        freed = np.maximum(alive - self._column(self.born, boundary), 0.0)
        assert self.live_variance is not None
        variance = self._column(self.live_variance, boundary) - self._column(self.variance, boundary)
        variance = np.maximum(variance, 0.0)
        none = freed <= 1e-9 * alive
        if self.interval_bytes:
            none |= variance <= 0
        zero = np.zeros(len(freed))
        # No sampled block was freed; others may have been, but no more than were alive.
        nothing = Estimates(zero, zero, np.minimum(self._hidden(), alive))
        return nothing.where(none, estimates.of_many_sums(zero, freed, variance, np.ones(len(freed))))

    def freed_samples(self, boundary: Boundaries | int) -> Floats:
        """Number of sampled blocks behind `freed_since`, if freed blocks are like the survivors."""
        freed = np.maximum(self.live_at(boundary) - self._column(self.born, boundary), 0.0)
        samples = np.maximum(self.samples[:, -1], 1)
        # Coarser sampling means more bytes per sample: before the boundary, and when survivors were born.
        then = self.seconds(self.first, boundary) / self.exposed(self.first, boundary)
        rarity = np.diff(self.times) / np.diff(self.exposure)
        survivors = (np.diff(self.samples) * rarity).sum(axis=1) / samples
        each = self.born[:, -1] / samples * then / np.where(survivors > 0, survivors, 1.0)
        return np.where(each > 0, freed / np.where(each > 0, each, 1.0), 0.0)

    def net(self, start: Boundaries | int) -> Estimates:
        """Growth in bytes from a boundary to the end: born since and alive, less freed since."""
        return self.survivors(start, self.end).less(self.freed_since(start))

    def scatter(self, start: Boundaries, end: Boundaries | int) -> tuple[Floats, NDArray[np.int64]]:
        """Standard error of growth in bytes per second, era by era, and how many eras there are.

        Growth of live bytes, or of survivors without snapshots; 0 with fewer than two eras.
        """
        return self._scatter(self.live if self.live is not None else self.born, start, end)

    def dispersion(self, start: Boundaries, end: Boundaries | int) -> Floats:
        """The scatter of survivors' births over their scatter by chance; at least 1.

        The squared differences between the rates of neighbouring eras, over their expectation by chance.
        Neighbours, because a slow rise or fall is no scatter.
        """
        within = self.eras(start, end)
        rate = self.sampled(start, end) / self.exposed(start, end)
        pairs = within[:, 1:] & within[:, :-1]
        squares = np.einsum("ij,ij->i", self._steps, pairs) / np.where(rate > 0, rate, 1.0)
        ratio: Floats = np.maximum(squares / np.maximum(pairs.sum(axis=1), 1), 1.0)
        return np.where(rate > 0, ratio, 1.0)

    @cached_property
    def _steps(self) -> Floats:
        """The squares of `dispersion`, over their expectation by chance at a rate of one."""
        widths = np.diff(self.exposure)
        steps: Floats = np.diff(np.diff(self.samples) / widths) ** 2
        steps /= 1 / widths[:, 1:] + 1 / widths[:, :-1]
        return steps

    def filled(self, start: Boundaries | int, end: Boundaries | int) -> NDArray[np.int64]:
        """How many eras left sampled survivors."""
        filled: NDArray[np.int64] = ((np.diff(self.samples) > 0) & self.eras(start, end)).sum(axis=1)
        return filled

    def _scatter(
        self, table: Floats, start: Boundaries | int, end: Boundaries | int
    ) -> tuple[Floats, NDArray[np.int64]]:
        rates, within = np.diff(table) / np.diff(self.times), self.eras(start, end)
        count = within.sum(axis=1)
        mean = (rates * within).sum(axis=1) / np.maximum(count, 1)
        squares = ((rates - mean[:, None]) ** 2 * within).sum(axis=1)
        error = np.sqrt(squares / np.maximum(count - 1, 1) / np.maximum(count, 1))
        return np.where(count < 2, 0.0, error), count

    def eras(self, start: Boundaries | int, end: Boundaries | int) -> NDArray[np.bool_]:
        """Which eras lie between two boundaries: a row per site."""
        era = np.arange(self.end)
        after = era >= np.broadcast_to(start, len(self.first))[:, None]
        before = era < np.broadcast_to(end, len(self.first))[:, None]
        return after & before

    def _between(self, table: Floats, start: Boundaries | int, end: Boundaries | int) -> Floats:
        return self._column(table, end) - self._column(table, start)

    def _column(self, table: Floats, boundary: Boundaries | int) -> Floats:
        # For one boundary for all sites a column is many times as fast as an index into each row.
        if isinstance(boundary, int):
            return table[:, boundary]
        places = np.arange(0, table.size, table.shape[1]) + boundary
        values: Floats = table.ravel().take(places)
        return values

    def _hidden(self) -> Floats:
        return estimates.hidden(self.interval_bytes, self.block_bytes)


def histories(recording: Recording, grouping: Grouping) -> Histories:
    """The history of every site, by number."""
    times, snapshots = _boundaries(recording)
    count, eras = len(grouping.members), len(times) - 1
    live = recording.live
    size = live["size"].astype(np.float64)
    probability = live["probability"]
    site = grouping.of_stack[live["stack"]]
    era = np.clip(np.searchsorted(times, live["birth"], "left") - 1, 0, eras - 1)
    cell = site * eras + era

    def by_era(weights: Floats | None) -> Floats:
        table = np.bincount(cell, weights=weights, minlength=count * eras)
        return table.astype(np.float64, copy=False).reshape(count, eras)

    weighted = size / probability
    born, seen, samples = by_era(weighted), by_era(size), by_era(None)
    variance = by_era(weighted * weighted * (1 - probability))

    first = np.where(samples.any(axis=1), (samples > 0).argmax(axis=1), eras)
    total, total_samples = born.sum(axis=1), samples.sum(axis=1)
    at: Floats | None = None
    at_variance: Floats | None = None
    births: Floats | None = None
    if snapshots:
        names = ("live_bytes", "live_bytes_variance", "samples")
        (at, at_variance, births), began = totals_at(recording, grouping, times, names)
        # The live set is read after the last snapshot, so it defines the end.
        at[:, -1], at_variance[:, -1] = total, variance.sum(axis=1)
        first = np.minimum(first, began)
    else:
        last = latest_rows(recording, times[-1])
        last = last[last >= 0]
        # The oldest survivor marks the site's beginning only if the site frees nothing.
        allocated = np.bincount(
            grouping.of_stack[recording.series["stack"][last]],
            weights=recording.series["allocated_bytes"][last],
            minlength=count,
        )
        first[total < _FREES_NOTHING * allocated] = 0

    block_bytes = seen.sum(axis=1) / np.maximum(total_samples, 1)

    def running(table: Floats) -> Floats:
        return np.pad(table.cumsum(axis=1), ((0, 0), (1, 0)))

    return Histories(
        times=times,
        first=np.minimum(first, eras - 1),
        born=running(born),
        seen=running(seen),
        variance=running(variance),
        samples=running(samples),
        live=at,
        live_variance=at_variance,
        births=births,
        exposure=exposure(recording, times, era, site, count)
        if recording.info.budget is not None
        else even_exposure(times, count),
        interval_bytes=recording.info.interval_bytes,
        block_bytes=block_bytes,
    )


def even_exposure(times: Floats, count: int) -> Floats:
    """`Histories.exposure` of so many sites where the sampling interval never changes."""
    widths = np.broadcast_to(np.diff(times), (count, len(times) - 1))
    elapsed: Floats = np.pad(widths.cumsum(axis=1), ((0, 0), (1, 0)))
    return elapsed


def exposure(
    recording: Recording, times: Floats, era: NDArray[np.int64], site: NDArray[np.int64], count: int
) -> Floats:
    """By site and boundary: `Histories.exposure`; `era` and `site` are those of each live block.

    A second of the era with the finest sampling of the site counts in full; a second of another era counts
    as the ratio of the numbers of samples to expect of the site's blocks in both eras.  Its blocks may have
    any sizes: the large ones hold most bytes and are sampled in any case, the small ones are most samples.
    """
    live = recording.live
    size = np.maximum(live["size"].astype(np.float64), 1.0)
    # A site without survivors counts as one of blocks of a byte.
    classes, of = np.unique(np.append(size_class(size), 0), return_inverse=True)
    blocks = 1 / live["probability"]
    cell = site * len(classes) + of[:-1]
    table = np.bincount(cell, weights=blocks, minlength=count * len(classes)).reshape(count, len(classes))
    table[~table.any(axis=1), 0] = 1.0
    number = np.bincount(of[:-1], weights=blocks, minlength=len(classes))
    mean = np.bincount(of[:-1], weights=size * blocks, minlength=len(classes)) / np.maximum(number, 1.0)
    intervals = intervals_by_era(recording, era, len(times) - 1, classes)
    probability = -np.expm1(-np.maximum(mean, 1.0)[:, None] / intervals)
    # Not @: BLAS wakes one thread per processor.
    expected = np.einsum("sc,ce->se", table, probability)
    widths = np.diff(times) * expected / expected.max(axis=1, keepdims=True)
    weighted: Floats = np.pad(widths.cumsum(axis=1), ((0, 0), (1, 0)))
    return weighted


def size_class(size: Floats) -> NDArray[np.int64]:
    """A class is an octave of sizes; its blocks share one interval at a time (probe/sampling/budget.h)."""
    return np.log2(np.maximum(size, 1.0)).astype(np.int64)


def intervals_by_era(
    recording: Recording, era: NDArray[np.int64], eras: int, classes: NDArray[np.int64]
) -> Floats:
    """The mean interval in each era (column) of a size class (row, in the order of the request).

    The survivors show the intervals; eras without survivors take those of their neighbours, a class without
    survivors takes those of all classes together, and in eras without any of its own their change.
    """
    live = recording.live
    told = live["probability"] < estimates.NEARLY_SURE
    size = np.maximum(live["size"].astype(np.float64), 1.0)  # a block of 0 bytes is sampled as one of 1
    inverse = -np.log1p(-np.minimum(live["probability"], estimates.NEARLY_SURE)) / size
    of = size_class(size)

    def known(chosen: NDArray[np.bool_]) -> tuple[NDArray[np.int64], Floats]:
        count = np.bincount(era[chosen], minlength=eras)
        some = np.flatnonzero(count)
        return some, np.bincount(era[chosen], weights=inverse[chosen], minlength=eras)[some] / count[some]

    some, mean = known(told)
    together = (
        np.interp(np.arange(eras), some, mean)
        if len(some)
        else np.full(eras, 1 / max(recording.info.interval_bytes, 1))
    )
    rows = {}
    for number in np.unique(of).tolist():
        its = of == number
        some, mean = known(its & told if (its & told).any() else its)
        # The budget moves the intervals of all classes, though not to the same value.
        rows[number] = together * np.interp(np.arange(eras), some, mean / together[some])
    return 1 / np.array([rows.get(number, together) for number in classes.tolist()])


def by_snapshots(recording: Recording) -> bool:
    """Whether live bytes at the boundaries are known: there are enough snapshots."""
    return _boundaries(recording)[1]


def _boundaries(recording: Recording) -> tuple[Floats, bool]:
    """Era boundaries from 0 to the end, and whether each is a snapshot.

    With enough snapshots the boundaries are snapshots: live memory between two of them is unknown.
    """
    if recording.info.live_time > 0:
        # With snapshots newer than the live set, births that the live set lacks would look freed.
        end = recording.info.live_time
    else:
        end = max(recording.info.duration_seconds, float(recording.process["time"].max(initial=0.0)))
    end = max(end, float(recording.live["birth"].max(initial=0.0)), SHORTEST_AXIS)
    even = np.linspace(0.0, end, ERAS + 1)
    taken = np.unique(np.concatenate((recording.process["time"], recording.series["time"])))
    taken = taken[(taken > 0) & (taken < end)]
    if len(taken) < _FEWEST_SNAPSHOTS:
        return even, False
    nearest = np.searchsorted((taken[1:] + taken[:-1]) / 2, even[1:-1])
    return np.unique(np.concatenate(([0.0], taken[nearest], [end]))), True


def totals_at(
    recording: Recording, grouping: Grouping, times: Floats, names: Sequence[str]
) -> tuple[list[Floats], NDArray[np.int64]]:
    """By site (row) and time (column, in order): these columns of SERIES as of the last snapshot until then.

    And by site: the place in `times` before the first allocation.
    """
    series = recording.series
    count = len(grouping.members)
    tables = [np.zeros((count, len(times))) for _ in names]
    # A separate column is contiguous: random rows of the whole array cost a cache miss each.
    columns = [np.ascontiguousarray(series[name]) for name in names]
    latest = np.full(len(grouping.of_stack), -1, np.int64)
    began = np.full(count, len(times))
    cuts = np.searchsorted(series["time"], times, "right")
    start = 0
    for column, end in enumerate(cuts.tolist()):
        stacks = series["stack"][start:end]
        latest[stacks] = np.arange(start, end)  # by time: the latest row wins
        known = np.flatnonzero(latest >= 0)
        rows, of = latest[known], grouping.of_stack[known]
        for table, values in zip(tables, columns, strict=True):
            table[:, column] = np.bincount(of, weights=values[rows], minlength=count)
        began[grouping.of_stack[stacks]] = np.minimum(began[grouping.of_stack[stacks]], max(column - 1, 0))
        start = end
    return tables, began
