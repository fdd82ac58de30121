"""The verdicts on simulated programs of known truth, and their tables.

Births and deaths of blocks are drawn, sampled as the probe samples, seen in snapshots as the recorder takes
them, and judged by the code of `offheap leaks`.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from harness.evaluation import scenarios
from harness.evaluation.scenarios import Scenario
from harness.measuring import document
from harness.measuring.rates import format_rate
from harness.simulation import INTERVAL, Process
from offheap.analysis.leaks.leaks import suspects
from offheap.analysis.statistics.estimates import Floats
from offheap.analysis.verdicts.site_history import size_class
from offheap.quantities import format_duration

MINUTES = (60.0, 300.0, 900.0)
EARLY = (10.0, 15.0, 20.0, 30.0)  # seconds, all of them of a program's start
READINGS = (10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0, 300.0, 600.0, 900.0)
RATES = (1e2, 1e3, 1e4, 1e5, 1e6, 1e7)  # bytes a second leaked
CHURNS = (0.0, 1e7, 1e8, 1e9)  # bytes a second allocated and freed beside it
CHURN = {"own": "own site", "same": "same site", "alike": "same site and size"}  # scenarios.leaks
MODES = ("budget 1 %", "512 KiB", "exact")
# The cost of a sample, a block and a byte in it in a JVM that makes and frees blocks of 1,000 B to 64 KiB
# (docs/budget.md has the measurement of benchmarks/cost/budget.py).
SAMPLE_SECONDS, BLOCK_SECONDS, BYTE_SECONDS = 0.5e-6, 80e-9, 0.085e-9
# probe/sampling/budget.c
LEAST_INTERVAL, MOST_INTERVAL, OCTAVE_SECONDS, IDLE_CPU = 32 << 10, 1 << 30, 0.1, 0.1
PASSED_OVER_SECONDS, PASSED_OVER_PART = 40e-9, 1 / 6
LARGE = 32 << 10  # probe/sampling/sampler.h


@dataclass(frozen=True)
class Said:
    """One site's verdict, and whether the site leaks."""

    verdict: str
    confidence: float
    leaks: bool
    about: str  # the scenario for the subject, the blamed frame for what is beside it


@dataclass(frozen=True)
class Judged:
    """A program of one scenario after so many seconds.

    subject  None: the site was not seen at all
    covered  whether the interval of growth has the true rate in it; None where it has none to hold
    """

    scenario: Scenario
    seconds: float
    subject: Said | None
    others: tuple[Said, ...]
    covered: bool | None

    @property
    def found(self) -> bool:
        return self.subject is not None and self.subject.verdict == "leak"

    @property
    def alarms(self) -> list[Said]:
        every = (*self.others, *([self.subject] if self.subject else []))
        return [said for said in every if said.verdict == "leak" and not said.leaks]


def budgeted(process: Process, duration: float) -> Callable[[Floats, Floats], Floats]:
    """The mean interval by time and size that 1 % of a program's CPU allows (probe/sampling/budget.c)."""
    rates, number = np.zeros(64), 0.0  # bytes a second by size class, and blocks
    for blocks in process.blocks:
        np.add.at(rates, size_class(blocks.sizes), blocks.sizes / duration)
        number += len(blocks.sizes) / duration
    for flow in process.flows.values():
        rates[size_class(np.array(flow.size))] += flow.rate * flow.size
        number += flow.rate
    granted = 0.01 * max(IDLE_CPU, number * BLOCK_SECONDS + rates.sum() * BYTE_SECONDS)
    small = 2.0 ** np.arange(64) < LARGE  # these share a countdown
    counted = rates[small].sum() * PASSED_OVER_SECONDS / (granted * PASSED_OVER_PART)
    counted = min(max(counted, LEAST_INTERVAL), MOST_INTERVAL)
    samples = (granted - rates[small].sum() / counted * PASSED_OVER_SECONDS) / SAMPLE_SECONDS
    finest = np.where(small, counted, LEAST_INTERVAL)
    size = 1.5 * 2 ** np.arange(64.0)
    most = rates / size * -np.expm1(-size / finest)  # samples a second, taken as finely as can be
    # If that is too much, a class gets a share that grows as its root, and no more than it can use.
    root = np.sqrt(np.maximum(most, 1e-9))
    low, high = 0.0, float(root.max())
    for _ in range(50):
        share = (low + high) / 2
        low, high = (low, share) if np.minimum(most, share * root).sum() > samples else (share, high)
    part = np.minimum(1.0, high / root)
    reached = np.clip(finest / part, finest, MOST_INTERVAL)
    octaves = np.log2(reached / INTERVAL)

    def interval(time: Floats, size: Floats) -> Floats:
        its = octaves[size_class(size)]
        passed = np.minimum(time / OCTAVE_SECONDS, abs(its))
        result: Floats = INTERVAL * 2 ** (np.sign(its) * passed)
        return result

    return interval


