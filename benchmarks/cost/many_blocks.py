"""An exact recording of very many live blocks: losses, size, and the longest wait of a malloc.

.venv/bin/python -m benchmarks.cost.many_blocks            50 million blocks, one minute and 7 GB of memory
.venv/bin/python -m benchmarks.cost.many_blocks --write    into docs/measurements/footprint.md
.venv/bin/python -m benchmarks.cost.many_blocks --blocks 3000000
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.measuring import document, runner
from harness.measuring.runner import Benchmark
from harness.paths import ROOT
from offheap.probe import checkout
from offheap.probe.live_files.live_file import LiveFile

BENCHMARK = Benchmark("cost.many_blocks", "measurements/footprint.md")
SOURCE = ROOT / "probe" / "tests" / "many_blocks.c"
MIB = 1 << 20
_SAID = re.compile(r"held (\d+), (.*) s, longest (.*) ms, over 1 ms (\d+)\n")


@dataclass(frozen=True)
class Held:
    """The program's own figures, and those of its live file."""

    seconds: float
    longest_ms: float
    over: int  # mallocs that took more than a millisecond of their own
    segments: int
    lost: int
    found: int
    bytes: int
    reading_seconds: float


def hold(program: Path, library: Path, blocks: int, threads: int, folder: Path) -> Held:
    variables = {"LD_PRELOAD": str(library), "OFFHEAP": f"exact,memory=2g,dir={folder}"}
    with subprocess.Popen(
        [program, str(blocks), str(threads)],
        env={**os.environ, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout
            line = process.stdout.readline()
            said = _SAID.fullmatch(line)
            assert said, line
            (path,) = folder.iterdir()
            began = time.monotonic()
            with LiveFile(path) as live_file:
                header = live_file.header
                found = len(live_file.live())
            return Held(
                float(said[2]),
                float(said[3]),
                int(said[4]),
                1 + len(header.segments),
                header.losses.get("lost_blocks", 0),
                found,
                path.stat().st_blocks * 512,
                time.monotonic() - began,
            )
        finally:
            process.kill()


def without(program: Path, blocks: int, threads: int) -> tuple[float, float]:
    """The same without the probe: seconds, and the longest malloc in ms."""
    command = [str(program), str(blocks), str(threads)]
    outcome = subprocess.run(command, input="\n\n", capture_output=True, text=True, check=True)
    said = _SAID.match(outcome.stdout)
    assert said, outcome.stdout
    return float(said[2]), float(said[3])


def main(arguments: Sequence[str] | None = None) -> int:
    os.environ.setdefault("OFFHEAP_READ_MEMORY", "8GiB")  # 120 bytes a block
    parser = BENCHMARK.parser("an exact recording of many live blocks", more="library")
    parser.add_argument("--blocks", type=int, default=50_000_000)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args(arguments)
    library = runner.probe(options.library)
    with runner.scratch() as scratch:
        program = scratch / "many_blocks"
        checkout.build_script().compile_native([str(SOURCE), "-O2", "-lpthread", "-o", str(program)])
        alone = without(program, options.blocks, options.threads)
        folder = scratch / "live"
        folder.mkdir()
        held = hold(program, library, options.blocks, options.threads, folder)
    lines = [
        f"{BENCHMARK.ran('--blocks', options.blocks)}: {document.machine()}, {document.load()}.",
        "",
        f"{options.threads} threads hold {options.blocks:,} blocks of 16 to 79 bytes, recorded with `exact`: "
        f"{held.found:,} blocks are in the live file, {held.lost:,} were lost. The table has "
        f"{held.segments} segments; the file takes {held.bytes / MIB:,.0f} MiB, "
        f"{held.bytes / options.blocks:.0f} bytes a block. The program took {held.seconds:.1f} s, "
        f"{alone[0]:.1f} s without the probe. The longest malloc that the kernel did not interrupt took "
        f"{held.longest_ms:.2f} ms ({alone[1]:.2f} ms without), {held.over} took more than 1 ms. Reading all "
        f"blocks takes {held.reading_seconds:.1f} s.",
    ]
    BENCHMARK.publish(lines, write=options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
