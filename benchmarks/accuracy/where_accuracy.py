"""How much of RSS does `offheap where` leave unattributed?  Every JDK and collector, NMT off.

    .venv/bin/python -m benchmarks.accuracy.where_accuracy --runs 3             print the table
    .venv/bin/python -m benchmarks.accuracy.where_accuracy --runs 3 --write     and put it into docs/where.md

The program is Footprint.java: threads, zip streams, direct buffers, a mapped file, class loaders.
Each run has two readings: once it is up, and after a whole collection (G1's is concurrent), when the
collector's tables are in memory.  The table has the least and the most of all readings in % of RSS.
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness.jvms import java_homes
from harness.jvms.footprint import COLLECTORS, compile_footprint, footprint_jvm
from harness.measuring import document
from harness.measuring.runner import Benchmark
from offheap.inspect.process import inspect_process
from offheap.jvm.listener.attach import AttachedVM

BENCHMARK = Benchmark("accuracy.where_accuracy", "where.md")


def shares(version: int, collector: str, classes: Path, options: list[str]) -> list[float]:
    """% of RSS that no owner is known for, of both readings of one run."""
    options = ["-XX:+ExplicitGCInvokesConcurrent", *options]
    with footprint_jvm(java_homes.java(version), classes, collector, *options) as jvm:
        first = inspect_process(jvm.pid)
        AttachedVM(jvm.pid).jcmd("GC.run")
        return [100 * one.unattributed_bytes / one.memory.rss for one in (first, inspect_process(jvm.pid))]


def main() -> int:
    parser = BENCHMARK.parser("How much of RSS is left unattributed?")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--jvm", action="append", default=[], help="an option for the JVM, such as --jvm=-Xms192m"
    )
    options = parser.parse_args()
    classes = compile_footprint(min(java_homes.jdk_homes().items())[1])
    rows = []
    for version in java_homes.JRE_VERSIONS:
        cells = []
        for collector in COLLECTORS:
            found = [
                share
                for _ in range(options.runs)
                for share in shares(version, collector, classes, options.jvm)
            ]
            cells.append(f"{min(found):.2f} to {max(found):.2f}")
        rows.append([str(version), *cells])
    BENCHMARK.publish(document.table(["", *COLLECTORS], rows), write=options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
