"""How good are the answers on programs around published libraries?  Each leaking and healthy, on real JVMs.

.venv/bin/python -m benchmarks.evaluation.published            print the tables
.venv/bin/python -m benchmarks.evaluation.published --write    and put them into docs/evaluation.md
.venv/bin/python -m benchmarks.evaluation.published --full     each program on every JDK, loaded and not
.venv/bin/python -m benchmarks.evaluation.published --only zstd-orders --jdk 17 --keep /tmp/published
.venv/bin/python -m benchmarks.evaluation.published --again /tmp/published    judge what is kept
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

from harness.evaluation import published_programs
from harness.evaluation.published_outcomes import WAYS, report
from harness.evaluation.published_programs import JDKS, TWINS
from harness.evaluation.published_runs import AT_ONCE, SECONDS, cases, judge_again, run_all
from harness.measuring.runner import Benchmark

BENCHMARK = Benchmark("evaluation.published", "evaluation.md", "How good the verdicts are")


def main() -> int:
    parser = BENCHMARK.parser("How good are the answers on published libraries?")
    parser.add_argument(
        "--full", action="store_true", help="every program on every JDK, with and without load"
    )
    parser.add_argument("--seed", type=int, default=0, help="where the turns start")
    parser.add_argument("--only", nargs="*", metavar="PROGRAM", help="these programs")
    parser.add_argument("--jdk", nargs="*", type=int, default=JDKS, help="these JDKs")
    parser.add_argument("--way", nargs="*", choices=WAYS, default=WAYS)
    parser.add_argument("--twin", nargs="*", choices=TWINS, default=TWINS)
    parser.add_argument(
        "--load", choices=("alone", "busy", "both"), default="both", help="with or without load"
    )
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="JVMs")
    parser.add_argument("--keep", type=Path, help="a folder for recordings and answers")
    parser.add_argument("--again", type=Path, metavar="KEPT", help="judge the recordings kept there anew")
    args = parser.parse_args()
    programs = published_programs.programs()
    unknown = set(args.only or ()) - set(programs)
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    wanted = [one for one in programs.values() if not args.only or one.name in args.only]
    chosen = [
        case
        for case in cases(wanted, args.seed, args.jdk, args.full)
        if case.way in args.way
        and case.twin in args.twin
        and args.load in ("both", "busy" if case.busy else "alone")
    ]
    if not args.again:
        print(f"{len(chosen)} recordings, seed {args.seed}", file=sys.stderr)
    with contextlib.ExitStack() as stack:
        keep = args.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="published-")))
        if args.again:
            outcomes, troubles = judge_again(args.again, len(os.sched_getaffinity(0)))
        else:
            outcomes, troubles = run_all(chosen, args.at_once, args.seconds, keep)
    lines = report(outcomes, troubles, args.seconds, args.seed, BENCHMARK.ran())
    BENCHMARK.publish(lines, write=args.write)
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
