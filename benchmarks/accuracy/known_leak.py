"""How much of a known leak do offheap and its peers report, and how much of churn as a leak?

    .venv/bin/python -m benchmarks.accuracy.known_leak            print the tables, six minutes
    .venv/bin/python -m benchmarks.accuracy.known_leak --write    into docs/measurements/accuracy.md
    .venv/bin/python -m benchmarks.accuracy.known_leak --quick    one run of 64 threads, to see that it works

known_leak.c leaks a known number of blocks through one function while it allocates and frees a million
through another. "False" blocks are those that a report shows of the latter. heaptrack's report of leaks has
only bytes: its blocks are the bytes divided by the size of a block.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.jvms import java_homes
from harness.measuring import document, runner
from harness.measuring.runner import Benchmark
from harness.paths import ROOT
from harness.peers import variants
from harness.peers.peer_reports import Held, Reader
from harness.peers.variants import Variant
from offheap import recording
from offheap.analysis.statistics import estimates
from offheap.analysis.statistics.estimate import Estimate
from offheap.probe import checkout
from offheap.recording.model import Recording

BENCHMARK = Benchmark("accuracy.known_leak", "measurements/accuracy.md")
TIME_LIMIT_SECONDS = 300
MIB = 1 << 20
LEAKING, CHURNING = "leaking_site", "churning_site"


@dataclass(frozen=True)
class Scenario:
    """What known_leak.c is asked to do; `churn` blocks are made and freed for each that is leaked."""

    threads: int
    blocks: int
    size: int
    churn: int

    @property
    def title(self) -> str:
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}"
        freed = self.blocks * self.churn
        return f"{threads}, {self.blocks:,} blocks of {self.size:,} bytes leaked, {freed:,} made and freed"


SCENARIOS = [Scenario(64, 1000, 4099, 1000), Scenario(64, 64_000, 1031, 15), Scenario(1, 1000, 65_552, 1000)]


@dataclass(frozen=True)
class Found:
    """One run: the live memory in the report through the leaking function, and through the other."""

    blocks: float
    bytes: Estimate
    false_blocks: float


@dataclass(frozen=True)
class Bench:
    program: Path
    scratch: Path
    reader: Reader

    def once(self, variant: Variant, scenario: Scenario) -> Found | None:
        """None if the variant or its reader is missing, or the program failed under it."""
        if not variant.present:
            return None
        words = [scenario.threads, scenario.blocks, scenario.size, scenario.churn]
        with tempfile.TemporaryDirectory(dir=self.scratch) as name:
            folder = Path(name)
            outcome = subprocess.run(
                [self.program, *map(str, words)],
                env={**os.environ, **variant.environment_in(folder)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TIME_LIMIT_SECONDS,
            )
            if outcome.returncode != 0:
                print(f"{variant.name}, {scenario.title}: {outcome.stderr[-500:]}", file=sys.stderr)
                return None
            if variant.name.startswith("offheap"):
                (live_file,) = folder.glob("*.live")
                found = recording.load(live_file)
                blocks, in_bytes = estimated(found, LEAKING)
                return Found(blocks.estimate, in_bytes, estimated(found, CHURNING)[0].estimate)
            leaked = self.reader.held(variant, folder, self.program, LEAKING)
            churned = self.reader.held(variant, folder, self.program, CHURNING)
        if leaked is None or churned is None:
            return None
        return Found(
            _blocks(leaked, scenario),
            Estimate(leaked.bytes, leaked.bytes, leaked.bytes),
            _blocks(churned, scenario),
        )


def estimated(found: Recording, function: str) -> tuple[Estimate, Estimate]:
    """Live blocks and bytes of the stacks that have the function in them."""
    named = np.array([frame.name == function for frame in found.frames])
    stacks = np.array(
        [
            named[found.stack_frames[low:high]].any()
            for low, high in zip(found.stack_offsets[:-1], found.stack_offsets[1:], strict=True)
        ]
    )
    live = found.live[stacks[found.live["stack"]]]
    sizes, probabilities = live["size"].astype(np.float64), live["probability"]
    one = np.zeros(len(live), np.int64)
    return (
        estimates.of_counts(one, sizes, probabilities, 1).at(0),
        estimates.of_blocks(sizes, probabilities),
    )


def _blocks(held: Held, scenario: Scenario) -> float:
    return held.bytes / scenario.size if held.blocks is None else held.blocks


def _row(variant: Variant, runs: Sequence[Found | None], scenario: Scenario) -> list[str]:
    found = [run for run in runs if run is not None]
    if len(found) < len(runs):
        return [variant.name, "failed" if variant.present else "absent", *[""] * 4]
    truth = scenario.blocks * scenario.size
    first = found[0].bytes
    interval = covered = ""
    if first.low < first.high:
        interval = f"{first.estimate / MIB:.2f} ({first.low / MIB:.2f} to {first.high / MIB:.2f})"
        covered = f"{sum(run.bytes.low <= truth <= run.bytes.high for run in found)} of {len(found)}"
    return [
        variant.name,
        _spread([run.blocks for run in found], 0),
        _spread([run.bytes.estimate / MIB for run in found], 2),
        _spread([run.false_blocks for run in found], 0),
        interval,
        covered,
    ]


def _spread(figures: Sequence[float], digits: int) -> str:
    """The mean, and the least and the greatest unless all are equal."""
    mean, least, most = (f"{x:,.{digits}f}" for x in (statistics.mean(figures), min(figures), max(figures)))
    return mean if least == most else f"{mean} ({least} to {most})"


def compile_program(folder: Path) -> Path:
    """Compiles as production code is compiled: optimised, without frame pointers."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "accuracy"
    source = Path(__file__).with_suffix(".c")
    # -fno-builtin: a compiler may remove an allocation that nobody uses.
    flags = ["-std=c17", "-O2", "-fno-builtin", "-fomit-frame-pointer", "-fno-sanitize=undefined"]
    warnings = ["-Wall", "-Wextra"]
    script = checkout.build_script()
    script.compile_native([str(source), *flags, *warnings, "-lpthread", "-o", str(program)])
    return program


