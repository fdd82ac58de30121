"""How often does `offheap where --watch` see a leak, how slow a one, and how often is it wrong?

.venv/bin/python -m benchmarks.evaluation.owner_verdicts            print the table
.venv/bin/python -m benchmarks.evaluation.owner_verdicts --write    and put it into docs/evaluation.md
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness.evaluation.owner_verdicts import (
    HEALTHY_PROCESSES,
    OUTCOMES,
    RATES,
    SECONDS,
    evaluate,
    healthy_processes,
)
from harness.measuring import document
from harness.measuring.runner import Benchmark
from offheap.quantities import format_duration

BENCHMARK = Benchmark("evaluation.owner_verdicts", "evaluation.md")


def main() -> int:
    parser = BENCHMARK.parser("How often is a leak seen, and how often is the verdict wrong?")
    parser.add_argument("--runs", type=int, default=400, help="of each rate and time")
    parser.add_argument("--processes", type=Path, default=HEALTHY_PROCESSES, help="a folder of readings")
    options = parser.parse_args()
    noise = healthy_processes(options.processes)
    rows = []
    for title, chosen, rates in (
        ("idle CPUs", [one for one in noise if not one.busy], RATES),
        ("busy CPUs", [one for one in noise if one.busy and not one.fills], RATES),
        ("busy CPUs, a cache fills", [one for one in noise if one.fills], (0,)),
    ):
        found = evaluate(chosen, rates, SECONDS, options.runs)
        for rate in rates:
            cells = []
            for seconds in SECONDS:
                counts = found[rate, seconds]
                shares = [100 * counts[one] / max(counts.total(), 1) for one in OUTCOMES]
                cells.append(
                    " / ".join(f"{share:.1f}" if 0 < share < 1 else f"{share:.0f}" for share in shares)
                )
            rows.append((title, f"{rate} KB/s" if rate else "none", *cells))
    lines = [
        f"{BENCHMARK.ran('--runs', options.runs)}: {len(noise)} real processes, shares of a cell's runs:",
        f"{' / '.join(OUTCOMES)}, in %.",
        "",
        *document.table(("machine", "leak", *(format_duration(s) for s in SECONDS)), rows),
    ]
    BENCHMARK.publish(lines, write=options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
