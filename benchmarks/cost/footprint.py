"""How much memory and disk does recording take, with offheap and with its peers?

    .venv/bin/python -m benchmarks.cost.footprint            print the tables, seven minutes
    .venv/bin/python -m benchmarks.cost.footprint --write    and put them into docs/measurements/footprint.md
    .venv/bin/python -m benchmarks.cost.footprint --quick    a small form of both, to see that it works
    .venv/bin/python -m benchmarks.cost.footprint --hour     the recording only, for an hour

First a C program holds one block of 64 bytes, then a million: the RSS beyond that without the tool, and the
size of the tool's files. Then a JVM makes and ends zip streams as fast as it can: the growth of the files
in a second. Last the same JVM runs for minutes under `offheap run`: the size of the recording, and its
proportion for an hour.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.accuracy import known_leak
from harness import command_line
from harness.jvms import churn_jvm, java_homes
from harness.measuring import document, runner
from harness.measuring.runner import Benchmark
from harness.paths import ROOT
from harness.peers import variants
from harness.peers.variants import BASE, Variant
from offheap.proc import smaps

BENCHMARK = Benchmark("cost.footprint", "measurements/footprint.md")
ONE_HOUR = replace(BENCHMARK, part="--hour")  # a section of its own, which five minutes do not write over
BLOCK = 64
JDK = 17
MIB = 1 << 20
HOUR = 3600.0
# A tool with its own allocator is compared with that allocator.
BASES = {"jemalloc prof 512 KiB": "jemalloc", "gperftools HEAPPROFILE": "tcmalloc"}


@dataclass(frozen=True)
class Held:
    """Bytes: of the process in memory, and of the tool's files."""

    rss: int
    files: int


@dataclass(frozen=True)
class Written:
    """Bytes to files: a second, and for a Deflater and an Inflater made and ended."""

    second: float
    iteration: float


@dataclass(frozen=True)
class Recorded:
    """A recording of so many seconds: bytes of the finished one, and the most that it took while it grew."""

    seconds: float
    bytes: int
    most: int

    @property
    def hour(self) -> float:
        """Bytes of an hour in proportion: rather too many, because names and stacks are written once."""
        return self.bytes * HOUR / self.seconds


