"""How long does `offheap --help` take, beside an interpreter that does nothing?

.venv/bin/python -m benchmarks.reading.start_up            print the table, a minute at most
.venv/bin/python -m benchmarks.reading.start_up --write    and put it into docs/measurements/start-up.md
.venv/bin/python -m benchmarks.reading.start_up --quick    two rounds; says only that it runs

Both take turns. The figure is CPU: on an idle machine a person waits as long, and other load lengthens the
wait alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from harness.measuring import document, rounds
from harness.measuring.runner import Benchmark

BENCHMARK = Benchmark("reading.start_up", "measurements/start-up.md", "The start of a command")
COMMANDS = {"python -c pass": ("-c", "pass"), "offheap --help": ("-m", "offheap", "--help")}
TARGET_MS = 150


def cpu_ms(command: str) -> float:
    """The CPU time of the process, user and system."""
    process = subprocess.Popen([sys.executable, *COMMANDS[command]], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return 1000 * (usage.ru_utime + usage.ru_stime)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = BENCHMARK.parser("how long a command takes to start", quick="two rounds; says only that it runs")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args(arguments)

    count = 2 if options.quick else options.rounds
    costs = rounds.alternate(list(COMMANDS), count, cpu_ms)
    lines = [
        f"{BENCHMARK.ran('--rounds', count)}: {document.machine()}, {document.load()}.",
        f"Least of the rounds (median). The target of `offheap --help` is {TARGET_MS} ms.",
        "",
        *document.table(
            ["", "ms of CPU"], [[f"`{name}`", str(cost)] for name, cost in zip(COMMANDS, costs, strict=True)]
        ),
    ]
    BENCHMARK.publish(lines, write=options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
