"""The tables of a series of heap profiles, by whole columns: a large dump has 100,000 stacks.

jemalloc counts samples: a stack of n samples with s bytes in all stands for n, s times 1/(1 - e^(-(s/n)/T)),
as jeprof unbiases them (docs: jemalloc's `doc_internal/PROFILING_INTERNALS.md`).  The variance of a total of
n samples of equal blocks, each taken with the probability p, is total^2 (1 - p) / n.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from offheap.formats.imported.stack_tables import MOST_ROWS, Total, blocks
from offheap.recording.model import LIVE, PROCESS, SERIES

Floats = NDArray[np.float64]
_NAMES = ("live_blocks", "live_bytes", "allocated_blocks", "allocated_bytes")


class HeapTables:
    """Adds one dump after the other.  interval: mean bytes between samples; 0: every block is counted."""

    def __init__(self, interval: int) -> None:
        self._interval = interval
        # By stack number, which begin at 1.
        self._now = np.zeros((1, 4))
        self._sampled = np.zeros((1, 2))  # live samples, samples ever
        self._first = np.zeros(1)
        self._series = [np.zeros(0, SERIES)]
        self._process: list[tuple[float, ...]] = []

    def add(self, time: float, numbers: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Counts as in `Dump.counts`, of the stacks of these numbers, of which several may be equal."""
        self._widen(int(numbers.max(initial=0)) + 1, time)
        exact = counts.astype(np.float64)
        totals = np.hstack((_unbiased(exact[:, :2], self._interval), _unbiased(exact[:, 2:], self._interval)))
        now = np.zeros_like(self._now)
        sampled = np.zeros_like(self._sampled)
        np.add.at(now, numbers, totals)
        np.add.at(sampled, numbers, np.column_stack((exact[:, 0], np.maximum(exact[:, 0], exact[:, 2]))))
        # Allocated amounts never fall, and are at least what is live: the least that the file allows to say.
        now[:, 2:] = np.maximum.reduce((now[:, 2:], now[:, :2], self._now[:, 2:]))
        sampled[:, 1] = np.maximum(sampled[:, 1], self._sampled[:, 1])
        changed = np.flatnonzero((now != self._now).any(axis=1))
        self._now, self._sampled = now, sampled
        self._series.append(self._rows(time, changed))
        live_blocks, live_bytes, _, allocated_bytes = now.sum(axis=0).tolist()
        self._process.append((time, 0, live_bytes, live_blocks, allocated_bytes, 0))

    def series(self) -> NDArray[np.void]:
        return np.concatenate(self._series)

    def process(self) -> NDArray[np.void]:
        return np.array(self._process, PROCESS)

    def live(self) -> tuple[NDArray[np.void], bool]:
        """(LIVE after the last dump, a row a block or a sample; whether a row may stand for several)."""
        held = np.flatnonzero((self._now[:, 0] > 0) & (self._now[:, 1] > 0))
        if not self._interval:
            rows = self._now[held].tolist()
            totals = {number: Total(*row) for number, row in zip(held.tolist(), rows, strict=True)}
            return blocks(totals, dict(zip(held.tolist(), self._first[held].tolist(), strict=True)))
        counts, sizes = self._now[held, 0], self._now[held, 1]
        samples = self._sampled[held, 0]
        share = min(1.0, MOST_ROWS / max(float(samples.sum()), 1.0))
        repeats = np.maximum(np.rint(samples * share), 1.0)
        # A size is a whole number; the weight makes up for its rounding, so that the rows sum to the total.
        mean = np.maximum(np.floor(sizes / counts), 1.0)
        times = repeats.astype(np.int64)
        live = np.zeros(int(times.sum()), LIVE)
        live["stack"] = np.repeat(held, times)
        live["size"] = np.repeat(mean, times)
        live["birth"] = np.repeat(self._first[held], times)
        live["probability"] = np.repeat(np.minimum(1.0, repeats * mean / sizes), times)
        return live, share < 1

    def _widen(self, length: int, time: float) -> None:
        more = length - len(self._now)
        if more > 0:
            self._now = np.pad(self._now, ((0, more), (0, 0)))
            self._sampled = np.pad(self._sampled, ((0, more), (0, 0)))
            self._first = np.pad(self._first, (0, more), constant_values=time)

    def _rows(self, time: float, changed: NDArray[np.int64]) -> NDArray[np.void]:
        rows = np.zeros(len(changed), SERIES)
        rows["time"], rows["stack"] = time, changed
        for column, name in enumerate(_NAMES):
            rows[name] = self._now[changed, column]
        rows["samples"] = np.minimum(rows["allocated_blocks"], 2.0**63)
        if self._interval:
            rows["samples"] = self._sampled[changed, 1]
            for column, what in enumerate(("live", "allocated")):
                samples = self._sampled[changed, column]
                total = rows[f"{what}_blocks"]
                probability = np.clip(samples / np.maximum(total, 1e-9), 0.0, 1.0)
                relative = (1 - probability) / np.maximum(samples, 1.0)
                rows[f"{what}_blocks_variance"] = total**2 * relative
                rows[f"{what}_bytes_variance"] = rows[f"{what}_bytes"] ** 2 * relative
        return rows


def _unbiased(counts: Floats, interval: int) -> Floats:
    """(n, 2) of blocks and bytes."""
    if not interval:
        return counts
    filled = (counts > 0).all(axis=1)
    weight = np.ones(len(counts))
    weight[filled] = -1 / np.expm1(-counts[filled, 1] / counts[filled, 0] / interval)
    weighted: Floats = counts * weight[:, None]
    return weighted
