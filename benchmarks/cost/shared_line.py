"""Do threads that allocate at the same time share a cache line of the probe?

    .venv/bin/python -m benchmarks.cost.shared_line            print the table, a minute
    .venv/bin/python -m benchmarks.cost.shared_line --write    and put it into docs/measurements/hot-path.md
    .venv/bin/python -m benchmarks.cost.shared_line --quick    one short round; says only that it runs

The probe is compared with one built with -DSHARE_A_LINE, which counts every allocation in one variable of
all threads (sampler.h). That costs one instruction on one thread, and the price of a shared line on
several. The probe must not cost that: its threads may slow each other down only as much as those of the C
library do. Exact recording cannot avoid sharing: all threads write to the live table and the counts of
stacks.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.cost import malloc_pair
from benchmarks.cost.malloc_pair import Workload
from harness.measuring import document, runner
from harness.measuring.runner import Benchmark
from harness.paths import ROOT
from harness.peers import variants
from offheap.probe import checkout

BENCHMARK = Benchmark("cost.shared_line", "measurements/hot-path.md")
WORKLOADS = [Workload(f"{count} thread{'s' * (count > 1)}", "pair", threads=count) for count in (1, 2, 4, 8)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = BENCHMARK.parser(
        "does the hot path share a cache line? a minute", quick="one round of 5 ms; says only that it runs"
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--milliseconds", type=float, default=30, help="of CPU for each figure and thread")
    options = parser.parse_args(arguments)

    script = checkout.build_script()
    sharing = script.build_if_changed(
        ROOT / "build" / "shared-line" / "liboffheap.so", flags=[*script.FLAGS, "-DSHARE_A_LINE"]
    )
    by_name = {variant.name: variant for variant in variants.offheap(script.build_if_changed())}
    sampled = by_name["offheap 512 KiB"]
    compared = [
        variants.BASE,
        sampled,
        by_name["offheap exact"],
        replace(sampled, name="offheap 512 KiB that shares a line", library=sharing),
    ]
    with runner.scratch() as scratch:
        bench = malloc_pair.Bench(
            malloc_pair.compile_program(ROOT / "build" / "benchmarks"),
            scratch,
            1 if options.quick else options.rounds,
            5 if options.quick else options.milliseconds,
        )
        lines = [
            f"{BENCHMARK.ran('--rounds', bench.rounds)}: {document.machine()}.",
            "Least of the rounds (median).",
            "",
            *bench.table(compared, WORKLOADS),
        ]
    BENCHMARK.publish(lines, write=options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
