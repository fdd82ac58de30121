"""What every stack held at a moment of a recording: the sums from which any group of stacks is estimated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.sites.sites import latest_rows
from offheap.analysis.statistics import estimates, student
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.statistics.estimates import Estimates, Floats
from offheap.recording.model import Recording

_POINTS = 12

# Stack `members[0][i]` is in group `members[1][i]`; a stack may be in several.
Members = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class Sums:
    """By stack, or by group of stacks: estimated totals, of which `seen` was sampled, and variances.

    samples  sampled blocks that are live, 0 where it is not known (then nothing counts as seen)
    """

    bytes: Floats
    bytes_seen: Floats
    bytes_variance: Floats
    blocks: Floats
    blocks_variance: Floats
    samples: Floats

    def grouped(self, members: Members, count: int) -> Sums:
        """Added up by group 0..count-1."""
        stacks, groups = members

        def added(row: Floats) -> Floats:
            if not row.any():  # as half of them are where all blocks were recorded
                return np.zeros(count)
            # bincount counts integers where there is nothing.
            return np.bincount(groups, weights=row[stacks], minlength=count).astype(np.float64)

        return Sums(*map(added, self._rows()))

    def less(self, other: Sums) -> Sums:
        """What is here and not in the other, which is a part of this."""
        return Sums(*(np.maximum(a - b, 0.0) for a, b in zip(self._rows(), other._rows(), strict=True)))

    def byte_estimates(self, interval_bytes: float | Floats, block_bytes: Floats) -> Estimates:
        """With intervals; nothing sampled may hide up to three intervals in blocks of that size."""
        unseen = np.maximum(self.bytes - self.bytes_seen, 0.0)
        found = estimates.of_many_sums(self.bytes_seen, unseen, self.bytes_variance, self.samples)
        return self._hidden(found, interval_bytes, block_bytes, 1.0)

    def block_estimates(self, interval_bytes: float | Floats, block_bytes: Floats) -> Estimates:
        """The same for the number of blocks."""
        unseen = np.maximum(self.blocks - self.samples, 0.0)
        found = estimates.of_many_sums(self.samples, unseen, self.blocks_variance, self.samples)
        return self._hidden(found, interval_bytes, block_bytes, np.maximum(block_bytes, 1.0))

    def _hidden(
        self, found: Estimates, interval_bytes: float | Floats, block_bytes: Floats, unit: Floats | float
    ) -> Estimates:
        most = estimates.hidden(interval_bytes, block_bytes) / unit
        none = np.zeros(len(most))
        return found.where(self.bytes > 0, Estimates(none, none, most))

    def _rows(self) -> list[Floats]:
        return [getattr(self, field.name) for field in fields(self)]


def live_at_end(recording: Recording, born: tuple[float, float] = (-np.inf, np.inf)) -> Sums:
    """Blocks that are live at the end and were born after the first and until the second time."""
    live = recording.live
    live = live[(live["birth"] > born[0]) & (live["birth"] <= born[1])]
    size, probability = live["size"].astype(np.float64), live["probability"]
    missing = (1 - probability) / probability**2

    def by_stack(weights: Floats | None) -> Floats:
        count = len(recording.stack_offsets) - 1
        return np.bincount(live["stack"], weights=weights, minlength=count).astype(np.float64)

    return Sums(
        bytes=by_stack(size / probability),
        bytes_seen=by_stack(size),
        bytes_variance=by_stack(size * size * missing),
        blocks=by_stack(1 / probability),
        blocks_variance=by_stack(missing),
        samples=by_stack(None),
    )


def live_at(recording: Recording, time: float) -> Sums:
    """What was live at the last snapshot until then."""
    column = _columns(recording, time)
    nothing = np.zeros(len(recording.stack_offsets) - 1)
    return Sums(
        bytes=column("live_bytes"),
        bytes_seen=nothing,
        bytes_variance=column("live_bytes_variance"),
        blocks=column("live_blocks"),
        blocks_variance=column("live_blocks_variance"),
        samples=nothing,
    )


def allocated_until(recording: Recording, time: float = np.inf) -> Sums:
    """What had been allocated by then, freed or not; `samples` are those ever taken."""
    column = _columns(recording, time)
    return Sums(
        bytes=column("allocated_bytes"),
        bytes_seen=np.zeros(len(recording.stack_offsets) - 1),
        bytes_variance=column("allocated_bytes_variance"),
        blocks=column("allocated_blocks"),
        blocks_variance=column("allocated_blocks_variance"),
        samples=column("samples"),
    )


def kept(recording: Recording, start: float, end: float | None) -> Sums:
    """What was live at `start` and certainly still was at `end` (None: the end of the recording).

    Blocks that live to the end of the recording tell their births.  Only sums are known of others: no
    more of what was live at `end` can be younger than `start` than was allocated in between.  In an import
    without births the blocks have sizes of the end, which may be more than the stack held at `start`.
    """
    survivors = live_at_end(recording, (-np.inf, start))
    if end is None and recording.info.births:
        return survivors
    before = live_at(recording, start)
    if end is None:
        return replace(
            survivors,
            bytes=np.minimum(survivors.bytes, before.bytes),
            bytes_seen=np.minimum(survivors.bytes_seen, before.bytes),
            blocks=np.minimum(survivors.blocks, before.blocks),
            samples=np.minimum(survivors.samples, before.blocks),
        )
    after = live_at(recording, end)
    between = allocated_until(recording, end).less(allocated_until(recording, start))
    rows = (
        np.minimum(np.maximum(least, here), there)
        for least, here, there in zip(
            survivors._rows(), after.less(between)._rows(), before._rows(), strict=True
        )
    )
    return Sums(*rows)


def peak(recording: Recording, stacks: NDArray[np.bool_]) -> tuple[float, Estimate]:
    """When the live bytes of these stacks were highest, at a snapshot or at the end, and how high."""
    chosen = live_at_end(recording).grouped((np.flatnonzero(stacks), np.zeros(stacks.sum(), np.int64)), 1)
    best = recording.info.duration_seconds, chosen.byte_estimates(0, np.zeros(1)).at(0)
    rows = recording.series[stacks[recording.series["stack"]]]
    if not len(rows):
        return best
    by_stack = np.lexsort((rows["time"], rows["stack"]))
    first = np.diff(rows["stack"][by_stack].astype(np.int64), prepend=-1) != 0

    def running(name: str) -> Floats:
        values = rows[name][by_stack]
        steps = np.empty(len(rows))
        steps[by_stack] = np.where(first, values, np.diff(values, prepend=0.0))
        total: Floats = steps.cumsum()
        return total

    total, variance = running("live_bytes"), running("live_bytes_variance")
    ends = np.flatnonzero(np.diff(rows["time"], append=np.inf))  # a snapshot's last row
    highest = ends[int(total[ends].argmax())]
    if total[highest] > best[1].estimate:
        bytes_ = max(float(total[highest]), 0.0)
        spread = max(float(variance[highest]), 0.0)
        return float(rows["time"][highest]), estimates.of_sums(0.0, bytes_, spread, 1.0)
    return best


@dataclass(frozen=True)
class Levels:
    """Live bytes of every stack at some snapshots: what tells how much they vary.

    times  of the snapshots; none where there are too few of them to tell
    held   [times, stacks]
    """

    times: Floats
    held: Floats

    def fluctuation(self, members: Members, count: int) -> Floats:
        """By group: what its live bytes vary by between the snapshots, apart from their trend.

        Half a 95 % interval: Student's t times the standard deviation of the residuals of a straight line.
        """
        times, (stacks, groups) = self.times, members
        if not len(times):
            return np.zeros(count)
        table = np.array([np.bincount(groups, weights=row[stacks], minlength=count) for row in self.held])
        centred = times - times.mean()
        slope = (centred[:, None] * table).sum(axis=0) / (centred**2).sum()
        residuals = table - table.mean(axis=0) - centred[:, None] * slope
        freedom = len(times) - 2
        deviation: Floats = np.sqrt((residuals**2).sum(axis=0) / freedom)
        return student.quantile(freedom) * deviation


def levels(recording: Recording, start: float, end: float) -> Levels:
    """At up to a dozen of the snapshots from `start` to `end`."""
    times = np.unique(recording.process["time"])
    times = times[(times >= start) & (times <= end)]
    if len(times) < _POINTS // 2:
        return Levels(np.zeros(0), np.zeros((0, len(recording.stack_offsets) - 1)))
    times = np.unique(times[np.linspace(0, len(times) - 1, _POINTS).round().astype(np.int64)])
    return Levels(times, np.array([_columns(recording, time)("live_bytes") for time in times.tolist()]))


def _columns(recording: Recording, time: float) -> Callable[[str], Floats]:
    """column(name): by stack, its value in SERIES at the last snapshot until then; 0 if there was none."""
    last = latest_rows(recording, time)
    known = np.flatnonzero(last >= 0)

    def column(name: str) -> Floats:
        values = np.zeros(len(last))
        values[known] = recording.series[name][last[known]]
        return values

    return column
