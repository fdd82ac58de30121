"""What does it cost a program that allocates a gigabyte a second to have its Java objects followed?

    .venv/bin/python -m benchmarks.cost.java_heap            print the table, half an hour
    .venv/bin/python -m benchmarks.cost.java_heap --write    into docs/measurements/java-heap.md
    .venv/bin/python -m benchmarks.cost.java_heap --quick    one short round of G1

AllocationLoad.java handles a thousand requests a second, a megabyte each.  A round has a JVM of every
variant, each time in another order.  CPU is the process's, for a request, after a warm-up that is not
measured; the recorder's own CPU is a column apart.  Pauses are those of the log of collections in that time.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.jvms import collectors, java_homes
from harness.jvms.churn_jvm import compile_java, cpu_ns
from harness.measuring import document, pauses, rounds, runner
from harness.measuring.runner import Benchmark
from harness.paths import ROOT
from harness.peers import heap_profilers, variants
from harness.peers.heap_profilers import BASE, HeapProfiler

BENCHMARK = Benchmark("cost.java_heap", "measurements/java-heap.md")
COLLECTORS = {"G1": collectors.COLLECTORS["G1"], "ZGC, generational": collectors.GENERATIONAL_ZGC}
TIME_LIMIT_SECONDS = 120.0


@dataclass(frozen=True)
class Measured:
    """One JVM: CPU of a request in microseconds, the recorder's CPU as a share of the JVM's, its pauses."""

    cpu: float
    recorder: float
    pauses: pauses.Pauses
    rate: float  # requests a second


@dataclass(frozen=True)
class Bench:
    java: Path
    classes: Path
    scratch: Path
    rate: float
    warm_up: float
    seconds: float

    def once(self, variant: HeapProfiler, collector: str) -> Measured | None:
        """None if the variant is missing or the program failed under it."""
        if not variant.present:
            return None
        with tempfile.TemporaryDirectory(dir=self.scratch) as name:
            folder = Path(name)
            log = folder / "gc.log"
            words = [str(self.java), "-Xms768m", "-Xmx768m", *COLLECTORS[collector]]
            words += ["-cp", str(self.classes), "AllocationLoad"]
            words += [str(self.rate), str(self.warm_up), str(self.seconds)]
            command = variant.command(words, folder)
            at = command.index(str(self.java)) + 1
            # Behind the variant's own options, one of which may turn the log off.
            at += len(variant.options)
            command.insert(at, pauses.OPTION.format(file=log))
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            ) as process:
                return _measure(process, log)


def _measure(process: subprocess.Popen[str], log: Path) -> Measured | None:
    assert process.stdin
    assert process.stdout
    try:
        pid = int(_line(process, r"pid (\d+)")[1])
        _line(process, "warm")
        watched = [pid] if pid == process.pid else [pid, process.pid]
        before = [cpu_ns(one) for one in watched]
        process.stdin.write("\n")
        process.stdin.flush()
        requests, begin, end = map(int, _line(process, r"measured (\d+) (\d+) (\d+)").groups())
        jvm, *recorder = ((cpu_ns(one) - ns) for one, ns in zip(watched, before, strict=True))
        process.stdin.write("\n")
        process.stdin.flush()
        process.wait(TIME_LIMIT_SECONDS)
        found = pauses.read(log.read_text(), begin / 1e3, end / 1e3)
        return Measured(jvm / requests / 1e3, sum(recorder) / jvm, found, requests / (end - begin) * 1e3)
    except (OSError, ValueError):
        process.kill()
        return None


def _line(process: subprocess.Popen[str], pattern: str) -> re.Match[str]:
    assert process.stdout
    for line in process.stdout:
        if match := re.fullmatch(pattern, line.rstrip("\n")):
            return match
    raise ValueError(f"the program ended before {pattern!r}")


def table(compared: Sequence[HeapProfiler], measured: dict[HeapProfiler, list[Measured | None]]) -> list[str]:
    rows = []
    base = [one for one in measured[BASE] if one]
    for variant in compared:
        own = [one for one in measured[variant] if one]
        if len(own) < len(base):
            rows.append([variant.name, "failed" if variant.present else "absent", *[""] * 5])
            continue
        mean = sum(one.cpu for one in own) / len(own)
        cells = [variant.name, f"{mean:,.0f}"]
        for figure in (_cpu, _total, _p99):
            against = rounds.paired([figure(one) for one in own], [figure(one) for one in base])
            cells.append("" if variant is BASE else str(against))
        recorder = sum(one.recorder for one in own) / len(own)
        cells.append(f"{recorder:.2%}" if variant.recorder is not None else "")
        cells.append(f"{sum(one.rate for one in own) / len(own):,.0f}")
        rows.append(cells)
    header = ["", "µs of CPU a request", "against nothing, 95 %", "total pause", "99th percentile pause"]
    return document.table([*header, "its recorder's CPU", "requests a second"], rows)


def _cpu(one: Measured) -> float:
    return one.cpu


def _total(one: Measured) -> float:
    return max(one.pauses.total, 0.001)  # a ratio needs one


def _p99(one: Measured) -> float:
    return max(one.pauses.p99, 0.001)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = BENCHMARK.parser(
        "what following Java objects costs a program that allocates 1 GB/s, half an hour",
        quick="one round of 2 s, G1 alone; says only that it runs",
        more="only",
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=12, help="measured, of each variant in a round")
    parser.add_argument("--warm-up", type=float, default=8, metavar="SECONDS")
    parser.add_argument("--rate", type=float, default=1000, help="requests a second, a megabyte each")
    parser.add_argument("--jdk", type=int, default=21, choices=java_homes.JRE_VERSIONS)
    parser.add_argument("--collector", nargs="*", choices=COLLECTORS, default=list(COLLECTORS))
    options = parser.parse_args(arguments)
    count, seconds, warm_up, names = options.rounds, options.seconds, options.warm_up, options.collector
    if options.quick:
        count, seconds, warm_up, names = 1, 2.0, 1.0, ["G1"]

    peer = heap_profilers.async_profiler(variants.fetch_async_profiler(ROOT / "build" / "peers"))
    compared = [BASE, heap_profilers.NATIVE, heap_profilers.JAVA_HEAP, heap_profilers.FIXED]
    compared += [peer, heap_profilers.JFR]
    if options.only is not None:
        compared = [one for one in compared if one is BASE or options.only in one.name]
    lines = [
        f"{BENCHMARK.ran('--rounds', count, '--seconds', f'{seconds:g}')}: {document.machine()}, "
        f"{document.load()}; JDK {options.jdk}, async-profiler {variants.ASYNC_PROFILER}.",
    ]
    with runner.scratch() as scratch:
        classes = compile_java("AllocationLoad.java", scratch / "classes")
        java = java_homes.java(options.jdk)
        bench = Bench(java, classes, scratch, options.rate, warm_up, seconds)
        for name in names:
            measured: dict[HeapProfiler, list[Measured | None]] = {variant: [] for variant in compared}
            for _, variant in rounds.turns(compared, count):
                one = bench.once(variant, name)
                measured[variant].append(one)
                said = f"{one.cpu:.0f} µs, {one.pauses}" if one else "failed"
                print(f"{name}, {variant.name}: {said}", file=sys.stderr, flush=True)
            lines += ["", f"{name}:", "", *table(compared, measured)]
    BENCHMARK.publish(lines, write=options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
