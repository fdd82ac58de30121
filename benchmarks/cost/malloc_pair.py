"""What one malloc and its free cost under offheap and under its peers, in ns of thread CPU.

    .venv/bin/python -m benchmarks.cost.malloc_pair            print the tables, twelve minutes
    .venv/bin/python -m benchmarks.cost.malloc_pair --write    and put them into docs/measurements/hot-path.md
    .venv/bin/python -m benchmarks.cost.malloc_pair --quick    one short round of everything

Each figure is the least of the rounds and, in brackets, their median.  A round has every variant of every
workload of a table once, one process each; malloc_pair.c says what a process does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.measuring import document, rounds, runner
from harness.measuring.runner import Benchmark
from harness.paths import ROOT
from harness.peers import variants
from harness.peers.variants import Variant
from offheap.probe import checkout

BENCHMARK = Benchmark("cost.malloc_pair", "measurements/hot-path.md")
DEPTH = 5
TIME_LIMIT_SECONDS = 300


@dataclass(frozen=True)
class Workload:
    """What malloc_pair.c is asked to do, and its name in the table."""

    title: str
    kind: str
    threads: int = 1
    window: int = 1000
    depth: int = DEPTH


PAIRS = [
    Workload("1 thread", "pair"),
    Workload("2 threads", "pair", threads=2),
    Workload("8 threads", "pair", threads=8),
    Workload("1 thread, 200,000 live", "pair", window=200_000),
    Workload("2 threads, 200,000 live", "pair", threads=2, window=200_000),
    Workload("8 threads, 200,000 live", "pair", threads=8, window=200_000),
]
OTHERS = [
    Workload("16 B-1 MiB", "mixed"),
    Workload("from changing depths, 7-38", "wander"),
    Workload("realloc 16 B-4 KiB, 9 calls", "realloc"),
    Workload("freed by another thread", "cross", threads=2),
    Workload("8 threads, freed by others", "cross", threads=8),
]
DEPTHS = [Workload(f"depth {depth}", "pair", depth=depth) for depth in (5, 20, 40)]


@dataclass(frozen=True)
class Bench:
    program: Path
    scratch: Path
    rounds: int
    milliseconds: float

    def once(self, variant: Variant, workload: Workload) -> float | None:
        """ns a pair, or None if the variant's library is missing or the process failed under it."""
        if not variant.present:
            return None
        words = [workload.kind, workload.threads, workload.window, workload.depth, self.milliseconds]
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            environment = {**os.environ, **variant.environment_in(Path(folder))}
            outcome = subprocess.run(
                [self.program, *map(str, words)],
                env=environment,
                capture_output=True,
                text=True,
                timeout=TIME_LIMIT_SECONDS,
            )
        if outcome.returncode != 0:
            print(f"{variant.name}, {workload.title}: {outcome.stderr[-500:]}", file=sys.stderr)
            return None
        return float(outcome.stdout.split()[-1])

    def table(self, compared: Sequence[Variant], workloads: Sequence[Workload]) -> list[str]:
        """A row for each variant, a column for each workload.

        A round has all of them: a busy minute of the machine then spoils a round, not a column.
        """
        cells = [(variant, workload) for workload in workloads for variant in compared]
        quick = [cell for cell in cells if not cell[0].slow]
        slow = [cell for cell in cells if cell[0].slow]
        costs = dict(zip(quick, rounds.alternate(quick, self.rounds, self._measure), strict=True))
        costs.update(zip(slow, rounds.alternate(slow, 1, self._measure), strict=True))
        rows = [
            [variant.name, *(_cell(variant, costs[variant, workload]) for workload in workloads)]
            for variant in compared
        ]
        return document.table(["ns a pair", *(workload.title for workload in workloads)], rows)

    def _measure(self, cell: tuple[Variant, Workload]) -> float | None:
        return self.once(*cell)


def _cell(variant: Variant, cost: rounds.Cost | None) -> str:
    if cost:
        return str(cost)
    return "failed" if variant.present else "absent"


def compile_program(folder: Path) -> Path:
    """Compiles as production code is compiled: optimised, without frame pointers."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "malloc_pair"
    source = Path(__file__).with_suffix(".c")
    flags = ["-std=c17", "-O2", "-fomit-frame-pointer", "-fno-sanitize=undefined", "-Wall", "-Wextra"]
    checkout.build_script().compile_native([str(source), *flags, "-lpthread", "-o", str(program)])
    return program


def main(arguments: Sequence[str] | None = None) -> int:
    parser = BENCHMARK.parser(
        "ns of thread CPU that a malloc and its free cost, twelve minutes",
        quick="one round of 5 ms; says only that it runs",
        more="library only",
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--milliseconds", type=float, default=30, help="of CPU for each figure and thread")
    options = parser.parse_args(arguments)

    library = runner.probe(options.library)
    peers = variants.fetch_async_profiler(ROOT / "build" / "peers")
    compared = [variants.BASE, *variants.offheap(library), *variants.async_profiler(peers)]
    compared += variants.allocators()
    compared = runner.chosen(compared, options.only)
    with runner.scratch() as scratch:
        bench = Bench(
            compile_program(ROOT / "build" / "benchmarks"),
            scratch,
            1 if options.quick else options.rounds,
            5 if options.quick else options.milliseconds,
        )
        lines = [
            f"{BENCHMARK.ran('--rounds', bench.rounds)}: {document.machine()}; {variants.versions()}.",
            "Least of the rounds (median); gperftools once.",
            "",
            *bench.table(compared, PAIRS),
            "",
            *bench.table(compared, OTHERS),
            "",
            *bench.table([v for v in compared if v is variants.BASE or v.depths], DEPTHS),
        ]
    BENCHMARK.publish(lines, write=options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
