"""How often is the leak found?  The zip leak on every JDK, by run and by attach, under the default budget.

    .venv/bin/python -m benchmarks.accuracy.zoo --runs 10             print the table
    .venv/bin/python -m benchmarks.accuracy.zoo --runs 10 --write     and put it into docs/measurements.md

Each run leaks 200 Inflaters a second under zip churn and is recorded for 20 seconds.  The leak is found if it
is the first suspect with the verdict "leak", and its stack names zlib, the JDK's method and the application's
two, without a gap.  Status 1 if any run missed it.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from harness.jvms import java_homes, zoo_cases
from harness.jvms import zoo as zoo_programs
from harness.measuring import document
from harness.measuring.runner import Benchmark
from harness.paths import ROOT

BENCHMARK = Benchmark("accuracy.zoo", "measurements.md", "Measurements")
SECONDS = 20.0
AT_ONCE = 3


@dataclass(frozen=True)
class Tally:
    """How many of `runs` recordings had the leak first, with the verdict, with the whole stack."""

    case: zoo_cases.Case
    runs: int
    first: int
    verdict: int
    stack: int

    @property
    def found_always(self) -> bool:
        return self.runs == self.first == self.verdict == self.stack


def measure(case: zoo_cases.Case, runs: int, zoo: zoo_programs.Zoo) -> Tally:
    program = zoo_cases.PROGRAMS[case.program]
    java = java_homes.java(case.jre)

    def once(number: int) -> tuple[bool, bool, bool]:
        with tempfile.TemporaryDirectory(prefix="offheap-zoo-") as folder:
            recorded = zoo_cases.record(case, java, zoo, Path(folder), SECONDS)
        first = recorded.leaks["suspects"][0]
        names = [frame["name"] for frame in first["stack"]]
        try:
            zoo_cases.assert_stack(program, first["stack"])
            whole = True
        except AssertionError as error:
            whole = False
            print(f"{case}, run {number + 1}: {error}", file=sys.stderr)
        if first["verdict"] != "leak":
            print(f"{case}, run {number + 1}: {first['verdict']}: {first['why']}", file=sys.stderr)
        return program.stack[-1] in names, first["verdict"] == "leak", whole

    with ThreadPoolExecutor(AT_ONCE) as executor:
        results = list(executor.map(once, range(runs)))
    first, verdict, stack = (sum(column) for column in zip(*results, strict=True))
    return Tally(case, runs, first, verdict, stack)


def table(tallies: list[Tally]) -> list[str]:
    return [
        f"{document.machine()}; {BENCHMARK.ran('--runs', tallies[0].runs)}, "
        f"{SECONDS:.0f} s each, at the default budget of 1 %:",
        "",
        *document.table(
            ("JDK", "by", "runs", "first suspect", "verdict leak", "whole stack"),
            [
                (str(t.case.jre), t.case.way, str(t.runs), str(t.first), str(t.verdict), str(t.stack))
                for t in tallies
            ],
        ),
    ]


def main() -> int:
    parser = BENCHMARK.parser("How often is the leak found?")
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    zoo = zoo_programs.compile_zoo(ROOT / "build" / "zoo")
    tallies = []
    for case in zoo_cases.INFLATERS:
        tallies.append(measure(zoo_cases.Case(case.program, case.jre, case.way, ()), options.runs, zoo))
        print(tallies[-1], file=sys.stderr, flush=True)
    BENCHMARK.publish(table(tallies), write=options.write)
    return 0 if all(tally.found_always for tally in tallies) else 1


if __name__ == "__main__":
    sys.exit(main())