def main(arguments: Sequence[str] | None = None) -> int:
    parser = BENCHMARK.parser(
        "how much of a known leak is found, six minutes",
        quick="one run of 64 threads and 1,000 blocks",
        more="library only",
    )
    parser.add_argument("--runs", type=int, default=5, help="of each; gperftools, the slowest, once")
    options = parser.parse_args(arguments)

    peers = ROOT / "build" / "peers"
    library = runner.probe(options.library)
    compared = [v for v in variants.offheap(library) if v.name in ("offheap 512 KiB", "offheap exact")]
    compared += variants.async_profiler(variants.fetch_async_profiler(peers))
    compared += [
        variant
        for variant in variants.allocators(heaptrack_output="{folder}/heaptrack.raw")
        if variant.name not in ("jemalloc", "tcmalloc")
    ]
    compared = runner.chosen(compared, options.only, base=False)
    homes = java_homes.jdk_homes()
    java = homes[max(homes)] / "bin" / "java" if homes else Path("java")
    count = 1 if options.quick else options.runs
    header = ["", "leaked blocks", "leaked MiB", "false blocks", "MiB of the first run, 95 %", "covered"]
    lines = [
        f"{BENCHMARK.ran('--runs', count)}: {document.machine()}, {document.load()}; {variants.versions()}.",
        "Mean of the runs (least to most); gperftools once.",
    ]
    with runner.scratch() as scratch:
        program = compile_program(ROOT / "build" / "benchmarks")
        bench = Bench(program, scratch, Reader(java, peers))
        for scenario in SCENARIOS[:1] if options.quick else SCENARIOS:
            runs: dict[Variant, list[Found | None]] = {variant: [] for variant in compared}
            for turn in range(count):
                for variant in compared:
                    if not (turn and variant.slow):
                        runs[variant].append(bench.once(variant, scenario))
            truth = [f"{scenario.blocks:,}", f"{scenario.blocks * scenario.size / MIB:.2f}", "0"]
            rows = [["**truth**", *truth, "", ""]]
            rows += [_row(variant, runs[variant], scenario) for variant in compared]
            lines += ["", f"{scenario.title}:", "", *document.table(header, rows)]
            print("\n".join(lines[-len(rows) - 4 :]), file=sys.stderr, flush=True)
    BENCHMARK.publish(lines, write=options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
