"""Is "no leak above X" true?  Leaks of X and more in programs that are otherwise well, and the same without.

    .venv/bin/python -m benchmarks.evaluation.excluded_rates            40 of each
    .venv/bin/python -m benchmarks.evaluation.excluded_rates --write    200, and the table of its document

harness/evaluation/excluded_rates.py has the method.
"""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

from harness.evaluation import simulated_verdicts
from harness.evaluation.excluded_rates import READINGS, excluded, honest, reported
from harness.measuring import document
from harness.measuring.runner import Benchmark
from offheap.analysis.leaks.conclusion import per_minute
from offheap.quantities import format_duration

BENCHMARK = Benchmark("evaluation.excluded_rates", "evaluation.md", "How good the verdicts are")


def table(runs: int, workers: int) -> list[str]:
    rows = []
    with ProcessPoolExecutor(workers) as pool:
        for mode in simulated_verdicts.MODES:
            for seconds in READINGS:

                def share(
                    ask: Callable[[str, float, int], bool], mode: str = mode, at: float = seconds
                ) -> str:
                    found = sum(pool.map(functools.partial(ask, mode, at), range(runs), chunksize=4))
                    return f"{found / runs:.1%}"

                rates = sorted(pool.map(functools.partial(excluded, mode, seconds), range(runs), chunksize=4))
                middle, high = rates[runs // 2], rates[min(math.ceil(0.9 * runs), runs - 1)]
                row = [mode, format_duration(seconds), per_minute(middle), per_minute(high)]
                rows.append([*row, share(reported), share(honest)])
    head = (
        "mode",
        "after",
        "X, median",
        "X, 90 %",
        "a new leak of X is reported",
        "a hidden one is, or not excluded",
    )
    return document.table(head, rows)


def main() -> int:
    parser = BENCHMARK.parser(
        'Is "no leak above X" true?', write="200 runs, and the table of docs/evaluation.md"
    )
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    runs = 200 if args.write else 40
    lines = [f"{document.machine()}; {runs} programs a line.", "", *table(runs, args.workers)]
    BENCHMARK.publish(lines, write=args.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
