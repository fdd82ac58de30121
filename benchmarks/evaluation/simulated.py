"""How good are the verdicts?  Simulated programs of known truth, judged after 1, 5 and 15 minutes.

.venv/bin/python -m benchmarks.evaluation.simulated            a few of each
.venv/bin/python -m benchmarks.evaluation.simulated --write    all, and the tables of docs/evaluation.md
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np

from harness.evaluation import scenarios
from harness.evaluation.simulated_verdicts import (
    CHURNS,
    EARLY,
    MINUTES,
    MODES,
    RATES,
    READINGS,
    Judged,
    alarm_table,
    calibration_table,
    healthy_cases,
    precision_table,
    recall_table,
    repeated,
    run,
    shape_table,
    targets,
)
from harness.measuring import document
from harness.measuring.runner import Benchmark
from offheap.quantities import format_duration

BENCHMARK = Benchmark("evaluation.simulated", "evaluation.md", "How good the verdicts are")


def simulate(runs: int, healthy_runs: int, workers: int) -> tuple[dict[str, list[str]], dict[str, bool]]:
    """The tables by title, and the targets."""
    sections: dict[str, list[str]] = {}
    by_mode: dict[str, list[Judged]] = {}
    for mode in MODES:
        grid = repeated(scenarios.leaks(RATES, CHURNS), runs)
        shapes = repeated(scenarios.shapes(1e5), runs)
        found = run(grid, mode, READINGS, workers)
        shaped = run(shapes, mode, MINUTES, workers)
        well = run(healthy_cases(healthy_runs), mode, (*EARLY, *MINUTES), workers)
        by_mode[mode] = [
            judged for results in (found, shaped, well) for readings in results for judged in readings
        ]
        sections[f"Leaks, {mode}"] = recall_table(found)
        sections[f"Uneven leaks of 98 KiB/s, {mode}"] = shape_table(shaped)
        sections[f"False alarms in 100 runs of a healthy program, {mode}"] = alarm_table(
            well, (*EARLY, *MINUTES)
        )
        print_alarms(by_mode[mode], mode)
    limits = [
        (one, seed) for seed in range(runs) for one in scenarios.undecidable(np.random.default_rng(seed))
    ]
    sections[f"What cannot be told: called a leak, of 100 runs, {MODES[0]}"] = alarm_table(
        run(limits, MODES[0], MINUTES, workers)
    )
    every = [judged for judgements in by_mode.values() for judged in judgements]
    sections = {
        "Summary": precision_table(by_mode),
        "Calibration": calibration_table(every),
        **sections,
    }
    return sections, targets(every)


def print_alarms(judged: Sequence[Judged], mode: str) -> None:
    """Prints the sites that false alarms accuse."""
    accused = Counter((said.about, one.seconds) for one in judged for said in one.alarms)
    for (about, seconds), count in accused.most_common(12):
        print(f"{mode}: {count} false alarms after {format_duration(seconds)}: {about}", file=sys.stderr)


def main() -> int:
    parser = BENCHMARK.parser(
        "How good are the verdicts?", write="all runs, and the tables of docs/evaluation.md"
    )
    parser.add_argument("--runs", type=int, help="of each leak (default 3, with --write 20)")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    runs = args.runs or (20 if args.write else 3)
    sections, aims = simulate(runs, runs * 2, args.workers)
    lines = [f"{document.machine()}; {runs} runs of each leak, {runs * 2} of each healthy program."]
    for title, rows in sections.items():
        lines += ["", f"## {title}", "", *rows]
    BENCHMARK.publish(lines, write=args.write)
    for aim, met in aims.items():
        print(f"{'met' if met else 'MISSED'}: {aim}", file=sys.stderr)
    return 0 if all(aims.values()) or args.runs else 1


if __name__ == "__main__":
    sys.exit(main())
