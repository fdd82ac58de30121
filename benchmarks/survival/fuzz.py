"""Damaged input for the parsers, with ever new seeds, under AddressSanitizer and UBSan.

    .venv/bin/python -m benchmarks.survival.fuzz                 ten minutes
    .venv/bin/python -m benchmarks.survival.fuzz --minutes 600   a night

Half of the time random input goes to the probe's parsers of .eh_frame, options and /proc/self/maps. In the
other half libFuzzer, led by the code it reaches, tests the unwinder (with Clang) and the reader of live
files (with Atheris, on PyPI); it names what is missing. Exit status 1, and what repeats it, when something
was found; 2 when neither of these two could run.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from harness.measuring.runner import Benchmark
from harness.survival.fuzzing import by_chance, reader, unwinder

BENCHMARK = Benchmark("survival.fuzz")


def main() -> int:
    parser = BENCHMARK.parser(__doc__ or "")
    parser.add_argument("--minutes", type=float, default=10.0)
    seconds = parser.parse_args().minutes * 60
    with tempfile.TemporaryDirectory(prefix="offheap-fuzz-") as folder:
        found = by_chance(Path(folder), seconds / 2)
        if found:
            return 1
        led = [unwinder(Path(folder), seconds / 4), reader(Path(folder), seconds / 4)]
    if any(led):
        return 1
    if led == [None, None]:
        print("fuzz: libFuzzer did not run: install clang with its libFuzzer, or atheris", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
