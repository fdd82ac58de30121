"""Recordings of sampled blocks with the levels of an owner beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.simulation import Churn, Leak, Process, WarmUp, inflater
from offheap.recording.model import OwnersOverTime, Recording

MIB = 1 << 20
SECONDS = 60.0
LEAKING = "com.example.Feed.open"
# Bytes a second.
BLOCKS = {
    "churn": (Churn(300, 7160, 0.1),),
    "leak": (Churn(300, 7160, 0.1), Leak(40, 7160)),
    "few samples": (Churn(300, 7160, 0.1), Leak(0.3, 7160)),
    "warm-up": (WarmUp(2000, 7160, 4.0),),
}
LEVELS = {
    "flat": ("malloc", 0.0),
    "as the leak": ("malloc", 40 * 7160.0),
    "much": ("malloc", 4.0 * MIB),
    "anonymous": ("anonymous", 1.0 * MIB),
    "direct": ("direct-buffers", 1.0 * MIB),
    "files": ("mapped-files", 1.0 * MIB),
    "falls": ("malloc", -0.2 * MIB),
}


def owners(name: str, rate: float, seed: int = 1, start: float = 30.0 * MIB) -> OwnersOverTime:
    """One owner that grows at a rate, and a Java heap that does not."""
    times = np.arange(2.0, SECONDS + 1, 2.0)
    noise = np.random.default_rng(seed).normal(0, 20_000, (2, len(times)))
    held = np.array([start + rate * times, np.full(len(times), 80.0 * MIB)]) + noise
    return OwnersOverTime(times, [name, "java-heap"], held.T, held.sum(axis=0))


def recorded(blocks: str, level: str, seed: int = 3) -> Recording:
    process = Process(SECONDS, seed)
    process.add(inflater(LEAKING), *BLOCKS[blocks])
    recording = process.record(interval=32 << 10)
    name, rate = LEVELS[level]
    return replace(recording, owners=owners(name, rate))
