"""How good are the verdicts on real JVMs?  Leaks of known rate and healthy programs, judged as they run.

.venv/bin/python -m benchmarks.evaluation.real_jvms            print the tables
.venv/bin/python -m benchmarks.evaluation.real_jvms --write    and put them into docs/evaluation.md
.venv/bin/python -m benchmarks.evaluation.real_jvms --full     every way to leak on every JDK
"""

from __future__ import annotations

import argparse
import os
import sys

from harness.evaluation import simulated_verdicts
from harness.evaluation.real_jvms import DOCUMENT, WRITER, cases, report, run_all
from harness.measuring import document


def main() -> int:
    parser = argparse.ArgumentParser(description="How good are the verdicts on real JVMs?")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {DOCUMENT.name}")
    parser.add_argument("--full", action="store_true", help="every way to leak on every JDK, not by turns")
    parser.add_argument("--at-once", type=int, default=8 * len(os.sched_getaffinity(0)), help="JVMs")
    parser.add_argument("--first", type=int, metavar="N", help="only so many of the programs")
    args = parser.parse_args()
    lines = report(run_all(cases(args.full)[: args.first], args.at_once))
    print("\n".join(lines))
    if args.write:
        document.replace_section(DOCUMENT, WRITER, lines, simulated_verdicts.TITLE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
