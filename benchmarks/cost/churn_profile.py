"""Where does the CPU of recording go in a JVM that allocates and frees as fast as it can, in four ways?

    .venv/bin/python -m benchmarks.cost.churn_profile            print the tables, thirteen minutes
    .venv/bin/python -m benchmarks.cost.churn_profile --write    into docs/measurements/jvm-churn.md
    .venv/bin/python -m benchmarks.cost.churn_profile --quick    one short round on one JDK

`perf record` (Debian's linux-perf) samples the JVM's CPU time; a library's share of the samples is
multiplied by the CPU of an iteration, so the columns of the first table add up to that CPU. The second
table has the functions, by self time, that spend offheap's CPU or the CPU that it causes in the JVM. The
rounds of all variants alternate; figures are of all rounds together.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.jvms import churn_jvm, java_homes
from harness.measuring import document, profiles, rounds, runner
from harness.measuring.profiles import Spent
from harness.measuring.runner import Benchmark
from harness.peers import variants
from harness.peers.variants import Variant

BENCHMARK = Benchmark("cost.churn_profile", "measurements/jvm-churn.md")
MOST_FUNCTIONS = 12


def main(arguments: Sequence[str] | None = None) -> int:
    parser = BENCHMARK.parser(
        "where the time of churn goes, by library and function",
        quick="one round of half a second, on the first JDK",
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4.0, help="measured, after as long a warm-up")
    parser.add_argument("--jdk", type=int, nargs="+", default=churn_jvm.JDKS, choices=java_homes.JRE_VERSIONS)
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.seconds, options.jdk = 1, 0.5, options.jdk[:1]
    if profiles.lacking():
        return 0
    compared = [variants.BASE, *variants.offheap(runner.probe())]
    words = ["--rounds", options.rounds, "--seconds", f"{options.seconds:g}", "--jdk", *options.jdk]
    lines = [
        f"{BENCHMARK.ran(*words)}: {document.machine()}.",
        "ns of CPU for one iteration.",
    ]
    with runner.scratch() as scratch:
        classes = churn_jvm.compile_java("Churn.java", scratch / "classes")
        for workload, jdk in itertools.product(churn_jvm.WORKLOADS, options.jdk):
            command = [*churn_jvm.churn(jdk, classes), workload]
            spent = {variant.name: Spent() for variant in compared}
            for _, variant in rounds.turns(compared, options.rounds):
                once(variant, command, scratch, options.seconds, spent[variant.name])
            title = f"{churn_jvm.WORKLOADS[workload]}, JDK {jdk}"
            print(f"profiled: {title}", file=sys.stderr, flush=True)
            lines += ["", *profiles.tables(title, spent, profiles.IN_A_JVM, MOST_FUNCTIONS)]
    BENCHMARK.publish(lines, write=options.write)
    return 0


def once(variant: Variant, command: Sequence[str], scratch: Path, seconds: float, into: Spent) -> None:
    """Adds one run's time and samples."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = Path(name)
        with subprocess.Popen(
            [*command, str(seconds), str(seconds)],
            env={**os.environ, **variant.environment_in(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdin
            assert process.stdout
            while process.stdout.readline() not in ("warm\n", ""):
                pass
            data = folder / "perf.data"
            with profiles.perf_record(process.pid, data):
                before = churn_jvm.cpu_ns(process.pid)
                process.stdin.write("\n")
                process.stdin.flush()
                into.iterations += int(process.stdout.readline())
                into.ns += churn_jvm.cpu_ns(process.pid) - before
            process.stdin.write("\n")
            process.stdin.flush()
        into.count(data, profiles.IN_A_JVM)


if __name__ == "__main__":
    sys.exit(main())
