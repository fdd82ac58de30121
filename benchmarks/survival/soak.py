"""Does the JVM survive the probe?  The matrix of tests/soak.py, as much of it as the time allows.

    .venv/bin/python benchmarks/soak.py                    all of it, hours long
    .venv/bin/python benchmarks/soak.py --minutes 30       as much as fits; every kind is met early
    .venv/bin/python benchmarks/soak.py --only '17 ZGC'    the cells whose names contain that
    .venv/bin/python benchmarks/soak.py --continue         the cells that have not run yet or failed, then
                                                           those that ran with another probe
    .venv/bin/python benchmarks/soak.py --jobs 4           four at once, not one for each two CPUs
    .venv/bin/python benchmarks/soak.py --write            put the table into docs/soak.md, and each cell that
                                                           ends into docs/soak.jsonl

Exit status 1 when a cell failed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path

import document
from rich.console import Console
from rich.progress import Progress

from offheap.probe import checkout

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import soak  # noqa: E402
import zoo as zoo_programs  # noqa: E402

DOCUMENT = ROOT / "docs" / "soak.md"
KEPT, TRIED = ROOT / "docs" / "soak.jsonl", ROOT / "build" / "soak.jsonl"  # with --write, and without
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
    samples: int = 0
    seconds: float = 0.0
    present_probe: int = 0

    def add(self, cell: soak.Cell, kept: Kept, probe: str) -> None:
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
    """A cell that ran, a line of the file of them; of two lines for one cell the later counts.

    probe  of what sources the probe was, a hash
    """

    cell: str
    divisor: int
    probe: str
    seconds: float
    result: soak.Result

    def append(self, file: Path) -> None:
        with open(file, "a") as lines:
            lines.write(json.dumps(asdict(self)) + "\n")

    @classmethod
    def of(cls, line: str) -> Kept:
        found = json.loads(line)
        result = found.pop("result")
        failures, samples = tuple(result["failures"]), result.get("samples", 0)  # 0: not counted then
        return cls(**found, result=soak.Result(failures, result["attaches"], samples, result["lost"]))


def read_kept(file: Path, divisor: int) -> dict[str, Kept]:
    """By cell; those of another divisor are left out."""
    every = map(Kept.of, file.read_text().splitlines()) if file.exists() else ()
    return {kept.cell: kept for kept in every if kept.divisor == divisor}


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


def tables(tally: Tally, divisor: int) -> list[str]:
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
        f"{document.machine()} when the last cells ran.",
        "",
        f"{tally.cells} cells in {tally.seconds / 60:.0f} minutes ({counts} each), {tally.present_probe} "
        f"of them with the probe as it was when the last ran; {tally.attaches:,} times attached, "
        f"{len(tally.failures)} failures; {tally.samples:,} blocks and mappings recorded.  "
        f"Lost and counted: {lost}.",
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
    parser.add_argument(
        "--jobs", type=int, default=max((os.cpu_count() or 1) // 2, 1), help="machines at once"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--only", default="", help="cells whose name contains it")
    parser.add_argument(
        "--continue", dest="resume", action="store_true", help="go on where earlier runs ended"
    )
    parser.add_argument("--write", action="store_true", help="put the table into docs/soak.md")
    args = parser.parse_args()
    build = checkout.build_script()
    library = build.build_if_changed()
    homes = zoo_programs.jdk_homes()
    if not homes or library is None:
        parser.error("needs a JDK of 11 or newer (javac)")
    probe = build.fingerprint(platform.machine())[:12]
    machines = [m for m in soak.machines() if zoo_programs.java(m.jdk).exists()]
    file = KEPT if args.write else TRIED
    file.parent.mkdir(exist_ok=True)
    if not args.resume:
        file.unlink(missing_ok=True)
    kept = read_kept(file, args.divisor)
    began, tally = time.monotonic(), Tally()
    with (
        tempfile.TemporaryDirectory(prefix="offheap-soak-") as scratch,
        Progress(console=Console(stderr=True)) as bar,
    ):
        stress = soak.Stress(homes[min(homes)], Path(scratch), divisor=args.divisor, library=library)
        present = [machine for machine in machines if stress.present(machine)]
        tally.absent.update((m.jdk, m.collector) for m in machines if m not in present)
        chosen = [cell for cell in soak.cells(ordered(present, args.seed)) if args.only in str(cell)]
        passed = {name: one.probe for name, one in kept.items() if not one.result.failures}
        new = [cell for cell in chosen if str(cell) not in passed]
        older = [cell for cell in chosen if passed.get(str(cell), probe) != probe]
        task = bar.add_task("soak", total=len(new) + len(older))
        # What a machine does without the probe is asked once: its cells, neighbours, are one job.
        jobs = [list(cells) for _, cells in itertools.groupby((*new, *older), lambda cell: cell.machine)]

        def run(cells: Sequence[soak.Cell]) -> list[Kept]:
            ran = []
            for cell in cells:
                start = time.monotonic()
                if start - began > args.minutes * 60:
                    break
                bar.update(task, description=str(cell))
                result = stress.run(cell)
                ran.append(Kept(str(cell), args.divisor, probe, time.monotonic() - start, result))
                bar.advance(task)
            return ran

        with ThreadPoolExecutor(args.jobs) as pool:
            try:
                for done in as_completed([pool.submit(run, cells) for cells in jobs]):
                    for one in done.result():
                        kept[one.cell] = one
                        one.append(file)
                        for failure in one.result.failures:
                            bar.console.print(f"{one.cell}: {failure}", markup=False, soft_wrap=True)
            except KeyboardInterrupt:
                bar.console.print("stopped; --continue goes on from here")
                pool.shutdown(wait=False, cancel_futures=True)  # what runs ends, and does not count
    for cell in chosen:
        if str(cell) in kept:
            tally.add(cell, kept[str(cell)], probe)
    lines = tables(tally, args.divisor)
    print("\n".join(lines))
    if args.write:
        document.replace_section(DOCUMENT, WRITER, lines, "What the JVM survives")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
