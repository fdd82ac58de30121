"""Recordings made from tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from harness.simulation.behaviours import Floats
from harness.simulation.stacks import MALLOC, java, native
from offheap.recording.model import (
    LIVE,
    PROCESS,
    SERIES,
    Budget,
    Frame,
    Info,
    Recording,
)


def build(
    stacks: Sequence[Sequence[Frame]],
    kinds: Sequence[int],
    threads: Sequence[str],
    live: NDArray[np.void],
    series: NDArray[np.void],
    *,
    duration: float,
    interval: int,
    times: Floats,
    lost: dict[str, int] | None = None,
    coverage: tuple[str, ...] = (),
    budget: Budget | None = None,
) -> Recording:
    """A Recording of these rows: it numbers distinct frames, and derives RSS from the live bytes."""
    numbers: dict[Frame, int] = {}
    flat = [numbers.setdefault(frame, len(numbers)) for stack in stacks for frame in stack]
    process = np.zeros(len(times), PROCESS)
    process["time"] = times
    rows = series[np.argsort(series["time"], kind="stable")]
    ends = np.searchsorted(rows["time"], times, "right")
    latest = np.zeros(len(stacks), SERIES)
    for index, (begin, end) in enumerate(pairwise((0, *ends))):
        latest[rows["stack"][begin:end]] = rows[begin:end]
        process["live_bytes"][index] = latest["live_bytes"].sum()
        process["live_blocks"][index] = latest["live_blocks"].sum()
        process["allocated_bytes"][index] = latest["allocated_bytes"].sum()
    process["rss_bytes"] = (process["live_bytes"] + 50e6).astype(np.uint64)
    process["threads"] = 20
    return Recording(
        info=Info(
            path="simulated.offheap",
            pid=4711,
            mode="sampled" if interval else "exact",
            interval_bytes=interval,
            start=1_700_000_000.0,
            duration_seconds=duration,
            ended="exited",
            entry="preload",
            java_version="17.0.9",
            main_class="com.example.Main",
            lost=lost or {},
            joined=int(series["samples"].max(initial=0)),
            coverage=coverage,
            probe_version="0.1.0",
            budget=budget,
            process_age=0.0,
        ),
        frames=list(numbers),
        stack_frames=np.array(flat, np.int32),
        stack_offsets=np.concatenate(([0], np.cumsum([len(stack) for stack in stacks]))).astype(np.int64),
        stack_kinds=np.array(kinds, np.uint8),
        threads=list(threads),
        modules=[],
        live=live,
        series=series,
        process=process,
    )


def large(blocks: int, stacks: int, snapshots: int = 20, seed: int = 3) -> Recording:
    """An exact recording of ten minutes, as large as recordings get; every stack leaks."""
    random = np.random.default_rng(seed)
    chains: list[tuple[Frame, ...]] = [()]
    for number in range(stacks):
        name = f"com.example.Codec{number % 300}"
        # The number's bits choose the callers, so that stacks share frames as in real programs.
        callers = (
            java(f"com.example.Part{(number >> depth % 13) % 37}.m{depth}", depth + 1) for depth in range(30)
        )
        chains.append(
            (MALLOC, native(f"inner_{number % 50}"), native(f"Java_{name}"), java(f"{name}.call"), *callers)
        )
    live = np.zeros(blocks, LIVE)
    live["stack"] = 1 + random.integers(0, stacks, blocks)
    live["size"] = random.integers(16, 9000, blocks)
    live["birth"] = random.uniform(0, 600, blocks)
    live["probability"] = 1.0
    times = np.linspace(0, 600, snapshots + 1)[1:]
    series = np.zeros(snapshots * stacks, SERIES)
    series["time"] = np.repeat(times, stacks)
    series["stack"] = np.tile(np.arange(1, stacks + 1), snapshots)
    cell = np.searchsorted(times, live["birth"]) * stacks + live["stack"].astype(np.int64) - 1
    for weights, columns in (
        (None, ("samples", "live_blocks", "allocated_blocks")),
        (live["size"], ("live_bytes", "allocated_bytes")),
    ):
        born = np.bincount(cell, weights=weights, minlength=len(series)).reshape(snapshots, stacks)
        for column in columns:
            series[column] = born.cumsum(axis=0).ravel()
    kinds = [0] + [1] * stacks
    return build(chains, kinds, ["worker"], live, series, duration=600, interval=0, times=times[:1])
