"""How good are the verdicts on real JVMs?  Leaks of known rate and healthy programs, judged as they run.

.venv/bin/python -m benchmarks.evaluation.real_jvms            print the tables
.venv/bin/python -m benchmarks.evaluation.real_jvms --write    and put them into docs/evaluation.md
.venv/bin/python -m benchmarks.evaluation.real_jvms --full     every way to leak on every JDK
"""

from __future__ import annotations

import os
import sys

from harness.evaluation.real_jvms import cases, report, run_all
from harness.measuring.runner import Benchmark

BENCHMARK = Benchmark("evaluation.real_jvms", "evaluation.md", "How good the verdicts are")


def main() -> int:
    parser = BENCHMARK.parser("How good are the verdicts on real JVMs?")
    parser.add_argument("--full", action="store_true", help="every way to leak on every JDK, not by turns")
    parser.add_argument("--at-once", type=int, default=8 * len(os.sched_getaffinity(0)), help="JVMs")
    parser.add_argument("--first", type=int, metavar="N", help="only so many of the programs")
    args = parser.parse_args()
    lines = report(run_all(cases(args.full)[: args.first], args.at_once), BENCHMARK.ran())
    BENCHMARK.publish(lines, write=args.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
