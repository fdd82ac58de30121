"""How often does the interval cover the truth?  The zip leak in a real JVM, sampled, against its own count.

    .venv/bin/python -m benchmarks.accuracy.coverage --runs 100            print the table
    .venv/bin/python -m benchmarks.accuracy.coverage --runs 100 --write    and into docs/measurements.md

Each run leaks 200 Inflaters a second under zip churn for four seconds and is recorded at the default
interval.  A run that records every block measures the bytes of one Inflater.  Status 1 if an interval covers
less often than 90 times in 100.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from harness.jvms import java_homes, zoo_cases
from harness.jvms import zoo as zoo_programs
from harness.measuring import document
from harness.measuring.runner import Benchmark
from harness.paths import ROOT

BENCHMARK = Benchmark("accuracy.coverage", "measurements.md", "Measurements")
SECONDS = 4.0
AT_ONCE = 3


def main() -> int:
    parser = BENCHMARK.parser("How often does the interval cover the truth?")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--jre", type=int, default=17)
    wanted = parser.parse_args()
    zoo = zoo_programs.compile_zoo(ROOT / "build" / "zoo")
    java = java_homes.java(wanted.jre)

    def once(*options: str) -> tuple[dict[str, Any], int]:
        case = zoo_cases.Case("inflaters", wanted.jre, "run", options)
        with tempfile.TemporaryDirectory(prefix="offheap-coverage-") as folder:
            recorded = zoo_cases.record(case, java, zoo, Path(folder), SECONDS)
        return recorded.leaks["suspects"][0], recorded.truth.blocks

    exact, blocks = once("--exact")
    each = exact["live_bytes"]["estimate"] / blocks
    with ThreadPoolExecutor(AT_ONCE) as executor:
        results = list(executor.map(lambda _: once(), range(wanted.runs)))
    in_bytes = sum(
        first["live_bytes"]["low"] <= truth * each <= first["live_bytes"]["high"] for first, truth in results
    )
    in_blocks = sum(
        (blocks := first["paths"][0]["live_blocks"])["low"] <= truth <= blocks["high"]
        for first, truth in results
    )
    mean = sum(first["live_bytes"]["estimate"] / (truth * each) for first, truth in results) / len(results)
    counts = [first["paths"][0]["live_blocks"]["estimate"] / truth for first, truth in results]
    count = sum(counts) / len(results)
    lines = [
        f"{BENCHMARK.ran('--runs', wanted.runs)}, JDK {wanted.jre}, "
        f"{document.machine()}; {each:,.0f} bytes an Inflater:",
        "",
        *document.table(
            ["", "covered", "of runs", "estimate / truth, on average"],
            [
                ["bytes of the site", str(in_bytes), str(wanted.runs), f"{mean:.3f}"],
                ["blocks of the path shown", str(in_blocks), str(wanted.runs), f"{count:.3f}"],
            ],
        ),
    ]
    BENCHMARK.publish(lines, write=wanted.write)
    return 0 if min(in_bytes, in_blocks) >= 0.9 * wanted.runs else 1


if __name__ == "__main__":
    sys.exit(main())
