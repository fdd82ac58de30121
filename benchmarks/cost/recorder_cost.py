"""What a recording costs as a whole: the sampling in the process, and the recorder beside it.

.venv/bin/python -m benchmarks.cost.recorder_cost            print the table, five minutes
.venv/bin/python -m benchmarks.cost.recorder_cost --write    and put it into docs/measurements/recorder.md
.venv/bin/python -m benchmarks.cost.recorder_cost --quick    15 seconds of one program, to see that it works

`offheap attach` records a JVM with default options: one of the zoo that leaks Inflaters and is mostly idle,
one that makes and frees a gigabyte of blocks a second, and one that keeps a CPU busy with 20 gigabytes.  The
recorder's CPU is read from /proc meanwhile.  The recorder is that of a wheel: in a checkout each start also
compares the probe with its sources.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import command_line
from harness.installs import trials
from harness.jvms import churn_jvm, java_homes, zoo
from harness.measuring import document
from harness.measuring.runner import Benchmark
from harness.paths import ROOT
from offheap import recording
from offheap.quantities import format_size

BENCHMARK = Benchmark("cost.recorder_cost", "measurements/recorder.md")
JDK = 17
START, SETTLED = 2.0, 10.0  # seconds: the start is over; a budget bounds the recorder, too
SECONDS, QUICK_SECONDS = 60, 15
INSTALLED = "installed"
# Of LeakUnderChurn: bytes a second that stay and that go, and bytes of a block.  A program that lags behind
# its rate prints nothing.
LEAK, BLOCK = "10000", "65536"
CHURNS = {"1 GB a second": "1e9", "20 GB a second": "2e10"}


@dataclass(frozen=True)
class Cost:
    """CPU in seconds, of the recorder but for `sampling` and `process`; memory in bytes."""

    start: float  # until START
    early: float  # a second, from then until SETTLED
    settled: float  # a second, from then until the end
    end: float  # to name native frames and write the tables
    sampling: float  # a second, of the process
    process: float  # a second
    rss: int  # at most, while it recorded


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def install_wheel(folder: Path) -> None:
    """Installs this offheap in folder / INSTALLED, without its dependencies, which this interpreter has."""
    target = folder / INSTALLED
    pip: list[str | Path] = [
        *(sys.executable, "-m", "pip", "--quiet", "install", "--no-deps"),
        *("--target", target, trials.wheel()),
    ]
    subprocess.run(pip, check=True)


def cost(pid: int, output: Path, seconds: int) -> Cost:
    began = time.monotonic()
    with subprocess.Popen(
        command_line.offheap("attach", str(pid), "--duration", f"{seconds}s", "-o", output),
        env={**os.environ, "PYTHONPATH": str(output.parent / INSTALLED)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as recorder:
        used = []
        for moment in (START, SETTLED, seconds - 1.0):
            time.sleep(max(0.0, began + moment - time.monotonic()))
            used.append((time.monotonic(), cpu_seconds(recorder.pid)))
        _, status, usage = os.wait4(recorder.pid, 0)
        recorder.returncode = os.waitstatus_to_exitcode(status)
        assert recorder.returncode == 0, recorder.stderr and recorder.stderr.read()
    (a, start), (b, early), (c, last) = used
    info = recording.load(output).info
    assert info.budget
    assert info.recorder
    settled = (last - early) / (c - b)
    return Cost(
        start,
        (early - start) / (b - a),
        settled,
        usage.ru_utime + usage.ru_stime - last - settled,
        info.budget.spent_seconds / info.duration_seconds,
        info.budget.cpu_seconds / info.duration_seconds,
        info.recorder.rss_bytes,
    )


def row(name: str, its: Cost) -> list[str]:
    return [
        name,
        f"{its.process:.1%}",
        f"{its.sampling:.2%}",
        f"{its.settled:.2%}",
        f"{its.start:.2f} s",
        f"{its.early:.2%}",
        f"{its.end:.2f} s",
        format_size(its.rss),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = BENCHMARK.parser("what a recording costs as a whole", quick="15 seconds of one program")
    options = parser.parse_args(arguments)
    seconds = QUICK_SECONDS if options.quick else SECONDS
    rows = []
    with tempfile.TemporaryDirectory(prefix="offheap-bench-") as scratch:
        folder = Path(scratch)
        install_wheel(folder)
        leaking = zoo.compile_zoo(ROOT / "build" / "zoo").command(
            zoo.programs()["inflaters"], java_homes.java(JDK), 200
        )
        with zoo.Running(leaking) as running:
            running.truths(3)
            rows.append(row("leaks Inflaters", cost(running.pid, folder / "leak.offheap", seconds)))
        if not options.quick:
            classes = churn_jvm.compile_java("LeakUnderChurn.java", folder / "classes")
            for name, churn in CHURNS.items():
                churning = [
                    *(str(java_homes.java(JDK)), "-Xmx64m", "-cp", str(classes)),
                    *("LeakUnderChurn", "unsafe", LEAK, churn, BLOCK),
                ]
                with zoo.Running(churning) as running:
                    running.truths(3)
                    rows.append(row(name, cost(running.pid, folder / f"{churn}.offheap", seconds)))
    lines = [
        f"{BENCHMARK.ran()}: {document.machine()}, {document.load()}; JDK {JDK}, {seconds} s each.",
        "",
        *document.table(
            (
                "JVM",
                "its CPU, of one",
                "sampling, of one CPU",
                f"recorder after {SETTLED:.0f} s, of one CPU",
                f"recorder, first {START:.0f} s",
                f"until {SETTLED:.0f} s, of one CPU",
                "at the end",
                "RSS while it records",
            ),
            rows,
        ),
    ]
    BENCHMARK.publish(lines, write=options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
