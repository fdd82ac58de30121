"""Where the time of one malloc and its free goes under offheap, of the program of malloc_pair.py.

    .venv/bin/python -m benchmarks.cost.pair_profile            print the tables, two minutes
    .venv/bin/python -m benchmarks.cost.pair_profile --write    and put them into docs/benchmarks.md
    .venv/bin/python -m benchmarks.cost.pair_profile --quick    one short round

As churn_profile.py: `perf record` samples the program's CPU time, and the places of a table add up to the
thread CPU of a pair.  The rounds of all variants alternate; figures are of all rounds together, so they are
means where malloc_pair.py shows the least.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cost import malloc_pair
from benchmarks.cost.malloc_pair import Workload
from harness.measuring import document, profiles
from harness.measuring.profiles import Spent
from harness.paths import ROOT
from harness.peers import variants
from harness.peers.variants import Variant
from offheap.probe import checkout

WRITER = "benchmarks/cost/pair_profile.py"
MOST_FUNCTIONS = 12
WORKLOADS = [
    Workload("1 thread", "pair"),
    Workload("1 thread, 200,000 live", "pair", window=200_000),
    Workload("from changing depths, 7-38", "wander"),
]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="where the time of a malloc and its free goes, by function")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="of CPU, of each variant in a round")
    parser.add_argument("--quick", action="store_true", help="one round of a fifth of a second")
    parser.add_argument("--write", action="store_true", help=f"put them into {malloc_pair.DOCUMENT.name}")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.seconds = 1, 0.2
    if profiles.lacking():
        return 0
    compared = [variants.BASE, *variants.offheap(checkout.build_script().build_if_changed())]
    program = malloc_pair.compile_program(ROOT / "build" / "benchmarks")
    lines = [
        f"`python -m benchmarks.cost.pair_profile --rounds {options.rounds}`: {document.machine()}, "
        f"{document.load()}; ns of thread CPU for a pair."
    ]
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="offheap-bench-") as scratch:
        for workload in WORKLOADS:
            spent = {variant.name: Spent() for variant in compared}
            for _ in range(options.rounds):
                for variant in compared:
                    once(program, variant, workload, Path(scratch), options.seconds, spent[variant.name])
            print(f"profiled: {workload.title}", file=sys.stderr, flush=True)
            lines += ["", *profiles.tables(workload.title, spent, profiles.IN_A_PROGRAM, MOST_FUNCTIONS)]
    print("\n".join(lines))
    if options.write:
        document.replace_section(malloc_pair.DOCUMENT, WRITER, lines, "Benchmarks")
    return 0


def once(
    program: Path, variant: Variant, workload: Workload, scratch: Path, seconds: float, into: Spent
) -> None:
    """Adds one run's time and samples; a pair's mean cost counts as one iteration of it."""
    # perf takes half a second until it looks.
    words = [workload.kind, workload.threads, workload.window, workload.depth, (seconds + 0.5) * 1000]
    with (
        tempfile.TemporaryDirectory(dir=scratch) as folder,
        subprocess.Popen(
            [program, *map(str, words)],
            env={**os.environ, **variant.environment_in(Path(folder))},
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        data = Path(folder) / "perf.data"
        # perf looks at the threads that are there when it comes.
        while len(os.listdir(f"/proc/{process.pid}/task")) < 2:
            time.sleep(0.001)
        with profiles.perf_record(process.pid, data):
            printed, _ = process.communicate()
        into.ns += float(printed.split()[-1])
        into.iterations += 1
        into.count(data, profiles.IN_A_PROGRAM)


if __name__ == "__main__":
    sys.exit(main())
