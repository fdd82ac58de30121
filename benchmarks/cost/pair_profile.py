"""Where does the CPU of one malloc and its free go under offheap, in the program of malloc_pair.py?

    .venv/bin/python -m benchmarks.cost.pair_profile            print the tables, two minutes
    .venv/bin/python -m benchmarks.cost.pair_profile --write    into docs/measurements/hot-path.md
    .venv/bin/python -m benchmarks.cost.pair_profile --quick    one short round

As churn_profile.py: `perf record` samples the program's CPU time, and the places of a table add up to the
thread CPU of a pair.  The rounds of all variants alternate; figures are of all rounds together, so they are
means where malloc_pair.py shows the least.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cost import malloc_pair
from benchmarks.cost.malloc_pair import Workload
from harness.measuring import document, profiles, rounds, runner
from harness.measuring.profiles import Spent
from harness.measuring.runner import Benchmark
from harness.paths import ROOT
from harness.peers import variants
from harness.peers.variants import Variant

BENCHMARK = Benchmark("cost.pair_profile", "measurements/hot-path.md")
MOST_FUNCTIONS = 12
WORKLOADS = [
    Workload("1 thread", "pair"),
    Workload("1 thread, 200,000 live", "pair", window=200_000),
    Workload("from changing depths, 7-38", "wander"),
]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = BENCHMARK.parser(
        "where the time of a malloc and its free goes, by function", quick="one round of a fifth of a second"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="of CPU, of each variant in a round")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.seconds = 1, 0.2
    if profiles.lacking():
        return 0
    compared = [variants.BASE, *variants.offheap(runner.probe())]
    program = malloc_pair.compile_program(ROOT / "build" / "benchmarks")
    lines = [
        f"{BENCHMARK.ran('--rounds', options.rounds)}: {document.machine()}, "
        f"{document.load()}; ns of thread CPU for a pair."
    ]
    with runner.scratch() as scratch:
        for workload in WORKLOADS:
            spent = {variant.name: Spent() for variant in compared}
            for _, variant in rounds.turns(compared, options.rounds):
                once(program, variant, workload, scratch, options.seconds, spent[variant.name])
            print(f"profiled: {workload.title}", file=sys.stderr, flush=True)
            lines += ["", *profiles.tables(workload.title, spent, profiles.IN_A_PROGRAM, MOST_FUNCTIONS)]
    BENCHMARK.publish(lines, write=options.write)
    return 0


def once(
    program: Path, variant: Variant, workload: Workload, scratch: Path, seconds: float, into: Spent
) -> None:
    """Adds one run's time and samples; a pair's mean cost counts as one iteration of it."""
    # perf needs half a second before it samples.
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
        # perf samples the threads that exist when it starts.
        while len(os.listdir(f"/proc/{process.pid}/task")) < 2:
            time.sleep(0.001)
        with profiles.perf_record(process.pid, data):
            printed, _ = process.communicate()
        into.ns += float(printed.split()[-1])
        into.iterations += 1
        into.count(data, profiles.IN_A_PROGRAM)


if __name__ == "__main__":
    sys.exit(main())