def judge(scenario: Scenario, mode: str, seed: int, readings: Sequence[float]) -> list[Judged]:
    process, number = scenario.process(max(readings), seed)
    interval = budgeted(process, max(readings)) if mode == "budget 1 %" else INTERVAL
    judged = []
    for seconds in readings:
        subject, others, covered = None, [], None
        for suspect in suspects(process.record(interval=interval, exact=mode == "exact", until=seconds)):
            its = number in suspect.site.stacks
            leaks = its and scenario.leak > 0
            about = scenario.name if its else suspect.blamed.name
            said = Said(suspect.verdict, suspect.confidence, leaks, about)
            if its:
                subject = said
                if leaks and said.verdict == "leak":
                    growth = suspect.growth_bytes_per_second
                    covered = growth.low <= scenario.leak <= growth.high
            else:
                others.append(said)
        judged.append(Judged(scenario, seconds, subject, tuple(others), covered))
    return judged


def run(
    cases: Iterable[tuple[Scenario, int]], mode: str, readings: Sequence[float], workers: int
) -> list[list[Judged]]:
    """Each scenario with its seed, over all readings."""
    chosen = list(cases)
    names, seeds = [scenario for scenario, _ in chosen], [seed for _, seed in chosen]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(judge, names, repeat(mode), seeds, repeat(readings), chunksize=4))


def healthy_cases(runs: int) -> list[tuple[Scenario, int]]:
    """Every healthy kind, each time with other time constants."""
    return [
        (scenario, number * 1000 + run)
        for run in range(runs)
        for number, scenario in enumerate(scenarios.healthy(np.random.default_rng(run + 77)))
    ]


def repeated(kinds: Sequence[Scenario], runs: int) -> list[tuple[Scenario, int]]:
    """Each kind `runs` times, each time with another seed, which changes what is beside the subject, too."""
    return [(kind, number * 1000 + run) for number, kind in enumerate(kinds) for run in range(runs)]


def due(scenario: Scenario) -> bool:
    """Whether a leak must be found: 10 KB/s, or 0.1 % of the churn."""
    churn = scenario.flow or scenario.beside
    return scenario.leak >= 1e4 or bool(churn and _stands_out(scenario))


def _stands_out(scenario: Scenario) -> bool:
    """Whether a leak is 0.1 % of the churn; a sampler on a budget sees little of smaller ones."""
    churn = scenario.flow or scenario.beside
    return churn is None or scenario.leak >= churn.rate * churn.size / 1000


def recall_table(results: Sequence[Sequence[Judged]]) -> list[str]:
    """By rate and churn: the share found at each time, and the median time until it was."""
    grouped: defaultdict[tuple[float, float, str], list[Sequence[Judged]]] = defaultdict(list)
    for readings in results:
        scenario = readings[0].scenario
        churn = scenario.flow or scenario.beside
        grouped[churn.rate * churn.size if churn else 0.0, scenario.leak, scenario.name].append(readings)
    rows = []
    for (churned, rate, where), runs in sorted(grouped.items()):
        shares = [share(verdicts_after(runs, seconds)) for seconds in MINUTES]
        times = [first_found(readings) for readings in runs]
        median = statistics.median(times)
        rows.append(
            [
                format_rate(rate),
                f"{format_rate(churned)}, {CHURN[where]}" if churned else "none",
                "yes" if due(runs[0][0].scenario) else "",
                *shares,
                "never" if median == float("inf") else format_duration(median),
            ]
        )
    return document.table(("leak", "churn", "must be found", "1 min", "5 min", "15 min", "found after"), rows)


def verdicts_after(runs: Iterable[Sequence[Judged]], seconds: float) -> list[Judged]:
    return [judged for readings in runs for judged in readings if judged.seconds == seconds]


def share(judged: Sequence[Judged]) -> str:
    return f"{sum(one.found for one in judged) / max(len(judged), 1):.0%}"


def first_found(readings: Sequence[Judged]) -> float:
    """Seconds after which the verdict was right and stayed so at every later reading."""
    time = float("inf")
    for judged in reversed(readings):
        if not judged.found:
            break
        time = judged.seconds
    return time


def shape_table(results: Sequence[Sequence[Judged]]) -> list[str]:
    grouped: defaultdict[str, list[Sequence[Judged]]] = defaultdict(list)
    for readings in results:
        grouped[readings[0].scenario.name].append(readings)
    rows = [
        [name, *(share(verdicts_after(runs, seconds)) for seconds in MINUTES)]
        for name, runs in grouped.items()
    ]
    return document.table(("leak", "1 min", "5 min", "15 min"), rows)