def allocated(folder: Path) -> int:
    """Bytes that the files below have blocks for; some may go meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_blocks * 512
    return total


@contextlib.contextmanager
def started(command: Sequence[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[str], word: str) -> bool:
    """Whether a line with that beginning came; other output of tools is skipped."""
    assert process.stdout
    return any(line.startswith(word) for line in process.stdout)


@dataclass(frozen=True)
class Bench:
    program: Path
    classes: Path
    java: Path
    scratch: Path

    def holding(self, variant: Variant, blocks: int) -> Held | None:
        """A C program with so many live blocks; None if the variant is missing or the program failed."""
        if not variant.present:
            return None
        with tempfile.TemporaryDirectory(dir=self.scratch) as name:
            folder = Path(name)
            command = [str(self.program), "1", str(blocks), str(BLOCK), "0"]
            with started(command, variant.environment_in(folder)) as process:
                if not wait_for(process, "ready"):
                    return None
                return Held(smaps.total(smaps.read(process.pid)).rss, allocated(folder))

    def growing(self, variant: Variant, seconds: float) -> Written | None:
        """What a tool's files grow by under zip churn."""
        if not variant.present:
            return None
        with tempfile.TemporaryDirectory(dir=self.scratch) as name:
            folder = Path(name)
            agent = variant.agent_in(folder)
            command = [str(self.java), *churn_jvm.OPTIONS, *agent, *self._churn(seconds)]
            with started(command, {} if agent else variant.environment_in(folder)) as process:
                if not wait_for(process, "warm"):
                    return None
                before, began = allocated(folder), time.monotonic()
                self._go(process)
                assert process.stdout
                iterations = process.stdout.readline()
                if not iterations:
                    return None
                grown = allocated(folder) - before
                return Written(grown / (time.monotonic() - began), grown / int(iterations))

    def recording(self, seconds: float) -> Recorded | None:
        """`offheap run` at its default interval over zip churn."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as name:
            output = Path(name) / "churn.offheap"
            run = command_line.offheap("run", "--interval", "512KiB", "-o", output, "--")
            command = [*run, str(self.java), *churn_jvm.OPTIONS, *self._churn(seconds)]
            with started(command, {}) as process:
                if not wait_for(process, "warm"):
                    return None
                began = time.monotonic()
                self._go(process)
                most = 0
                while time.monotonic() - began < seconds:
                    most = max(most, allocated(output))
                    time.sleep(min(1.0, seconds / 20))
                if not wait_for(process, ""):
                    return None
                self._go(process)
                # The recorder merges the parts of the recording when the JVM has ended.
                if process.wait(60) != 0:
                    return None
            return Recorded(seconds, allocated(output), most)

    def _churn(self, seconds: float) -> list[str]:
        return ["-cp", str(self.classes), "Churn", "zip", "1", str(seconds)]

    @staticmethod
    def _go(process: subprocess.Popen[str]) -> None:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()


def memory_table(bench: Bench, compared: Sequence[Variant], blocks: int) -> list[str]:
    held = {variant.name: (bench.holding(variant, 1), bench.holding(variant, blocks)) for variant in compared}
    rows = []
    for variant in compared:
        base, own = held.get(BASES.get(variant.name, BASE.name), (None, None)), held[variant.name]
        if variant is BASE or variant.name in BASES.values():
            continue
        rows.append([variant.name, *_memory_cells(variant, base, own, blocks)])
    many = f"{blocks:,} blocks"
    header = ["", "RSS, 1 block", f"RSS, {many}", "for each block", "files, 1 block", f"files, {many}"]
    return document.table(header, rows)


def _memory_cells(
    variant: Variant, base: tuple[Held | None, ...], own: tuple[Held | None, ...], blocks: int
) -> list[str]:
    (base_one, base_many), (one, many) = base, own
    if not (base_one and base_many and one and many):
        return ["failed" if variant.present else "absent", *[""] * 4]
    least, most = one.rss - base_one.rss, many.rss - base_many.rss
    in_bytes = [f"{least / MIB:+.1f} MiB", f"{most / MIB:+.1f} MiB", f"{most / blocks:.1f} bytes"]
    return [*in_bytes, f"{one.files / MIB:.1f} MiB", f"{many.files / MIB:.1f} MiB"]


def growth_table(bench: Bench, compared: Sequence[Variant], seconds: float) -> list[str]:
    rows = []
    for variant in compared:
        if variant is BASE or variant.name in BASES.values():
            continue
        grown = bench.growing(variant, seconds)
        missing = ["failed" if variant.present else "absent", ""]
        cells = [f"{grown.second / MIB:.2f} MiB/s", f"{grown.iteration:.1f} bytes"] if grown else missing
        rows.append([variant.name, *cells])
        print(" | ".join(rows[-1]), flush=True)
    return document.table(["", "files grow by", "for an iteration"], rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = BENCHMARK.parser(
        "memory and files of a recording, seven minutes",
        quick="100,000 blocks, seconds instead of minutes",
        more="library only",
    )
    parser.add_argument("--blocks", type=int, default=1_000_000, help="live in the C program")
    parser.add_argument("--seconds", type=float, default=10, help="of zip churn for each tool")
    parser.add_argument("--minutes", type=float, default=5, help="of zip churn under `offheap run`")
    parser.add_argument("--hour", action="store_true", help="only that, for an hour")
    options = parser.parse_args(arguments)
    blocks, seconds, minutes = options.blocks, options.seconds, options.minutes
    if options.quick:
        blocks, seconds, minutes = 100_000, 0.5, 0.05

    library = runner.probe(options.library)
    peers = variants.fetch_async_profiler(ROOT / "build" / "peers")
    compared = [
        BASE,
        *(v for v in variants.offheap(library) if v.name in ("offheap 512 KiB", "offheap exact")),
    ]
    compared += variants.async_profiler(peers)
    compared += variants.allocators(heaptrack_output="{folder}/heaptrack.raw")
    if options.only is not None:
        bases = (BASE.name, *BASES.values())
        compared = [variant for variant in compared if variant.name in bases or options.only in variant.name]
    with runner.scratch() as scratch:
        bench = Bench(
            known_leak.compile_program(ROOT / "build" / "benchmarks"),
            churn_jvm.compile_java("Churn.java", scratch / "classes"),
            java_homes.java(JDK),
            scratch,
        )
        if options.hour:
            benchmark = ONE_HOUR
            recorded = _sentence(bench.recording(HOUR))
            lines = [
                f"{BENCHMARK.ran('--hour')}: {document.machine()}, {document.load()}.",
                "",
                recorded,
            ]
        else:
            benchmark = BENCHMARK
            lines = [
                f"{BENCHMARK.ran('--minutes', f'{minutes:g}')}: {document.machine()}, "
                f"{document.load()}; {variants.versions()}.",
                "",
                *memory_table(bench, compared, blocks),
                "",
                f"Zip streams made and ended as fast as one thread can, JDK {JDK}, {seconds:g} s:",
                "",
                *growth_table(bench, compared, seconds),
                "",
                _sentence(bench.recording(minutes * 60)),
            ]
    benchmark.publish(lines, write=options.write)
    return 0


def _sentence(recorded: Recorded | None) -> str:
    if recorded is None:
        return "The recording failed."
    hour = f" In proportion that is {recorded.hour / MIB:.1f} MiB for an hour, which was not measured."
    if recorded.seconds < 60:
        hour = " That is too short to say what an hour would be."
    elif recorded.seconds >= HOUR:
        hour = ""
    return (
        f"`offheap run --interval 512KiB` of the same for {recorded.seconds / 60:g} min: a recording of "
        f"{recorded.bytes / MIB:.2f} MiB, at most {recorded.most / MIB:.2f} MiB while it was made.{hour}"
    )


if __name__ == "__main__":
    sys.exit(main())
