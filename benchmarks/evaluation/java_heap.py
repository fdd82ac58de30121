"""The verdicts on Java objects: the zoo's programs on every JDK and collector, and a leak under much load.

    .venv/bin/python -m benchmarks.evaluation.java_heap            ten runs of a minute each, an hour
    .venv/bin/python -m benchmarks.evaluation.java_heap --write    and put the tables into docs/evaluation.md

Every program is recorded at the default budget, by `run` and by `attach`, and collects its whole heap at the
end. The leak under load is 100 KB/s in a heap of 2 GB, in a program that allocates 1 GB/s, attached to for
two minutes with --gc. Status 1 if a leak was missed or a healthy program accused.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.evaluation import java_heap_verdicts
from harness.evaluation.java_heap_verdicts import Case, Outcome
from harness.jvms import java_homes
from harness.jvms import zoo as zoo_programs
from harness.jvms.churn_jvm import compile_java
from harness.jvms.heap_cases import LEAKING
from harness.measuring import document
from harness.measuring.runner import Benchmark
from harness.paths import ROOT

BENCHMARK = Benchmark("evaluation.java_heap", "evaluation.md", "Evaluation")
LEAK = 100e3
HIDDEN_SECONDS = 120.0
COLLECTORS = ("Serial", "G1", "ZGC")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = BENCHMARK.parser("the verdicts on Java objects of real JVMs, an hour")
    parser.add_argument("--runs", type=int, default=10, help="of each program that leaks")
    parser.add_argument("--healthy-runs", type=int, default=34, help="of each healthy program: 102 in all")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0, help="where the settings begin to take turns")
    parser.add_argument("--hidden", type=int, default=1, metavar="RUNS", help="of the leak under load")
    parser.add_argument("--jdk", type=int, default=21, choices=java_homes.JRE_VERSIONS)
    options = parser.parse_args(arguments)
    zoo = zoo_programs.compile_zoo(ROOT / "build" / "zoo")

    def once(case: Case) -> Outcome:
        outcome = java_heap_verdicts.run(case, zoo, options.seconds)
        accused = f", accused {', '.join(outcome.accused)}" if outcome.accused else ""
        print(f"{case}: {outcome.verdict or 'nothing'}{accused}", file=sys.stderr, flush=True)
        return outcome

    with ThreadPoolExecutor(options.at_once) as pool:
        outcomes = list(
            pool.map(once, java_heap_verdicts.cases(options.runs, options.healthy_runs, options.seed))
        )
    with tempfile.TemporaryDirectory(prefix="offheap-hidden-") as folder:
        classes = compile_java("AllocationLoad.java", Path(folder))
        hidden = [
            java_heap_verdicts.hidden(collector, options.jdk, classes, LEAK, HIDDEN_SECONDS)
            for _ in range(options.hidden)
            for collector in COLLECTORS
        ]
    ran = BENCHMARK.ran(
        "--runs", options.runs, "--healthy-runs", options.healthy_runs, "--seconds", f"{options.seconds:g}"
    )
    lines = [
        "## Java objects of real JVMs",
        "",
        f"{ran}, {document.machine()}, {document.load()}.",
        "",
        *java_heap_verdicts.table(outcomes),
        "",
        f"A leak of 100 KB/s under 1 GB/s in a heap of 2 GB, JDK {options.jdk}, {HIDDEN_SECONDS:.0f} s:",
        "",
        *java_heap_verdicts.hidden_table(hidden),
    ]
    BENCHMARK.publish(lines, write=options.write)
    missed = [one for one in outcomes if one.case.program in LEAKING and not one.first]
    return 1 if missed or any(one.accused for one in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
