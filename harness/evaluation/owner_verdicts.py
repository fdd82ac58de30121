"""The verdicts of `offheap where --watch` on leaks of known rate, added to readings of healthy JVMs.

The readings (tests/data/healthy_processes: NMT off, some with two busy processes on the two CPUs) are the
noise. Each run cuts a window out of one, adds a leak of a known rate to malloc, or none, and asks for the
verdict. The leak comes in blocks of 64 B to 64 KiB at random times, of one size all along, in pages.

right      a leak: native-malloc; none: stable, or nobody is blamed
undecided  of a leak: "cannot tell yet"
excluded   of a leak: "stable: nothing above X", and X is at least its rate: true, and too slow to be seen
wrong      anything else
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.paths import DATA
from offheap.analysis.owners.verdict import judge
from offheap.recording.model import OwnersOverTime

HEALTHY_PROCESSES = DATA / "healthy_processes"
RATES = (0, 3, 10, 30, 100, 300, 1000)  # KB/s
SECONDS = (30, 60, 120)
BLOCKS = (64, 1 << 10, 8 << 10, 64 << 10)  # what `excluded` is about
PAGE = 4096
OUTCOMES = ("right", "undecided", "excluded", "wrong")


@dataclass(frozen=True)
class HealthyProcess:
    """Readings of a real program that does not leak.

    busy   others computed beside it, on both CPUs
    fills  a cache of native memory fills meanwhile, ever slower: no leak is added to it
    """

    name: str
    busy: bool
    fills: bool
    over: OwnersOverTime


def healthy_processes(folder: Path = HEALTHY_PROCESSES) -> list[HealthyProcess]:
    found = []
    for path in sorted(folder.glob("*.json.gz")):
        with gzip.open(path, "rt") as file:
            stored = json.load(file)
        owners = {name: np.array(values, np.float64) * 1024 for name, values in stored["owners_kib"].items()}
        names = sorted(owners)
        table = np.stack([owners[name] for name in names], axis=1)
        gauges = {
            name: np.array([np.nan if v is None else v for v in values], np.float64)
            for name, values in stored["gauges"].items()
        }
        times = np.array(stored["times"], np.float64)
        over = OwnersOverTime(times, names, table, table.sum(axis=1), gauges)
        found.append(HealthyProcess(stored["name"], bool(stored["busy"]), stored["fills"], over))
    return found


def window(over: OwnersOverTime, start: float, seconds: float) -> OwnersOverTime:
    """The readings of these seconds, at most sixty as `where` takes them."""
    chosen = np.flatnonzero((over.times >= start) & (over.times <= start + seconds))
    every = max(seconds / 60, 1.0)
    first = np.searchsorted(over.times[chosen], np.arange(start, start + seconds + every / 2, every))
    chosen = chosen[np.unique(first[first < len(chosen)])]
    return OwnersOverTime(
        over.times[chosen] - start,
        over.names,
        over.bytes[chosen],
        over.rss[chosen],
        {name: values[chosen] for name, values in over.gauges.items()},
    )


def leaking(over: OwnersOverTime, rng: np.random.Generator, rate: float, block: int) -> OwnersOverTime:
    """The readings with a leak of `rate` bytes a second in malloc."""
    seconds = float(over.times[-1] - over.times[0])
    at = np.sort(rng.uniform(over.times[0], over.times[-1], rng.poisson(rate * seconds / block)))
    leaked = np.searchsorted(at, over.times, "right") * float(block)
    leaked = np.ceil(leaked / PAGE) * PAGE
    table = over.bytes.copy()
    table[:, over.names.index("malloc")] += leaked
    return OwnersOverTime(over.times, over.names, table, over.rss + leaked, over.gauges)


def outcome(over: OwnersOverTime, rate: float) -> str:
    verdict = judge(over).verdict
    if not rate:
        return "right" if verdict.kind in ("stable", "cannot tell yet") else "wrong"
    if verdict.kind == "native-malloc":
        return "right"
    if verdict.kind == "cannot tell yet":
        return "undecided"
    held = verdict.kind == "stable" and verdict.excluded is not None and verdict.excluded >= rate
    return "excluded" if held else "wrong"


def evaluate(
    noise: list[HealthyProcess], rates: tuple[int, ...], spans: tuple[int, ...], runs: int, seed: int = 1
) -> dict[tuple[int, int], Counter[str]]:
    """Outcomes by (rate in KB/s, seconds)."""
    rng = np.random.default_rng(seed)
    found: dict[tuple[int, int], Counter[str]] = {}
    for rate in rates:
        for seconds in spans:
            counts = found.setdefault((rate, seconds), Counter())
            for run in range(runs):
                one = noise[run % len(noise)].over
                left = float(one.times[-1]) - seconds
                if left < -1:
                    continue
                part = window(one, float(rng.uniform(0, max(left, 0.0))), seconds)
                block = int(BLOCKS[rng.integers(len(BLOCKS))])
                counts[
                    outcome(leaking(part, rng, rate * 1000.0, block) if rate else part, rate * 1000.0)
                ] += 1
    return found
