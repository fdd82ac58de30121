"""The outcomes of the survival matrix: kept as lines, shown as tables."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harness.jvms.collectors import COLLECTORS
from harness.measuring import document
from harness.survival import survival_matrix


@dataclass
class Tally:
    """The outcomes of the cells so far; `ran` by (JDK, collector) and by flags."""

    ran: Counter[object] = field(default_factory=Counter)
    failed: Counter[object] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)
    absent: set[tuple[int, str]] = field(default_factory=set)
    cells: int = 0
    attaches: int = 0
    samples: int = 0
    seconds: float = 0.0
    present_probe: int = 0

    def add(self, cell: survival_matrix.Cell, kept: Kept, probe: str) -> None:
        result = kept.result
        self.cells += 1
        self.seconds += kept.seconds
        self.present_probe += kept.probe == probe
        self.attaches += result.attaches
        self.samples += result.samples
        self.lost.update(result.lost)
        machine = cell.machine
        for key in ((machine.jdk, machine.collector), (machine.jdk, machine.flags), cell.entry, machine.end):
            self.ran[key] += 1
            self.failed[key] += bool(result.failures)
        self.failures += [f"{cell}: {failure}" for failure in result.failures]


@dataclass(frozen=True)
class Kept:
    """A cell that ran: one line of the file. The later of two lines for one cell counts.

    probe  a hash of the probe's sources
    """

    cell: str
    divisor: int
    probe: str
    seconds: float
    result: survival_matrix.Result

    def append(self, file: Path) -> None:
        with open(file, "a") as lines:
            lines.write(json.dumps(asdict(self)) + "\n")

    @classmethod
    def of(cls, line: str) -> Kept:
        found = json.loads(line)
        result = found.pop("result")
        failures, samples = tuple(result["failures"]), result.get("samples", 0)  # 0: not counted then
        return cls(
            **found, result=survival_matrix.Result(failures, result["attaches"], samples, result["lost"])
        )


def read_kept(file: Path, divisor: int) -> dict[str, Kept]:
    """The kept outcomes by cell, without those of another divisor."""
    every = map(Kept.of, file.read_text().splitlines()) if file.exists() else ()
    return {kept.cell: kept for kept in every if kept.divisor == divisor}


def ordered(machines: list[survival_matrix.Machine], seed: int) -> list[survival_matrix.Machine]:
    """The machines; each next one has the features met least, so that a short run meets all once."""
    left = random.Random(seed).sample(machines, len(machines))
    met: Counter[object] = Counter()
    order = []
    while left:
        best = min(left, key=lambda m: sum(met[key] for key in (m.jdk, m.collector, m.flags, m.end)))
        left.remove(best)
        order.append(best)
        met.update((best.jdk, best.collector, best.flags, best.end))
    return order


def tables(tally: Tally, divisor: int) -> list[str]:
    """Markdown: cells that ran and failed by JDK and collector, by JDK and flags, and each failure."""

    def figure(key: tuple[int, str]) -> str:
        if key in tally.absent:
            return "absent"
        return f"{tally.failed[key]} of {tally.ran[key]}" if tally.ran[key] else "not run"

    def table(columns: Sequence[str], first: str) -> list[str]:
        rows = [[str(jdk), *(figure((jdk, column)) for column in columns)] for jdk in survival_matrix.JDKS]
        return document.table([first, *columns], rows)

    counts = f"{10000 // divisor:,} threads, {5000 // divisor:,} class loaders"
    lost = ", ".join(f"{name} {count:,}" for name, count in sorted(tally.lost.items())) or "nothing"
    lines = [
        f"{document.machine()} when the last cells ran.",
        "",
        f"{tally.cells} cells in {tally.seconds / 60:.0f} minutes ({counts} each), {tally.present_probe} "
        f"of them with the probe as it was when the last ran; {tally.attaches:,} times attached, "
        f"{len(tally.failures)} failures; {tally.samples:,} blocks and mappings recorded.  "
        f"Lost and counted: {lost}.",
        "",
        "Failed cells of those that ran:",
        "",
        *table(list(COLLECTORS), "JDK"),
        "",
        *table(list(survival_matrix.FLAGS), "JDK"),
        "",
    ]
    by = [*survival_matrix.ENTRIES, *survival_matrix.ENDS]
    lines.append("; ".join(f"{name}: {tally.failed[name]} of {tally.ran[name]}" for name in by) + ".")
    if tally.failures:
        lines += ["", "What failed:", "", *(f"- {failure}" for failure in tally.failures[:40])]
    return lines
