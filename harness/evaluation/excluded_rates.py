"""What a recording excludes ("no leak above X") in simulated programs, and whether that is true.

A healthy program is recorded and judged, and X is noted. Then it is recorded again, with a leak beside it.
"""

from __future__ import annotations

import numpy as np

from harness.evaluation import scenarios, simulated_verdicts
from harness.simulation import INTERVAL, Leak, Process, inflater
from offheap.analysis.leaks.conclusion import conclude
from offheap.analysis.leaks.leaks import Ranking, ranking
from offheap.analysis.stacks import frames
from offheap.analysis.verdicts.power import BLOCK_BYTES

LEAKY = inflater("com.example.Leaky.leak", "com.example.Main.main")
READINGS = (5.0, 10.0, 25.0, 60.0, 120.0)  # seconds
LARGER = (1.0, 1.5, 3.0)  # times X: what a hidden leak leaks
SIZES = (512.0, BLOCK_BYTES)


def judged(process: Process, mode: str, seconds: float) -> Ranking:
    interval = simulated_verdicts.budgeted(process, seconds) if mode == "budget 1 %" else INTERVAL
    return ranking(process.record(interval=interval, exact=mode == "exact", until=seconds))


def healthy(seconds: float, seed: int) -> Process:
    """One of the healthy kinds, the same for the same seed."""
    kinds = scenarios.healthy(np.random.default_rng(seed))
    return kinds[seed % len(kinds)].process(seconds, seed)[0]


def excluded(mode: str, seconds: float, seed: int) -> float:
    """X of the healthy program, bytes a second."""
    return conclude(judged(healthy(seconds, seed), mode, seconds)).power.bytes_per_second


def reported(mode: str, seconds: float, seed: int) -> bool:
    """Whether a leak at a stack of its own, at the rate that is excluded for such, is reported."""
    power = conclude(judged(healthy(seconds, seed), mode, seconds)).power
    process, size = healthy(seconds, seed), SIZES[seed % len(SIZES)]
    leak = process.add(LEAKY, Leak(power.new_site / size, size))
    return _said(judged(process, mode, seconds), leak)


def honest(mode: str, seconds: float, seed: int) -> bool:
    """Whether a leak hidden in a site of the healthy program is said to grow, or is not excluded."""
    rate = excluded(mode, seconds, seed) * LARGER[seed % len(LARGER)]
    process, size = healthy(seconds, seed), SIZES[seed % len(SIZES)]
    used = [n for n, s in enumerate(process.stacks) if not frames.by_jvm(s) and len(process.blocks[n].births)]
    hiding = used[int(np.random.default_rng(seed).integers(len(used)))]
    leak = process.add(process.stacks[hiding], Leak(rate / size, size))
    ranked = judged(process, mode, seconds)
    return _said(ranked, leak) or conclude(ranked).power.bytes_per_second >= rate


def _said(ranked: Ranking, stack: int) -> bool:
    return any(stack in one.site.stacks and one.verdict in ("leak", "growing") for one in ranked)
