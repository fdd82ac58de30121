"""Does the JVM survive the probe?  The matrix of tests/soak.py, as much of it as the time allows.

    .venv/bin/python benchmarks/soak.py                    all of it, hours long
    .venv/bin/python benchmarks/soak.py --minutes 30       as much as fits; every kind is met early
    .venv/bin/python benchmarks/soak.py --only '17 ZGC'    the cells whose names contain that
    .venv/bin/python benchmarks/soak.py --continue         the cells that the last runs had no time for
    .venv/bin/python benchmarks/soak.py --write            and put the table into docs/soak.md

Exit status 1 when a cell failed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import document
from rich.console import Console
from rich.progress import Progress

from offheap import checkout

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import soak  # noqa: E402
import zoo as zoo_programs  # noqa: E402

DOCUMENT = ROOT / "docs" / "soak.md"
KEPT = ROOT / "build" / "soak.json"
WRITER = "benchmarks/soak.py"


@dataclass
class Tally:
    """What came of the cells so far; `ran` by (JDK, collector) and by flags."""

    ran: Counter[object] = field(default_factory=Counter)
    failed: Counter[object] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)
    absent: set[tuple[int, str]] = field(default_factory=set)
    cells: int = 0
    attaches: int = 0

    def add(self, cell: soak.Cell, result: soak.Result) -> None:
        self.cells += 1
        self.attaches += result.attaches
        self.lost.update(result.lost)
        machine = cell.machine
        for key in ((machine.jdk, machine.collector), (machine.jdk, machine.flags), cell.entry, machine.end):
            self.ran[key] += 1
            self.failed[key] += bool(result.failures)
        self.failures += [f"{cell}: {failure}" for failure in result.failures]


@dataclass
class Kept:
    """What earlier runs found, by cell, so that the next one can go on; written after every cell."""

    divisor: int
    minutes: float = 0.0
    results: dict[str, soak.Result] = field(default_factory=dict)

    def write(self, file: Path) -> None:
        file.parent.mkdir(exist_ok=True)
        file.with_suffix(".new").write_text(json.dumps(asdict(self)))
        file.with_suffix(".new").replace(file)

    @classmethod
    def read(cls, file: Path) -> Kept:
        found = json.loads(file.read_text())
        results = {
            cell: soak.Result(tuple(result["failures"]), result["attaches"], result["lost"])
            for cell, result in found["results"].items()
        }
        return cls(found["divisor"], found["minutes"], results)


def ordered(machines: list[soak.Machine], seed: int) -> list[soak.Machine]:
    """Shuffled, then such that each next one brings what was met least: a short run meets everything once."""
    left = random.Random(seed).sample(machines, len(machines))
    met: Counter[object] = Counter()
    order = []
    while left:
        best = min(left, key=lambda m: sum(met[key] for key in (m.jdk, m.collector, m.flags, m.end)))
        left.remove(best)
        order.append(best)
        met.update((best.jdk, best.collector, best.flags, best.end))
    return order


def tables(tally: Tally, divisor: int, minutes: float) -> list[str]:
    """Markdown: cells that ran and failed by JDK and collector, by JDK and flags, and each failure."""

    def figure(key: tuple[int, str]) -> str:
        if key in tally.absent:
            return "absent"
        return f"{tally.failed[key]} of {tally.ran[key]}" if tally.ran[key] else "not run"

    def table(columns: Sequence[str], first: str) -> list[str]:
        rows = [[str(jdk), *(figure((jdk, column)) for column in columns)] for jdk in soak.JDKS]
        return document.table([first, *columns], rows)

    counts = f"{10000 // divisor:,} threads, {5000 // divisor:,} class loaders"
    lost = ", ".join(f"{name} {count:,}" for name, count in sorted(tally.lost.items())) or "nothing"
    lines = [
        document.machine(),
        "",
        f"{tally.cells} cells in {minutes:.0f} minutes ({counts} each), {tally.attaches:,} times attached, "
        f"{len(tally.failures)} failures.  Lost and counted: {lost}.",
        "",
        "Failed cells of those that ran:",
        "",
        *table(list(soak.COLLECTORS), "JDK"),
        "",
        *table(list(soak.FLAGS), "JDK"),
        "",
    ]
    by = [*soak.ENTRIES, *soak.ENDS]
    lines.append("; ".join(f"{name}: {tally.failed[name]} of {tally.ran[name]}" for name in by) + ".")
    if tally.failures:
        lines += ["", "What failed:", "", *(f"- {failure}" for failure in tally.failures[:40])]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no new cell after that")
    parser.add_argument("--divisor", type=int, default=1, help="divides the counts of the stress program")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--only", default="", help="cells whose name contains it")
    parser.add_argument(
        "--continue",
        dest="resume",
        action="store_true",
        help="skip the cells that ran before, and count what they found, whatever the probe was then",
    )
    parser.add_argument("--write", action="store_true", help="put the table into docs/soak.md")
    args = parser.parse_args()
    library = checkout.build_script().build_if_changed()
    homes = zoo_programs.jdk_homes()
    if not homes or library is None:
        parser.error("needs a JDK of 11 or newer (javac)")
    machines = [m for m in soak.machines() if zoo_programs.java(m.jdk).exists()]
    began = time.monotonic()
    tally, kept = Tally(), Kept(args.divisor)
    if args.resume and KEPT.exists():
        kept = Kept.read(KEPT)
        if kept.divisor != args.divisor:
            parser.error(f"the earlier runs had --divisor {kept.divisor}")
    before = kept.minutes
    with (
        tempfile.TemporaryDirectory(prefix="offheap-soak-") as scratch,
        Progress(console=Console(stderr=True)) as bar,
    ):
        stress = soak.Stress(homes[min(homes)], Path(scratch), divisor=args.divisor, library=library)
        present = [machine for machine in machines if stress.present(machine)]
        tally.absent.update((m.jdk, m.collector) for m in machines if m not in present)
        chosen = [cell for cell in soak.cells(ordered(present, args.seed)) if args.only in str(cell)]
        for cell in chosen:
            if earlier := kept.results.get(str(cell)):
                tally.add(cell, earlier)
        task = bar.add_task("soak", total=len(chosen), completed=tally.cells)
        for cell in chosen:
            if str(cell) in kept.results:
                continue
            if time.monotonic() - began > args.minutes * 60:
                break
            result = stress.run(cell)
            tally.add(cell, result)
            kept.results[str(cell)] = result
            kept.minutes = before + (time.monotonic() - began) / 60
            kept.write(KEPT)
            bar.update(task, advance=1, description=str(cell))
            for failure in result.failures:
                bar.console.print(f"{cell}: {failure}", markup=False, soft_wrap=True)
    lines = tables(tally, args.divisor, kept.minutes)
    print("\n".join(lines))
    if args.write:
        document.replace_section(DOCUMENT, WRITER, lines, "What the JVM survives")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
