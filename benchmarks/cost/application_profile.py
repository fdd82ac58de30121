"""Where does the CPU of a request to the server of application.py go, with and without offheap?

    .venv/bin/python -m benchmarks.cost.application_profile            print the tables, four minutes
    .venv/bin/python -m benchmarks.cost.application_profile --write    into docs/measurements/server.md
    .venv/bin/python -m benchmarks.cost.application_profile --quick    one short round

As churn_profile.py: `perf record` samples the server's CPU time, and the columns of the first table add up to
the CPU of a request.  offheap is attached and detached in one warm JVM, in changing order.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cost import application
from harness.measuring import document, profiles, rounds
from harness.measuring.profiles import Spent
from harness.measuring.runner import Benchmark

BENCHMARK = Benchmark("cost.application_profile", "measurements/server.md")
MOST_FUNCTIONS = 8


def main(arguments: Sequence[str] | None = None) -> int:
    parser = BENCHMARK.parser(
        "where the time of a request goes, by library and function",
        quick="one round of 2 s; says only that it runs",
    )
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=8.0, help="under load, of each variant in a round")
    parser.add_argument("--warm-up", type=float, default=40.0, metavar="SECONDS", help="of CPU")
    parser.add_argument("--jdk", type=int, default=17)
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.seconds, options.warm_up = 1, 2.0, 4.0
    if profiles.lacking():
        return 0
    with application.bench_or_lack(options.jdk, options.seconds, options.warm_up, 0.0) as bench:
        if isinstance(bench, str):
            print(f"no profile: the machine lacks {bench}", file=sys.stderr)
            return 0
        spent = profile(bench, options.rounds)
    lines = [
        f"{BENCHMARK.ran('--rounds', options.rounds, '--jdk', options.jdk)}: "
        f"{document.machine()}, {document.load()}; ns of the server's CPU for a request.",
        "",
        *profiles.tables("where", spent, profiles.IN_A_JVM, MOST_FUNCTIONS),
    ]
    BENCHMARK.publish(lines, write=options.write)
    return 0


def profile(bench: application.Bench, count: int) -> dict[str, Spent]:
    names = [application.BASE, *application.OFFHEAP]
    spent = {name: Spent() for name in names}
    with bench.server() as (pid, port):
        for done, (_, name) in enumerate(rounds.turns(names, count), 1):
            with tempfile.TemporaryDirectory(dir=bench.scratch) as folder:
                once(name, pid, port, bench.seconds, Path(folder), spent[name])
            if done % len(names) == 0:
                print(f"round {done // len(names)} of {count}", file=sys.stderr, flush=True)
    return spent


def once(name: str, pid: int, port: int, seconds: float, folder: Path, into: Spent) -> None:
    """Adds one stretch's time and samples."""
    data = folder / "perf.data"

    def load() -> None:
        with profiles.perf_record(pid, data):
            driven = application.drive(pid, port, seconds)
        into.iterations += driven.requests
        into.ns += driven.server * 1e9

    if name == application.BASE:
        load()
    else:
        with application.recorded(pid, name, folder / "server.offheap"):
            load()
    into.count(data, profiles.IN_A_JVM)


if __name__ == "__main__":
    sys.exit(main())
