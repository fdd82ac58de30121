"""JVMs that hold known Java objects, recorded and compared: one run of benchmarks/accuracy/java_heap.py."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.command_line import offheap
from harness.jvms import collectors, heap_cases, java_homes
from harness.jvms.heap_cases import Recorded
from harness.jvms.zoo import Running
from harness.measuring import document

# Some 400 sampled objects are live at the end of a run: intervals of 10 % each way.
INTERVAL = "256KiB"
SITES = ("HeldObjects.small", "HeldObjects.medium", "HeldObjects.large")


@dataclass(frozen=True)
class Bounds:
    """An estimate with its interval, in bytes, and the truth."""

    estimate: float
    low: float
    high: float
    truth: float

    @property
    def covered(self) -> bool:
        return self.low <= self.truth <= self.high

    @property
    def ratio(self) -> float:
        return self.estimate / self.truth


@dataclass(frozen=True)
class Run:
    """sites  by the allocating method, against the program's count
    heap   all survivors, against the heap in use after the collection, less what it was before any site
    """

    collector: str
    seed: int
    sites: dict[str, Bounds]
    heap: Bounds


def run(collector: str, seed: int, jdk: int, classes: Path) -> Run:
    """Records one JVM from its start to its end; AssertionError when something is not recorded."""
    java = java_homes.java(jdk)
    command = [str(java), "-Xmx512m", *collectors.COLLECTORS[collector], "-cp", str(classes)]
    command += ["HeldObjects", str(seed)]
    with tempfile.TemporaryDirectory(prefix="offheap-held-") as folder:
        output = Path(folder) / "held.offheap"
        record = offheap("run", "--java-heap-interval", INTERVAL, "-o", output, "--", *command)
        with Running(record) as running:
            time.sleep(heap_cases.SWEPT_SECONDS)
            held, (own, used) = running.held(), running.collected()
            status = running.exit()
            assert status == 0, running.errors
        recorded = Recorded(output, heap_cases.ask("leaks", output, "--all", "--json"), held, used)
    return judge(collector, seed, recorded, own)


def judge(collector: str, seed: int, recorded: Recorded, own: int) -> Run:
    """`own`: bytes of the heap in use before the program holds anything, which no sample finds."""
    sites = {}
    for held in recorded.held:
        site = heap_cases.of_place(recorded, held)
        assert site, f"{collector}, seed {seed}: no site for {held.method}"
        sites[held.method] = _bounds(site["live_bytes"], held.bytes)
    books = recorded.java_heap["books"]
    assert books, f"{collector}, seed {seed}: the heap in use after the collection is not known"
    heap = _bounds(recorded.java_heap["survivors"]["bytes"], books["heap_bytes"] - own)
    return Run(collector, seed, sites, heap)


def _bounds(estimate: dict[str, float], truth: float) -> Bounds:
    return Bounds(estimate["estimate"], estimate["low"], estimate["high"], truth)


def table(runs: Sequence[Run]) -> list[str]:
    """A row for each collector: how many intervals cover the truth, and the mean of estimate / truth."""
    rows = []
    for collector in dict.fromkeys(one.collector for one in runs):
        its = [one for one in runs if one.collector == collector]
        columns = [*([one.sites[site] for one in its] for site in SITES), [one.heap for one in its]]
        cells = [
            f"{sum(one.covered for one in column)} ({sum(one.ratio for one in column) / len(column):.3f})"
            for column in columns
        ]
        rows.append([collector, str(len(its)), *cells])
    sites = ("64 bytes each", "100 to 2,100 bytes", "10 to 70 KB")
    return document.table(["collector", "runs", *sites, "the heap in use"], rows)


def too_rare(runs: Sequence[Run], share: float) -> list[str]:
    """The collectors and sites whose intervals cover the truth in less than that share of the runs."""
    found = []
    for collector in dict.fromkeys(one.collector for one in runs):
        its = [one for one in runs if one.collector == collector]
        for site in SITES:
            if sum(one.sites[site].covered for one in its) < share * len(its):
                found.append(f"{collector}: {site}")
        if sum(one.heap.covered for one in its) < share * len(its):
            found.append(f"{collector}: the heap in use")
    return found
