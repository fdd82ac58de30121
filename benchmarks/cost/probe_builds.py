"""The probe against builds of it that differ in one thing: a shared cache line, and no tracepoints.

    .venv/bin/python -m benchmarks.cost.probe_builds            print the table, three minutes
    .venv/bin/python -m benchmarks.cost.probe_builds --write    and put it into docs/measurements/hot-path.md
    .venv/bin/python -m benchmarks.cost.probe_builds --quick    one short round; says only that it runs

-DSHARE_A_LINE counts every allocation in one variable of all threads (sampler.h). That costs one
instruction on one thread, and the price of a shared line on several. The probe must not cost that: its
threads may slow each other down only as much as those of the C library do. Exact recording cannot avoid
sharing: all threads write to the live table and the counts of stacks.

-DNO_TRACEPOINTS leaves out the tracepoints of otel_memory.h (usdt.h). Nobody traces here, so the probe must
cost the same without them; an exact recording meets them at every block.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from benchmarks.cost import malloc_pair
from benchmarks.cost.malloc_pair import Workload
from harness.measuring import document, runner
from harness.measuring.runner import Benchmark
from harness.paths import ROOT
from harness.peers import variants
from offheap.probe import checkout

BENCHMARK = Benchmark("cost.probe_builds", "measurements/hot-path.md")
WORKLOADS = [Workload(f"{count} thread{'s' * (count > 1)}", "pair", threads=count) for count in (1, 2, 4, 8)]


def _build(script: ModuleType, macro: str) -> Path:
    output = ROOT / "build" / "probe-builds" / macro / "liboffheap.so"
    library: Path = script.build_if_changed(output, flags=[*script.FLAGS, f"-D{macro}"])
    return library


def main(arguments: Sequence[str] | None = None) -> int:
    parser = BENCHMARK.parser(
        "does a malloc pay for a shared line or for tracepoints? three minutes",
        quick="one round of 5 ms; says only that it runs",
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--milliseconds", type=float, default=30, help="of CPU for each figure and thread")
    options = parser.parse_args(arguments)

    script = checkout.build_script()
    by_name = {variant.name: variant for variant in variants.offheap(script.build_if_changed())}
    sampled, exact = by_name["offheap 512 KiB"], by_name["offheap exact"]
    sharing, untraced = (_build(script, flag) for flag in ("SHARE_A_LINE", "NO_TRACEPOINTS"))
    compared = [
        variants.BASE,
        sampled,
        replace(sampled, name="offheap 512 KiB without tracepoints", library=untraced),
        replace(sampled, name="offheap 512 KiB that shares a line", library=sharing),
        exact,
        replace(exact, name="offheap exact without tracepoints", library=untraced),
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
