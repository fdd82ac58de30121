"""How often does the interval cover the truth?  Java objects in real JVMs, against the programs' own count.

    .venv/bin/python -m benchmarks.accuracy.java_heap            100 runs a collector, half an hour
    .venv/bin/python -m benchmarks.accuracy.java_heap --write    and put it into docs/evaluation.md
    .venv/bin/python -m benchmarks.accuracy.java_heap --quick    two runs a collector

Each run starts HeldObjects.java with another seed under `offheap run --java-heap`: it holds some 100 MB from
three methods, drops twice as much, and collects its whole heap.  The intervals of `offheap leaks` for each
method are compared with the program's count.  The interval of all survivors is compared with the heap in use
after the collection, as the JVM states it, less the JVM's own: 1 to 4 MB, by a collection at the start.
Status 1 if an interval covers less often than 90 times in 100.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.evaluation import java_heap_accuracy
from harness.evaluation.java_heap_accuracy import INTERVAL, Run
from harness.jvms import java_homes
from harness.jvms.churn_jvm import compile_java
from harness.measuring import document
from harness.measuring.runner import Benchmark

BENCHMARK = Benchmark("accuracy.java_heap", "evaluation.md", "Evaluation")
COLLECTORS = ("Serial", "G1", "ZGC")
SHARE = 0.9


def main(arguments: Sequence[str] | None = None) -> int:
    parser = BENCHMARK.parser(
        "how often the intervals of Java objects cover the truth, half an hour",
        quick="two runs a collector",
    )
    parser.add_argument("--runs", type=int, default=100, help="of each collector")
    parser.add_argument("--seed", type=int, default=0, help="of the first run")
    parser.add_argument("--jdk", type=int, default=21, choices=java_homes.JRE_VERSIONS)
    parser.add_argument("--collector", nargs="*", default=COLLECTORS, help="only these")
    parser.add_argument("--at-once", type=int, default=1)
    options = parser.parse_args(arguments)
    count = 2 if options.quick else options.runs
    with TemporaryDirectory(prefix="offheap-held-") as folder:
        classes = compile_java("HeldObjects.java", Path(folder))

        def once(work: tuple[int, str]) -> Run:
            seed, collector = work
            one = java_heap_accuracy.run(collector, seed, options.jdk, classes)
            missed = [site for site, bounds in one.sites.items() if not bounds.covered]
            missed += [] if one.heap.covered else [f"the heap ({one.heap.ratio:.2f})"]
            print(f"{collector}, seed {seed}: missed {', '.join(missed) or 'nothing'}", flush=True)
            return one

        works = [
            (options.seed + number, collector) for number in range(count) for collector in options.collector
        ]
        with ThreadPoolExecutor(options.at_once) as executor:
            runs = list(executor.map(once, works))
    lines = [
        f"{BENCHMARK.ran('--runs', count)}: {document.machine()}, {document.load()}; JDK {options.jdk},",
        f"a sample each {INTERVAL}. How many 95 % intervals cover the truth (mean of estimate / truth):",
        "",
        *java_heap_accuracy.table(runs),
    ]
    BENCHMARK.publish(lines, write=options.write)
    return 1 if java_heap_accuracy.too_rare(runs, SHARE) else 0


if __name__ == "__main__":
    sys.exit(main())
