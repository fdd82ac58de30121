"""A simulated process: each call path has a behaviour, and a recording samples it as the probe does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from harness.simulation.behaviours import Behaviour, Blocks, Floats, Flow
from harness.simulation.tables import build
from offheap.recording.model import (
    LIVE,
    SERIES,
    Budget,
    CollectionKind,
    Collections,
    Frame,
    Recording,
)

INTERVAL = 512 * 1024


@dataclass
class Process:
    """A process whose truth is known; each `add` is a stack."""

    duration: float = 20.0
    seed: int = 0
    stacks: list[tuple[Frame, ...]] = field(default_factory=lambda: [()])
    kinds: list[int] = field(default_factory=lambda: [0])
    blocks: list[Blocks] = field(default_factory=lambda: [Blocks(np.zeros(0), np.zeros(0), np.zeros(0))])
    threads: list[str] = field(default_factory=lambda: ["other threads"])
    flows: dict[int, Flow] = field(default_factory=dict)
    collections: list[tuple[float, CollectionKind]] | None = None  # when they began; None: nobody counts them

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def add(
        self,
        stack: Sequence[Frame],
        *behaviours: Behaviour,
        kind: int = 1,
        thread: str = "worker",
        flow: Flow | None = None,
    ) -> int:
        """Adds a stack with these behaviours, which add up, and returns its number."""
        joined = Blocks(np.zeros(0), np.zeros(0), np.zeros(0))
        for behaviour in behaviours:
            joined = joined + behaviour.draw(self.duration, self.random)
        if flow:
            self.flows[len(self.stacks)] = flow
        order = np.argsort(joined.births, kind="stable")
        self.blocks.append(Blocks(joined.births[order], joined.deaths[order], joined.sizes[order]))
        self.stacks.append(tuple(stack))
        self.kinds.append(kind)
        self.threads.append(thread)
        return len(self.stacks) - 1

    def truth(self, stack: int) -> tuple[int, float]:
        """Live blocks and bytes of a stack at the end."""
        blocks = self.blocks[stack]
        alive = blocks.deaths > self.duration
        return int(alive.sum()), float(blocks.sizes[alive].sum())

    def record(
        self,
        *,
        interval: int | Callable[[Floats, Floats], Floats] = INTERVAL,
        exact: bool = False,
        snapshots: int | None = None,
        seed: int | None = None,
        until: float | None = None,
    ) -> Recording:
        """Sample the process.  `snapshots`: how many, evenly spread to the end; 1 is a bare live file.

        `interval` may depend on the time of birth and the size, as under a budget; flows take its mean.
        `until`: the recording ends then, the process goes on. The same seed samples the same blocks.
        """
        random = np.random.default_rng(self.seed + 1000 if seed is None else seed)
        end = self.duration if until is None else until
        count = max(int(min(end, 60)), 2) if snapshots is None else snapshots
        times = np.linspace(0, end, count + 1)[1:]
        budget = None
        if callable(interval):
            known = [blocks.sizes for blocks in self.blocks] + [
                np.array([flow.size]) for flow in self.flows.values()
            ]
            times_and_sizes = np.linspace(0, end, 1000)[:, None], np.unique(np.concatenate(known))[None, :]
            over = interval(*times_and_sizes) + np.zeros(1)
            mean = round(float((1 / (1 / over).mean(axis=0)).max()))
            budget = Budget(
                0.01, end, 0.01 * end, round(over.min()), round(over.max()), round(over[-1].max())
            )
        else:
            mean = interval
        live, series = [], []
        for number, blocks in enumerate(self.blocks):
            means = interval(blocks.births, blocks.sizes) if callable(interval) else interval
            probabilities = np.ones(len(blocks.sizes)) if exact else -np.expm1(-blocks.sizes / means)
            taken = random.random(len(blocks.sizes)) < probabilities
            births, deaths = np.round(blocks.births[taken], 2), blocks.deaths[taken]
            sizes, p = blocks.sizes[taken], probabilities[taken]
            begun = births <= end
            births, deaths, sizes, p = births[begun], deaths[begun], sizes[begun], p[begun]
            alive = deaths > end
            rows = np.zeros(int(alive.sum()), LIVE)
            rows["stack"], rows["thread"] = number, number
            rows["size"], rows["birth"], rows["probability"] = sizes[alive], births[alive], p[alive]
            live.append(rows)
            series.append(_series(number, times, births, deaths, sizes, p))
            if number in self.flows:
                # The flow is drawn last, so that the other blocks do not depend on it.
                extra = np.random.default_rng((self.seed, number, int(end)))
                flow = self.flows[number]
                its = mean
                if callable(interval):
                    its = round(
                        1 / float((1 / interval(np.linspace(0, end, 1000), np.array(flow.size))).mean())
                    )
                live.append(_flow(flow, number, times, its * (not exact), series, extra))
        rows = np.concatenate(series)
        rows = rows[np.argsort(rows["time"], kind="stable")]
        live_rows = np.concatenate(live)
        random.shuffle(live_rows)
        recording = build(
            self.stacks,
            self.kinds,
            self.threads,
            live_rows,
            rows,
            duration=end,
            interval=0 if exact else mean,
            times=times,
            budget=budget,
        )
        return recording if self.collections is None else replace(recording, collections=self._ran(end))

    def _ran(self, end: float) -> Collections:
        ran = sorted((time, kind) for time, kind in self.collections or () if time <= end)
        begun = np.array([time for time, _ in ran])
        return Collections(
            0.0, tuple(kind for _, kind in ran), begun, begun + 0.01, np.ones(len(ran), np.int64)
        )


def _flow(
    flow: Flow,
    number: int,
    times: Floats,
    interval: int,
    series: list[NDArray[np.void]],
    random: np.random.Generator,
) -> NDArray[np.void]:
    """Adds a flow to the stack's series, the last of `series`, and returns its live blocks at the end."""
    p = float(-np.expm1(-flow.size / interval)) if interval else 1.0
    sampled = flow.rate * p
    came = random.poisson(sampled * np.diff(times, prepend=0.0)).cumsum()
    there = random.poisson(sampled * flow.lifetime, len(times))
    before = series.pop()
    rows = np.zeros(len(times), SERIES)
    # A stack keeps the values of its latest row; a flow has a row at each snapshot.
    last = np.searchsorted(before["time"], times, "right") - 1
    rows[last >= 0] = before[last[last >= 0]]
    rows["time"], rows["stack"] = times, number
    rows["samples"] += came.astype(np.uint64)
    for name, blocks in (("allocated", came), ("live", there)):
        for amount, worth in (("blocks", 1.0), ("bytes", flow.size)):
            rows[f"{name}_{amount}"] += blocks * worth / p
            rows[f"{name}_{amount}_variance"] += blocks * worth**2 * (1 - p) / p**2
    series.append(rows)
    live = np.zeros(there[-1], LIVE)
    live["stack"], live["thread"], live["size"], live["probability"] = number, number, flow.size, p
    live["birth"] = np.maximum(times[-1] - random.exponential(flow.lifetime, there[-1]), 0.0)
    return live


def _series(
    number: int, times: Floats, births: Floats, deaths: Floats, sizes: Floats, p: Floats
) -> NDArray[np.void]:
    weights = {
        "blocks": 1 / p,
        "bytes": sizes / p,
        "blocks_variance": (1 - p) / p**2,
        "bytes_variance": sizes**2 * (1 - p) / p**2,
    }
    rows = np.zeros(len(times), SERIES)
    rows["time"], rows["stack"] = times, number
    by_death = np.argsort(deaths, kind="stable")
    born = np.searchsorted(births, times, "right")
    died = np.searchsorted(deaths[by_death], times, "right")
    rows["samples"] = born
    for name, weight in weights.items():
        allocated = np.concatenate(([0.0], np.cumsum(weight)))[born]
        freed = np.concatenate(([0.0], np.cumsum(weight[by_death])))[died]
        rows[f"allocated_{name}"] = allocated
        rows[f"live_{name}"] = np.where(born == died, 0.0, np.maximum(allocated - freed, 0.0))
    changed = np.concatenate(
        ([rows["samples"][0] > 0], (np.diff(rows["samples"]) > 0) | (np.diff(rows["live_bytes"]) != 0))
    )
    selected: NDArray[np.void] = rows[changed]
    return selected
