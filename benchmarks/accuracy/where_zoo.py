"""How often is the verdict of `offheap where --watch` right?  Every program of the zoo, again and again.

    .venv/bin/python -m benchmarks.accuracy.where_zoo --runs 10

Each run starts the program afresh with -XX:NativeMemoryTracking=summary, on JDK 11, 17, 21 and 25 in turn
(or those of --jdk), and watches it for 60 seconds from its first second on.  A verdict is right
if zoo.json lists it.  Prints the table, and with --write puts it into docs/where.md; status 1 if a verdict
was wrong.  "Cannot tell yet" in place of a verdict is counted apart.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from harness.command_line import offheap
from harness.jvms import java_homes
from harness.jvms import zoo as zoo_programs
from harness.jvms.zoo import Program, Running, Zoo
from harness.measuring import document
from harness.measuring.runner import Benchmark
from harness.paths import ROOT

BENCHMARK = Benchmark("accuracy.where_zoo", "where.md")
SECONDS = 60.0
AT_ONCE = 2
UNDECIDED = "cannot tell yet"


def judged(program: Program, version: int, zoo: Zoo, seconds: float) -> tuple[str, str]:
    """(the verdict's kind, why) of one fresh run."""
    command = zoo.command(program, java_homes.java(version))
    command.insert(1, "-XX:NativeMemoryTracking=summary")
    with Running(command) as running:
        running.truths(1)
        watch = offheap("where", str(running.pid), "--watch", f"{seconds}s", "--json")
        done = subprocess.run(watch, capture_output=True, text=True, timeout=seconds + 120)
        assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)["verdict"]
    return verdict["kind"], verdict["why"]


def main() -> int:
    parser = BENCHMARK.parser("How often is the verdict right?")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    parser.add_argument("--only", nargs="*", help="programs, by name")
    parser.add_argument("--jdk", nargs="*", type=int, default=java_homes.JRE_VERSIONS)
    options = parser.parse_args()
    zoo = zoo_programs.compile_zoo(ROOT / "build" / "zoo")
    programs = [one for one in zoo_programs.programs().values() if one.where and one.jdk <= max(options.jdk)]
    if options.only:
        programs = [one for one in programs if one.name in options.only]

    def once(work: tuple[Program, int]) -> str:
        program, run = work
        versions = [version for version in options.jdk if version >= program.jdk]
        version = versions[run % len(versions)]
        kind, why = judged(program, version, zoo, options.seconds)
        if kind not in program.where:
            print(f"{program.name} on {version}: {kind}: {why}", file=sys.stderr, flush=True)
        return kind

    works = [(program, run) for run in range(options.runs) for program in programs]
    with ThreadPoolExecutor(options.at_once) as executor:
        kinds = list(executor.map(once, works))
    rows, wrong = [], 0
    for program in programs:
        counts = Counter(kind for (one, _), kind in zip(works, kinds, strict=True) if one is program)
        right = sum(counts[kind] for kind in program.where)
        undecided = counts[UNDECIDED] if UNDECIDED not in program.where else 0
        failed = counts.total() - right - undecided
        wrong += failed
        numbers = (counts.total(), right, undecided, failed)
        rows.append((program.name, " or ".join(program.where), *map(str, numbers)))
    ran = BENCHMARK.ran("--runs", options.runs, "--seconds", f"{options.seconds:g}", "--jdk", *options.jdk)
    lines = [
        f"{ran}: {document.machine()}, {document.load()}; the JDKs in turn.",
        "",
        *document.table(("program", "deserves", "runs", "right", "undecided", "wrong"), rows),
    ]
    BENCHMARK.publish(lines, write=options.write)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
