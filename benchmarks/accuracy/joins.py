"""Do native stacks that Java called join their Java frames?  Every sample after start-up, on every JDK.

    .venv/bin/python -m benchmarks.accuracy.joins             print the table, after five minutes
    .venv/bin/python -m benchmarks.accuracy.joins --write     and put it into docs/measurements.md

Records programs of the zoo with every block (exact) and takes the samples after the first three seconds
whose stack has a JNI function (Java_...) in it.  Joined means: the next frame outwards is a Java method and
no frame after it is unknown.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness import command_line
from harness.jvms import java_homes
from harness.jvms import zoo as zoo_programs
from harness.measuring import document
from harness.measuring.runner import Benchmark
from harness.paths import ROOT
from offheap import recording
from offheap.recording.model import Frame, Recording

BENCHMARK = Benchmark("accuracy.joins", "measurements.md", "Measurements")
PROGRAMS = ("inflaters", "unsafe", "mapped-buffers", "churn")
START_UP_SECONDS = 3.0
SECONDS = 12.0


@dataclass
class Joins:
    """Samples with a JNI function in their stack, and those of them that joined."""

    samples: int = 0
    joined: int = 0
    all_samples: int = 0


def joins(stack: list[Frame]) -> bool | None:
    """None: no JNI function; otherwise whether Java frames follow it without a gap."""
    jni = [i for i, frame in enumerate(stack) if frame.kind != "java" and frame.name.startswith("Java_")]
    if not jni:
        return None
    beyond = stack[jni[-1] + 1 :]
    return bool(beyond) and beyond[0].kind == "java" and all(frame.kind != "unknown" for frame in beyond)


def count(found: Recording, tally: Joins) -> None:
    """Adds the samples taken after start-up."""
    latest, early = {}, {}
    for row in found.series:
        latest[int(row["stack"])] = int(row["samples"])
        if row["time"] <= START_UP_SECONDS:
            early[int(row["stack"])] = int(row["samples"])
    for stack, samples in latest.items():
        new = samples - early.get(stack, 0)
        tally.all_samples += new
        joined = joins(found.stack(stack))
        if joined is not None:
            tally.samples += new
            tally.joined += new if joined else 0
            if new and not joined:
                print(new, [frame.name for frame in found.stack(stack)], file=sys.stderr)


def measure(version: int, zoo: zoo_programs.Zoo) -> Joins:
    tally = Joins()
    for name in PROGRAMS:
        program = zoo_programs.programs()[name]
        with tempfile.TemporaryDirectory(prefix="offheap-joins-") as folder:
            output = Path(folder) / "joins.offheap"
            command = zoo.command(program, java_homes.java(version), rate=200)
            run = command_line.offheap("run", "--exact", "--every", "1s", "-o", output, "--", *command)
            with zoo_programs.Running(run) as running:
                time.sleep(SECONDS)
                running.stop_leaking()
                running.exit()
            found = recording.load(output)
            assert np.count_nonzero(found.series["time"] <= START_UP_SECONDS), "no snapshot of the start-up"
            count(found, tally)
    return tally


def main() -> int:
    options = BENCHMARK.parser("Do native stacks join their Java frames? Five minutes.").parse_args()
    zoo = zoo_programs.compile_zoo(ROOT / "build" / "zoo")
    rows = []
    complete = True
    for version in java_homes.JRE_VERSIONS:
        tally = measure(version, zoo)
        share = 100 * tally.joined / max(tally.samples, 1)
        figures = (version, tally.all_samples, tally.samples, tally.joined)
        print(f"JDK {version}: {tally}", file=sys.stderr, flush=True)
        rows.append([*map(str, figures), f"{share:.4f} %"])
        complete &= tally.joined == tally.samples > 0
    heading = ("JDK", "samples after start-up", "with a JNI function", "joined", "share")
    lines = [
        f"{BENCHMARK.ran()}: every block of {', '.join(PROGRAMS)}, {SECONDS:.0f} s each:",
        "",
        *document.table(heading, rows),
    ]
    BENCHMARK.publish(lines, write=options.write)
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
