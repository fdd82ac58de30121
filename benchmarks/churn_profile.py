"""Where the time goes that recording costs a JVM which makes and ends zip streams as fast as it can.

    .venv/bin/python benchmarks/churn_profile.py            print the tables, two minutes
    .venv/bin/python benchmarks/churn_profile.py --write    and put them into docs/benchmarks.md
    .venv/bin/python benchmarks/churn_profile.py --quick    one short round

`perf record` (Debian's linux-perf) samples the JVM's CPU time; what a library has of the samples is set
against the CPU of an iteration, so the columns of the first table add up to that.  The second one has the
functions, self time, where offheap's time or what it causes in the JVM is spent.  The rounds of all variants
alternate; figures are of all rounds together.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import document
import jvm_churn
import variants
from variants import Variant

from offheap import checkout

WRITER = "benchmarks/churn_profile.py"
WORKLOAD = "zip"
HERTZ = 1999
SAMPLE = re.compile(r"\s*[0-9a-f]+ (?P<symbol>.+) \((?P<file>[^()]*(?:\(deleted\))?)\)\s*")
PLACES = {
    "liboffheap.so": "the probe",
    "libjvm.so": "libjvm.so",
    "libc.so.6": "libc.so.6: malloc, free, memset",
    "libzip.so": "zlib and its JNI functions",
    "libz.so": "zlib and its JNI functions",
    "libnetty_tcnative": "BoringSSL (Netty's)",
    "[kernel": "the kernel",
    "[vdso]": "the clock (vdso)",
}
JAVA = "Java, compiled or interpreted"
MOST_FUNCTIONS = 16


@dataclass
class Spent:
    """CPU of one variant, all rounds together."""

    ns: float = 0.0
    iterations: int = 0
    places: Counter[str] = field(default_factory=Counter)
    functions: Counter[tuple[str, str]] = field(default_factory=Counter)

    def of(self, samples: int) -> float:
        """ns an iteration."""
        return self.ns / self.iterations * samples / max(self.places.total(), 1)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="where the time of zip churn goes, by library and function")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="measured, after as long a warm-up")
    parser.add_argument("--jdk", type=int, default=17)
    parser.add_argument("--quick", action="store_true", help="one round of half a second")
    parser.add_argument("--write", action="store_true", help=f"put them into {jvm_churn.DOCUMENT.name}")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.seconds = 1, 0.5
    if not shutil.which("perf"):
        print("no profile: perf is missing (Debian's linux-perf)", file=sys.stderr)
        return 0
    compared = [variants.BASE, *variants.offheap(checkout.build_script().build_if_changed())]
    spent = {variant.name: Spent() for variant in compared}
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="offheap-bench-") as scratch:
        classes = jvm_churn.compile_java("Churn.java", Path(scratch) / "classes")
        for number in range(options.rounds):
            for variant in compared:
                once(variant, options.jdk, classes, Path(scratch), options.seconds, spent[variant.name])
                print(f"round {number + 1}: {variant.name}", file=sys.stderr, flush=True)
    lines = [
        f"`python benchmarks/churn_profile.py --rounds {options.rounds} --jdk {options.jdk}`: "
        f"{document.machine()}.",
        "ns of CPU for one stream made and ended.",
        "",
        *document.table(["where", *spent], list(by_place(spent))),
        "",
        *document.table(["function", *spent], list(by_function(spent))),
    ]
    print("\n".join(lines))
    if options.write:
        document.replace_section(jvm_churn.DOCUMENT, WRITER, lines, "Benchmarks")
    return 0


def once(variant: Variant, jdk: int, classes: Path, scratch: Path, seconds: float, into: Spent) -> None:
    """Adds one run's time and samples."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = Path(name)
        with subprocess.Popen(
            [*jvm_churn.churn(jdk, classes), WORKLOAD, str(seconds), str(seconds)],
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
            with perf_record(process.pid, data):
                before = jvm_churn.cpu_ns(process.pid)
                process.stdin.write("\n")
                process.stdin.flush()
                into.iterations += int(process.stdout.readline())
                into.ns += jvm_churn.cpu_ns(process.pid) - before
            process.stdin.write("\n")
            process.stdin.flush()
        count(data, into)


@contextlib.contextmanager
def perf_record(pid: int, data: Path) -> Iterator[None]:
    """All threads of the process, while the context is open."""
    record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(HERTZ), "-o", str(data)]
    with subprocess.Popen([*record, "-p", str(pid)], stderr=subprocess.DEVNULL) as perf:
        try:
            time.sleep(0.5)  # until it watches all threads
            yield
        finally:
            # Or it would be waited for as long as the process lives.
            perf.send_signal(signal.SIGINT)


def count(data: Path, into: Spent) -> None:
    """Adds the samples that perf has written, by place and function."""
    script = ["perf", "script", "-i", str(data), "-F", "ip,sym,dso"]
    text = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        found = SAMPLE.fullmatch(line)
        if found:
            file = Path(found["file"]).name
            place = next((title for part, title in PLACES.items() if file.startswith(part)), JAVA)
            into.places[place] += 1
            into.functions[place, found["symbol"].partition("+0x")[0]] += 1


def by_place(spent: dict[str, Spent]) -> list[list[str]]:
    """ns an iteration; places where nothing was ever met are left out."""
    places = [
        place
        for place in dict.fromkeys([*PLACES.values(), JAVA])
        if any(s.places[place] for s in spent.values())
    ]
    rows = [[place, *(f"{s.of(s.places[place]):,.0f}" for s in spent.values())] for place in places]
    return [*rows, ["**together**", *(f"{s.ns / s.iterations:,.0f}" for s in spent.values())]]


def by_function(spent: dict[str, Spent], most: int = MOST_FUNCTIONS) -> list[list[str]]:
    """Those that take most more than with nothing, in any variant."""
    base = spent[variants.BASE.name]
    more: dict[tuple[str, str], float] = {}
    for one in spent.values():
        for function, samples in one.functions.items():
            if function[0] in (JAVA, PLACES["[kernel"]):
                continue
            gained = one.of(samples) - base.of(base.functions[function])
            more[function] = max(more.get(function, 0.0), gained)
    largest = sorted(more, key=lambda function: -more[function])[:most]
    return [
        [
            f"`{name}`, {place.partition(':')[0]}",
            *(f"{s.of(s.functions[place, name]):,.0f}" for s in spent.values()),
        ]
        for place, name in largest
    ]


if __name__ == "__main__":
    sys.exit(main())
