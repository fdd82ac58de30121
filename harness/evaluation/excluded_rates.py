"""Is "no leak above X" true?  Leaks of X and more in programs that are otherwise well, and the same without.

    .venv/bin/python benchmarks/evaluate_power.py            40 of each
    .venv/bin/python benchmarks/evaluate_power.py --write    200, and the table of docs/evaluation.md

Simulated, as evaluate.py has it: a healthy program is recorded, judged, and X noted; then it is recorded
again, with a leak beside it.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

import document  # noqa: E402
import evaluate  # noqa: E402
import scenarios  # noqa: E402

from offheap.analysis.leaks.conclusion import conclude, per_minute  # noqa: E402
from offheap.analysis.leaks.leaks import Ranking, ranking  # noqa: E402
from offheap.analysis.stacks import frames  # noqa: E402
from offheap.analysis.verdicts.power import BLOCK_BYTES  # noqa: E402
from offheap.quantities import format_duration  # noqa: E402
from recordings import INTERVAL, Leak, Process, inflater  # noqa: E402

LEAKY = inflater("com.example.Leaky.leak", "com.example.Main.main")
LOOKS = (5.0, 10.0, 25.0, 60.0, 120.0)  # seconds
LARGER = (1.0, 1.5, 3.0)  # times X: what a hidden leak leaks
SIZES = (512.0, BLOCK_BYTES)


def judged(process: Process, mode: str, seconds: float) -> Ranking:
    interval = evaluate.budgeted(process, seconds) if mode == "budget 1 %" else INTERVAL
    return ranking(process.record(interval=interval, exact=mode == "exact", until=seconds))


def healthy(seconds: float, seed: int) -> Process:
    """One of the healthy kinds, the same for the same seed."""
    kinds = scenarios.healthy(np.random.default_rng(seed))
    return kinds[seed % len(kinds)].process(seconds, seed)[0]


def excluded(mode: str, seconds: float, seed: int) -> float:
    """X of the healthy program, bytes a second."""
    return conclude(judged(healthy(seconds, seed), mode, seconds)).power.bytes_per_second


def reported(mode: str, seconds: float, seed: int) -> bool:
    """Whether a leak at a stack of its own, at the rate that is excluded for such, is reported."""
    power = conclude(judged(healthy(seconds, seed), mode, seconds)).power
    process, size = healthy(seconds, seed), SIZES[seed % len(SIZES)]
    leak = process.add(LEAKY, Leak(power.new_site / size, size))
    return _said(judged(process, mode, seconds), leak)


def honest(mode: str, seconds: float, seed: int) -> bool:
    """Whether a leak hidden in a site of the healthy program is said to grow, or is not excluded."""
    rate = excluded(mode, seconds, seed) * LARGER[seed % len(LARGER)]
    process, size = healthy(seconds, seed), SIZES[seed % len(SIZES)]
    used = [n for n, s in enumerate(process.stacks) if not frames.by_jvm(s) and len(process.blocks[n].births)]
    hiding = used[int(np.random.default_rng(seed).integers(len(used)))]
    leak = process.add(process.stacks[hiding], Leak(rate / size, size))
    ranked = judged(process, mode, seconds)
    return _said(ranked, leak) or conclude(ranked).power.bytes_per_second >= rate


def _said(ranked: Ranking, stack: int) -> bool:
    return any(stack in one.site.stacks and one.verdict in ("leak", "growing") for one in ranked)


def table(runs: int, workers: int) -> list[str]:
    rows = []
    with ProcessPoolExecutor(workers) as pool:
        for mode in evaluate.MODES:
            for seconds in LOOKS:

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
    parser = argparse.ArgumentParser(description='Is "no leak above X" true?')
    parser.add_argument("--write", action="store_true", help="200 runs, and the table of docs/evaluation.md")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    runs = 200 if args.write else 40
    lines = [f"{document.machine()}; {runs} programs a line.", "", *table(runs, args.workers)]
    print("\n".join(lines))
    if args.write:
        document.replace_section(evaluate.DOCUMENT, "benchmarks/evaluate_power.py", lines, evaluate.TITLE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
