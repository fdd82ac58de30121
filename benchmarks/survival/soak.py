"""Does the JVM survive the probe?  The survival matrix, as much of it as the time allows.

    .venv/bin/python -m benchmarks.survival.soak                    all of it, hours long
    .venv/bin/python -m benchmarks.survival.soak --minutes 30       as much as fits; every kind is met early
    .venv/bin/python -m benchmarks.survival.soak --only '17 ZGC'    the cells whose names contain that
    .venv/bin/python -m benchmarks.survival.soak --continue         the cells that have not run yet or failed,
                                                                    then those that ran with another probe
    .venv/bin/python -m benchmarks.survival.soak --jobs 4           four at once, not one for each two CPUs
    .venv/bin/python -m benchmarks.survival.soak --java-heap        while Java objects are followed
    .venv/bin/python -m benchmarks.survival.soak --write            the table into docs/soak.md

Each cell that ends is a line of build/soak.jsonl, or with --write of build/soak-written.jsonl; with
--java-heap of a file beside it, and the table goes into a section of its own.

Exit status 1 when a cell failed.
"""

from __future__ import annotations

import itertools
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from harness.jvms import java_homes
from harness.measuring.runner import Benchmark
from harness.paths import ROOT
from harness.survival import survival_matrix
from harness.survival.kept_outcomes import Kept, Tally, ordered, read_kept, tables
from offheap.probe import checkout

# With --write, and without.
KEPT, TRIED = ROOT / "build" / "soak-written.jsonl", ROOT / "build" / "soak.jsonl"
BENCHMARK = Benchmark("survival.soak", "soak.md", "What the JVM survives")
JAVA_HEAP = replace(BENCHMARK, part="--java-heap")


def main() -> int:
    parser = BENCHMARK.parser(__doc__ or "")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no new cell after that")
    parser.add_argument("--divisor", type=int, default=1, help="divides the counts of the stress program")
    parser.add_argument(
        "--jobs", type=int, default=max((os.cpu_count() or 1) // 2, 1), help="machines at once"
    )
    parser.add_argument("--java-heap", action="store_true", help="the probe follows Java objects as well")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--only", default="", help="cells whose name contains it")
    parser.add_argument(
        "--continue", dest="resume", action="store_true", help="go on where earlier runs ended"
    )
    args = parser.parse_args()
    build = checkout.build_script()
    library = build.build_if_changed()
    homes = java_homes.jdk_homes()
    if not homes or library is None:
        parser.error("needs a JDK of 11 or newer (javac)")
    probe = build.fingerprint(platform.machine())[:12]
    machines = [m for m in survival_matrix.machines() if java_homes.java(m.jdk).exists()]
    file = KEPT if args.write else TRIED
    if args.java_heap:
        file = file.with_stem(f"{file.stem}-java-heap")
    file.parent.mkdir(exist_ok=True)
    if not args.resume:
        file.unlink(missing_ok=True)
    kept = read_kept(file, args.divisor)
    began, tally = time.monotonic(), Tally()
    with (
        tempfile.TemporaryDirectory(prefix="offheap-soak-") as scratch,
        Progress(console=Console(stderr=True)) as bar,
    ):
        stress = survival_matrix.Stress(
            homes[min(homes)],
            Path(scratch),
            divisor=args.divisor,
            library=library,
            java_heap=args.java_heap,
        )
        present = [machine for machine in machines if stress.present(machine)]
        tally.absent.update((m.jdk, m.collector) for m in machines if m not in present)
        chosen = [
            cell for cell in survival_matrix.cells(ordered(present, args.seed)) if args.only in str(cell)
        ]
        passed = {name: one.probe for name, one in kept.items() if not one.result.failures}
        new = [cell for cell in chosen if str(cell) not in passed]
        older = [cell for cell in chosen if passed.get(str(cell), probe) != probe]
        task = bar.add_task("soak", total=len(new) + len(older))
        # A machine runs once without the probe, so its cells, which are neighbours, are one job.
        jobs = [list(cells) for _, cells in itertools.groupby((*new, *older), lambda cell: cell.machine)]

        def run(cells: Sequence[survival_matrix.Cell]) -> list[Kept]:
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
                pool.shutdown(wait=False, cancel_futures=True)  # cells that run now end and do not count
    for cell in chosen:
        if str(cell) in kept:
            tally.add(cell, kept[str(cell)], probe)
    lines = tables(tally, args.divisor)
    (JAVA_HEAP if args.java_heap else BENCHMARK).publish(lines, write=args.write)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
