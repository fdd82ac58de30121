"""How much CPU does recording cost a JVM that allocates and frees native memory all the time?

    .venv/bin/python -m benchmarks.cost.jvm_churn            print the table, twenty minutes
    .venv/bin/python -m benchmarks.cost.jvm_churn --write    and put it into docs/measurements/jvm-churn.md
    .venv/bin/python -m benchmarks.cost.jvm_churn --quick    one short round

Each figure is the least of the rounds and, in brackets, their median, and how much more that least is than
without anything.  A round has every variant of every workload once.  The CPU is that of the process, with the
threads of compilers, collector and tools, and without the warm-up.  Churn.java has the workloads.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.jvms.churn_jvm import JDKS, WORKLOADS, churn, compile_java, cpu_ns
from harness.measuring import document, rounds, runner
from harness.measuring.runner import Benchmark
from harness.paths import ROOT
from harness.peers import variants
from harness.peers.variants import Variant

BENCHMARK = Benchmark("cost.jvm_churn", "measurements/jvm-churn.md")


@dataclass(frozen=True)
class Bench:
    classes: Path
    scratch: Path
    warm_up: float
    seconds: float

    def once(self, variant: Variant, jdk: int, workload: str) -> float | None:
        """ns of process CPU an iteration; None if the variant is missing or the JVM failed under it."""
        if not variant.present:
            return None
        with tempfile.TemporaryDirectory(dir=self.scratch) as name:
            folder = Path(name)
            agent = variant.agent_in(folder)
            environment = {**os.environ, **({} if agent else variant.environment_in(folder))}
            command = churn(jdk, self.classes, agent)
            command += [workload, str(self.warm_up), str(self.seconds)]
            with subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            ) as process:
                return _measure(process)


def _measure(process: subprocess.Popen[str]) -> float | None:
    assert process.stdin
    assert process.stdout
    try:
        # The output of a tool at start-up comes first.
        while (line := process.stdout.readline()) != "warm\n":
            if not line:
                return None
        before = cpu_ns(process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        iterations = int(process.stdout.readline())
        spent = cpu_ns(process.pid) - before
        process.stdin.write("\n")
        process.stdin.flush()
        return spent / iterations
    except (OSError, ValueError):
        process.kill()
        return None


def _cell(variant: Variant, cost: rounds.Cost | None, base: rounds.Cost | None) -> str:
    if not cost:
        return "failed" if variant.present else "absent"
    if not base or base is cost:
        return str(cost)
    ratio = cost.least / base.least
    return f"{cost} {ratio - 1:+.1%}" if ratio < 2 else f"{cost} {ratio:.1f}x"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = BENCHMARK.parser(
        "process CPU of native churn in a JVM, an iteration, twenty minutes",
        quick="one round of 0.2 s on the newest JDK",
        more="library only",
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="measured, after as long a warm-up")
    options = parser.parse_args(arguments)

    library = runner.probe(options.library)
    peers = variants.fetch_async_profiler(ROOT / "build" / "peers")
    compared = [variants.BASE, *variants.offheap(library), *variants.async_profiler(peers)]
    compared += [variant for variant in variants.allocators() if variant.name == "jemalloc prof 512 KiB"]
    compared = runner.chosen(compared, options.only)
    count, seconds = (1, 0.2) if options.quick else (options.rounds, options.seconds)
    with runner.scratch() as scratch:
        classes = compile_java("Churn.java", scratch / "classes")
        bench = Bench(classes, scratch, seconds, seconds)
        churns = [(jdk, workload) for jdk in (JDKS[-1:] if options.quick else JDKS) for workload in WORKLOADS]
        cells = [(variant, *churn) for churn in churns for variant in compared]
        # A round has all of them: a busy minute of the machine then spoils a round, not a row.
        costs = dict(zip(cells, rounds.alternate(cells, count, lambda cell: bench.once(*cell)), strict=True))
    rows = []
    for jdk, workload in churns:
        base = costs[variants.BASE, jdk, workload]
        figures = (_cell(variant, costs[variant, jdk, workload], base) for variant in compared)
        rows.append([f"{WORKLOADS[workload]}, JDK {jdk}", *figures])
    lines = [
        f"{BENCHMARK.ran('--rounds', count)}: {document.machine()}; {variants.versions()}.",
        "Least of the rounds (median), and the least against nothing's.",
        "",
        *document.table(["ns of process CPU an iteration", *(v.name for v in compared)], rows),
    ]
    BENCHMARK.publish(lines, write=options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
