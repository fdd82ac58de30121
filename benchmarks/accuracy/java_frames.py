"""Are the Java frames true?  15 programs on each JDK: which samples have them, and was each frame there?

    .venv/bin/python -m benchmarks.accuracy.java_frames --seconds 8 --write

harness/evaluation/java_calls.py has the method.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from pathlib import Path

from harness.evaluation.java_calls import GOAL, HEAD, Bytecode, Tally, commands, compare, run_once
from harness.jvms import java_homes
from harness.measuring import document
from harness.measuring.runner import Benchmark
from harness.paths import ROOT
from offheap.errors import UserError
from offheap.probe import checkout

BENCHMARK = Benchmark("accuracy.java_frames", "evaluation.md")


def main() -> int:
    parser = BENCHMARK.parser("Are the Java frames true?")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each run")
    parser.add_argument("--jdk", nargs="*", type=int, default=[11, 17, 21, 25])
    parser.add_argument("--only", nargs="*", default=[], help="programs, by name")
    parser.add_argument("--keep", type=Path, help="a folder: runs that it has are not repeated")
    options = parser.parse_args()
    script = checkout.build_script()
    flags = [*script.FLAGS, "-DCOMPARE_WALKS", str(ROOT / "probe/tests/compare_walks.c"), f"-I{ROOT}/probe"]
    probe = script.build_if_changed(ROOT / "build" / "walks" / "liboffheap.so", flags=flags)
    homes = java_homes.jdk_homes()
    javap = homes[max(homes)] / "bin" / "javap"
    rows, failed, plants, shares = [], False, Tally(), {}
    for version in options.jdk:
        total = Tally()
        ran = 0
        home = java_homes.java(version).parent.parent
        for name, command, class_path in commands(version, options.only):
            bytecode = Bytecode(javap, home, class_path)
            keep = options.keep / f"{name}-{version}" if options.keep else None
            runs = functools.partial(run_once, command, options.seconds, probe, keep)
            try:
                tally, of_plants, told = compare(runs, bytecode)
            except (UserError, AssertionError) as error:
                print(f"{name} on {version}: {error}", file=sys.stderr, flush=True)
                failed = True
                continue
            ran += 1
            total.add(tally)
            plants.add(of_plants)
            shares[f"{name}, JDK {version}"] = tally.share
            print(document.table(("", *HEAD), [(f"{name}, JDK {version}", *tally.row())])[-1], flush=True)
            for line in told:
                print(f"{name} on {version}: {line}", file=sys.stderr, flush=True)
            failed |= tally.share < GOAL or tally.wrong > 0
        rows.append((f"{version}, {ran} programs", *total.row()))
    least = min(shares, key=lambda name: shares[name])
    lines = [
        f"{BENCHMARK.ran('--seconds', f'{options.seconds:g}', '--jdk', *options.jdk)}: "
        f"{document.machine()}; every block:",
        "",
        *document.table(("JDK", *HEAD), rows),
        "",
        f"The lowest share with Java frames is {100 * shares[least]:.3f} % ({least}). {plants.wrong:,} of",
        f"{plants.calls:,} samples with a planted frame were found wrong, {plants.open:,} not told.",
    ]
    BENCHMARK.publish(lines, write=options.write)
    return 1 if failed else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