def alarm_table(results: Sequence[Sequence[Judged]], readings: Sequence[float] = MINUTES) -> list[str]:
    """False alarms in 100 runs, by kind: of the subject, and of what every JVM does beside it."""
    rows = []
    kinds = list(dict.fromkeys(readings[0].scenario.name for readings in results))
    for kind in [*kinds, ""]:
        runs = [readings for readings in results if kind in ("", readings[0].scenario.name)]
        cells = []
        for seconds in readings:
            at = verdicts_after(runs, seconds)
            alarms = sum(bool(judged.alarms) for judged in at)
            cells.append(f"{100 * alarms / max(len(at), 1):.1f}")
        rows.append([kind or "**all**", str(len(runs)), *cells])
    return document.table(("healthy program", "runs", *map(format_duration, readings)), rows)


def precision_table(by_mode: dict[str, list[Judged]]) -> list[str]:
    rows = []
    for mode, every in by_mode.items():
        for seconds in MINUTES:
            at = [judged for judged in every if judged.seconds == seconds]
            wanted = [judged for judged in at if judged.scenario.leak and due(judged.scenario)]
            clear = [judged for judged in wanted if _stands_out(judged.scenario)]
            right = sum(judged.found for judged in at)
            wrong = sum(len(judged.alarms) for judged in at)
            well = [judged for judged in at if not judged.scenario.leak]
            alarmed = sum(bool(judged.alarms) for judged in well)
            covered = [judged.covered for judged in at if judged.covered is not None]
            rows.append(
                [
                    mode,
                    format_duration(seconds),
                    _recall(wanted),
                    _recall(clear),
                    f"{right / max(right + wrong, 1):.1%} of {right + wrong}",
                    f"{100 * alarmed / max(len(well), 1):.1f}",
                    f"{sum(covered) / max(len(covered), 1):.1%}",
                ]
            )
    return document.table(
        (
            "mode",
            "after",
            "recall",
            "recall at 0.1 % of the churn and more",
            "precision",
            "false alarms in 100 runs",
            "growth interval holds the rate",
        ),
        rows,
    )


def _recall(wanted: Sequence[Judged]) -> str:
    return f"{sum(judged.found for judged in wanted) / max(len(wanted), 1):.1%} of {len(wanted)}"


BINS = ((0.0, 0.5), (0.5, 0.8), (0.8, 0.9), (0.9, 0.95), (0.95, 0.98), (0.98, 1.01))


def calibration_table(every: Sequence[Judged]) -> list[str]:
    return calibration_of(
        [one for judged in every for one in (*judged.others, *([judged.subject] if judged.subject else []))]
    )


def calibration_of(said: Sequence[Said]) -> list[str]:
    """How many of the verdicts that were said with so much confidence were right."""
    kinds = {"`leak`": ("leak",), "`steady`, `startup` or `freed`": ("steady", "startup", "freed")}
    rows = []
    for low, high in (*BINS, (0.95, 1.01)):
        cells = [
            f"{low:.0%} to {min(high, 1):.0%}" if high - low < 0.06 or low < 0.95 else "**95 % and more**"
        ]
        for verdicts in kinds.values():
            of = [one for one in said if one.verdict in verdicts and low <= one.confidence < high]
            right = sum(one.leaks == (one.verdict == "leak") for one in of)
            cells.append(f"{right / len(of):.1%} of {len(of)}" if of else "none said")
        rows.append(cells)
    return document.table(("confidence", *kinds), rows)


def targets(every: Sequence[Judged]) -> dict[str, bool]:
    """The targets of the verdicts in words with the result, and whether each is met.

    The target of precision holds from the first minute on: a cache looks like a leak until it is full.
    """
    last = [judged for judged in every if judged.seconds == MINUTES[-1]]
    wanted = [judged for judged in last if judged.scenario.leak and due(judged.scenario)]
    found = sum(judged.found for judged in wanted)
    later = [judged for judged in every if judged.seconds >= MINUTES[0]]
    right, wrong = sum(judged.found for judged in later), sum(len(judged.alarms) for judged in later)
    sure = [
        said.leaks
        for judged in every
        for said in (*judged.others, *([judged.subject] if judged.subject else []))
        if said.confidence >= 0.95 and said.verdict == "leak"
    ]
    return {
        f"all leaks that must be found are, after 15 minutes: {found} of {len(wanted)}": found == len(wanted),
        f"of verdicts `leak` from a minute on 99 % are right: {right} of {right + wrong}": (
            right >= 0.99 * (right + wrong)
        ),
        f"of those said at 95 % and more, 93 %: {sum(sure)} of {len(sure)}": sum(sure) >= 0.93 * len(sure),
    }
