"""Does the budget hold, and do estimates stay right while the interval moves?

    .venv/bin/python -m benchmarks.cost.budget            print the tables, eight minutes
    .venv/bin/python -m benchmarks.cost.budget --write    and put them into docs/budget.md
    .venv/bin/python -m benchmarks.cost.budget --quick    a few short runs

Each run of the first table is a C program of three seconds whose load changes tenfold every 0.12 s, so that
the interval moves; the table compares its leak with the estimate. Each run of the second is a JVM that
churns 10 GB a second on one call path for a minute and leaks a few MB a second there. The third has a JVM
that allocates 1 GB a second: the cost of a sample, and the number of samples for 1 % of the CPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import command_line
from harness.jvms import churn_jvm, java_homes
from harness.jvms import zoo as zoo_programs
from harness.measuring import document, runner
from harness.measuring.runner import Benchmark
from harness.native import changing_load
from offheap.quantities import format_size

BENCHMARK = Benchmark("cost.budget", "budget.md", "How much CPU the recording may take")
BUDGETS = ("1%", "0.2%", "0.1%")
PHASES = 24
AT_ONCE = 10
JDKS = (11, 17, 21, 25)
# A rate that a JVM can keep up with: a program that falls behind states its truth too late.
LEAK, CHURN, BLOCK = 2e6, 1e10, 16384
STEADY_CHURN, STEADY_BLOCKS, STEADY_JDKS = 1e9, (1000, 65536), (17, 25)
FRAMES = ("LeakUnderChurn.store", "sun.misc.Unsafe.allocateMemory")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = BENCHMARK.parser("does the budget hold, and do estimates stay right?")
    parser.add_argument("--runs", type=int, default=200, help="of the changing load, under each budget")
    parser.add_argument("--seconds", type=float, default=60, help="of each JVM")
    parser.add_argument(
        "--quick", action="store_true", help="five runs, five seconds; says only that it runs"
    )
    options = parser.parse_args(arguments)
    if options.quick:
        options.runs, options.seconds = 5, 5.0
    library = runner.probe()
    with runner.scratch() as scratch:
        folder = Path(scratch)
        program = changing_load.compile_load(folder)
        loads = [load_row(program, library, budget, options.runs, folder) for budget in BUDGETS]
        classes = churn_jvm.compile_java("LeakUnderChurn.java", folder / "classes")
        jvms = []
        for jdk in JDKS:
            if java_homes.java(jdk).exists():
                jvms.append(jvm_row(jdk, classes, folder, options.seconds))
                print(f"JDK {jdk}: {', '.join(jvms[-1])}", file=sys.stderr, flush=True)
        steady = [
            steady_row(jdk, block, classes, folder, options.seconds)
            for jdk in STEADY_JDKS
            for block in STEADY_BLOCKS
            if java_homes.java(jdk).exists()
        ]
    lines = [
        f"{BENCHMARK.ran('--runs', options.runs)}: {document.machine()}, {document.load()}.",
        "",
        *document.table(
            (
                "load that changes tenfold, budget",
                "greatest interval",
                "live bytes, all runs together",
                "live blocks",
                "allocated bytes",
                "95 % interval of live bytes covers the truth",
                "of live blocks",
            ),
            loads,
        ),
        "",
        *document.table(
            (
                "JVM, budget 1 %",
                "truly leaked",
                "estimated, 95 %",
                "of all that was allocated",
                "verdict",
                "spent",
                "interval",
            ),
            jvms,
        ),
        "",
        *document.table(
            (
                f"JVM that makes and fills {STEADY_CHURN / 1e9:g} GB a second, budget 1 %",
                "CPU a second",
                "CPU a block",
                "samples a second",
                "spent a sample",
                "interval",
            ),
            steady,
        ),
    ]
    BENCHMARK.publish(lines, write=options.write)
    return 0


def load_row(program: Path, library: Path, budget: str, runs: int, folder: Path) -> list[str]:
    def once(seed: int) -> changing_load.Outcome:
        # Seeds are spaced, because a thread adds its number to the seed.
        options = f"interval=256k,budget={budget},seed={1000 * seed}"
        return changing_load.outcome_of(program, library, folder / f"{budget}-{seed}", options, PHASES)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(once, range(1, runs + 1)))
    errors = changing_load.pooled(outcomes)
    greatest = sorted(map(changing_load.greatest_interval, outcomes))
    print(f"budget {budget}: {errors}", file=sys.stderr, flush=True)
    return [
        budget,
        f"{format_size(greatest[0])} to {format_size(greatest[-1])}",
        *(
            f"{error.part:+.2%} (z {error.z:+.1f})"
            for error in (errors.live_bytes, errors.live_blocks, errors.allocated_bytes)
        ),
        f"{errors.bytes_covered} of {runs}",
        f"{errors.blocks_covered} of {runs}",
    ]


def jvm_row(jdk: int, classes: Path, folder: Path, seconds: float) -> list[str]:
    output = folder / f"{jdk}.offheap"
    with started(jdk, classes, output, LEAK, CHURN, BLOCK) as running:
        time.sleep(seconds)
        truth = running.truths(1)[-1]
        os.kill(running.pid, 15)
        running.process.wait(60)
    said = json.loads(_offheap("leaks", output, "--all"))
    # On JDK 25 the first call prints a warning, which allocates as well.
    suspect = max(
        (s for s in said["suspects"] if set(FRAMES) <= {frame["name"] for frame in s["stack"]}),
        key=lambda s: float(s["allocated_bytes"]["estimate"]),
    )
    live, budget = suspect["live_bytes"], json.loads(_offheap("stats", output))["recording"]["budget"]
    interval = budget["interval_bytes"]
    estimate, low, high = (format_size(live[key]) for key in ("estimate", "low", "high"))
    return [
        f"JDK {jdk}",
        format_size(truth.bytes),
        f"{estimate} ({low} to {high})",
        format_size(suspect["allocated_bytes"]["estimate"]),
        f"{suspect['verdict']}, {suspect['confidence']:.0%}",
        f"{budget['spent_share']:.2%}",
        f"{format_size(interval['least'])} to {format_size(interval['greatest'])}",
    ]


def steady_row(jdk: int, block: int, classes: Path, folder: Path, seconds: float) -> list[str]:
    """All snapshots but the first fifth, in which a recording meets new stacks."""
    output = folder / f"{jdk}-{block}.offheap"
    with started(jdk, classes, output, 0.0, STEADY_CHURN, block) as running:
        time.sleep(seconds / 5)
        before = json.loads(_offheap("stats", output))
        time.sleep(seconds * 4 / 5)
        after = json.loads(_offheap("stats", output))
        os.kill(running.pid, 15)
        running.process.wait(60)

    def passed(*keys: str) -> float:
        then, now = before, after
        for key in keys:
            then, now = then[key], now[key]
        return float(now) - float(then)

    time_passed = passed("recording", "duration_seconds")
    cpu = passed("recording", "budget", "cpu_seconds")
    interval = after["recording"]["budget"]["interval_bytes"]["last"]
    return [
        f"JDK {jdk}, blocks of {format_size(block)}",
        f"{cpu / time_passed:.0%}",
        f"{cpu / passed('allocated_blocks', 'estimate') * 1e9:,.0f} ns",
        f"{passed('samples') / time_passed:,.0f}",
        f"{passed('recording', 'budget', 'spent_seconds') / passed('samples') * 1e9:,.0f} ns",
        format_size(interval),
    ]


def started(
    jdk: int, classes: Path, output: Path, leak: float, churn: float, block: int
) -> zoo_programs.Running:
    """LeakUnderChurn in a JVM under `offheap run`; rates in bytes a second."""
    command = [str(java_homes.java(jdk)), "-Xmx128m", "-XX:+UseSerialGC", "-cp", str(classes)]
    command += ["LeakUnderChurn", "unsafe", str(leak), str(churn), str(block)]
    return zoo_programs.Running(command_line.offheap("run", "-o", output, "--", *command))


def _offheap(*words: str | Path) -> str:
    asked = command_line.offheap(*words, "--json")
    return subprocess.run(asked, capture_output=True, text=True, timeout=120, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
