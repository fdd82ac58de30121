"""Large files of other tools: seconds and peak memory of the readers, and of the whole `offheap import`.

.venv/bin/python -m benchmarks.reading.large_imports            5 million lines of mtrace, 20 million events
.venv/bin/python -m benchmarks.reading.large_imports --write    into docs/import.md
.venv/bin/python -m benchmarks.reading.large_imports --quick    a hundredth of that
.venv/bin/python -m benchmarks.reading.large_imports --only jfr
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.command_line import offheap, quiet_environment
from harness.measuring import document, runner
from harness.measuring.runner import Benchmark
from harness.recordings import jfr_files

BENCHMARK = Benchmark("reading.large_imports", "import.md", "Other tools' files")
_EVENTS_OF_A_CHUNK = 4_000_000  # 92 MB: async-profiler ends a chunk at 100 MB
_HEADINGS = ["format", "file", "size", "reader's CPU", "import: time", "CPU", "peak RSS", "target", "missed"]
# A child for each file, so that what other files loaded is not in its figure.
_CHILD = """
import importlib, sys, time
from pathlib import Path
reader = importlib.import_module("offheap.formats.imported." + sys.argv[1])
spent = time.process_time()
reader.read([Path(sys.argv[2])])
print(time.process_time() - spent)
"""


class Cost(NamedTuple):
    """seconds and bytes; a target has no CPU, and 0 for what it leaves open"""

    seconds: float
    rss: float
    cpu: float = 0.0

    def __str__(self) -> str:
        parts = [f"{self.seconds:.0f} s"] if self.seconds else []
        return ", ".join([*parts, f"{self.rss / 1e9:.0f} GB"] if self.rss else parts)

    def missed(self, target: Cost) -> str:
        """By how much the target is exceeded."""
        parts = []
        if 0 < target.seconds < self.seconds:
            parts.append(f"by {self.seconds - target.seconds:.1f} s")
        if 0 < target.rss < self.rss:
            parts.append(f"by {(self.rss - target.rss) / 1e6:,.0f} MB")
        return ", ".join(parts) or "-"


# Bounds for the whole command.
TARGETS = {"mtrace": Cost(30, 1e9), "jfr": Cost(10, 1e9), "jemalloc": Cost(3, 0)}


def mtrace_log(path: Path, lines: int) -> None:
    """As glibc writes it: 100 call sites, 45 % frees, 5 % realloc; half of the blocks stay live at most."""
    chance = random.Random(1)
    sites = [
        f"@ /usr/lib/x86_64-linux-gnu/libexample{at % 9}.so.1:(some_function_of_the_library_{at}+"
        f"{chance.randrange(1 << 12):x})[0x{chance.randrange(1 << 24):x}] "
        for at in range(100)
    ]
    live: list[int] = []
    address = 0x7F5C00000000
    with path.open("w") as file:
        file.write("= Start\n")
        for _ in range(lines):
            site, kind = sites[chance.randrange(100)], chance.random()
            if live and kind < 0.5:
                at = chance.randrange(len(live))
                old, live[at] = live[at], live[-1]
                live.pop()
                if kind < 0.45:
                    file.write(f"{site}- 0x{old:x}\n")
                    continue
                file.write(f"{site}< 0x{old:x}\n{site}")
                sign = ">"
            else:
                file.write(site)
                sign = "+"
            address += 64
            live.append(address)
            file.write(f"{sign} 0x{address:x} {chance.randrange(1, 5000):#x}\n")
        file.write("= End\n")


def heaptrack_file(path: Path, events: int) -> None:
    """20,000 stacks, 30,000 kinds of allocations, a time each 2,000 events."""
    chance = random.Random(2)
    with path.open("w") as file:
        file.write("v 10400 3\nX example\nI 1000 100000\n")
        file.writelines(f"s {len(str(at)) + 1:x} f{at}\n" for at in range(2000))
        file.writelines(f"i {0x7F0000 + 16 * at:x} 0 {at + 1:x} 0 0\n" for at in range(2000))
        for at in range(20_000):
            file.write(f"t {chance.randrange(1, 2001):x} {chance.randrange(at + 1) if at % 20 else 0:x}\n")
        file.writelines(
            f"a {chance.randrange(1, 5000):x} {chance.randrange(1, 20_001):x}\n" for _ in range(30_000)
        )
        live: list[int] = []
        for at in range(events):
            if live and chance.random() < 0.48:
                place = chance.randrange(len(live))
                kind, live[place] = live[place], live[-1]
                live.pop()
                file.write(f"- {kind:x}\n")
            else:
                live.append(chance.randrange(30_000))
                file.write(f"+ {live[-1]:x}\n")
            if at % 2000 == 0:
                file.write(f"c {at // 200:x}\nR {1000 + at // 1000:x}\n")


def collapsed_stacks(path: Path, stacks: int) -> None:
    """40 Java frames a stack, of 50,000 methods."""
    chance = random.Random(3)
    with path.open("w") as file:
        for _ in range(stacks):
            frames = (
                f"com/example/p{chance.randrange(5)}/C{chance.randrange(500)}.m{chance.randrange(20)}_[j]"
                for _ in range(40)
            )
            file.write(f"{';'.join(frames)} {chance.randrange(1, 1 << 20)}\n")


def jemalloc_dump(path: Path, stacks: int) -> None:
    """20 frames a stack of 20,000 return addresses, a quarter of them in a library, one thread each."""
    chance = random.Random(4)
    addresses = [0x7F0000000000 + chance.randrange(1 << 32) for _ in range(15_000)]
    library = next(line for line in Path("/proc/self/maps").read_text().splitlines() if "r-xp" in line)
    start, end = (int(word, 16) for word in library.split()[0].split("-"))
    addresses += [chance.randrange(start, end) for _ in range(5_000)]
    with path.open("w") as file:
        file.write("heap_v2/524288\n  t*: 0: 0 [0: 0]\n  t0: 0: 0 [0: 0]\n")
        for _ in range(stacks):
            blocks = chance.randrange(1, 5)
            counts = f"{blocks}: {blocks * chance.randrange(8, 1 << 16)} [0: 0]"
            frames = " ".join(f"0x{one:x}" for one in chance.choices(addresses, k=20))
            file.write(f"@ {frames}\n  t*: {counts}\n  t0: {counts}\n")
        file.write("\nMAPPED_LIBRARIES:\n" + Path("/proc/self/maps").read_text())


def _jfr_events(count: int) -> Iterator[jfr_files.Event]:
    chance = random.Random(5)
    address = 0x7F5C00000000
    live: list[int] = []
    for at in range(count):
        if live and chance.random() < 0.47:
            yield jfr_files.Event(1000 * at, live.pop())
        else:
            address += 64
            live.append(address)
            size, stack = chance.randrange(1, 5000), chance.randrange(1, 10_001)
            yield jfr_files.Event(1000 * at, address, size, stack)


def jfr_file(path: Path, events: int) -> None:
    """One chunk again and again, later each time: 10,000 stacks, half of the events are frees."""
    count = min(events, _EVENTS_OF_A_CHUNK)
    # A clock of 48 bits, as that of a processor that runs for days.
    data = bytearray(jfr_files.chunk(_jfr_events(count), stacks=10_000, duration=10**10, ticks=1 << 48))
    begin = int.from_bytes(data[32:40], "big")
    with path.open("wb") as file:
        for number in range(-(-events // count)):
            data[32:40] = (begin + number * 10**10).to_bytes(8, "big")
            file.write(data)


FILES: tuple[tuple[str, str, str, int, Callable[[Path, int], None]], ...] = (
    ("mtrace", "lines", "events.mtrace", 5_000_000, mtrace_log),
    ("heaptrack", "events", "events.heaptrack", 20_000_000, heaptrack_file),
    ("jfr", "events", "jfr.recording", 20_000_000, jfr_file),
    ("jemalloc", "stacks", "samples.heap_text", 100_000, jemalloc_dump),
    ("collapsed", "stacks", "samples.collapsed", 100_000, collapsed_stacks),
)


def read(module: str, path: Path) -> float:
    """Seconds of CPU of the reader alone."""
    outcome = subprocess.run(
        [sys.executable, "-c", _CHILD, module, str(path)], capture_output=True, text=True, check=True
    )
    return float(outcome.stdout)


def imported(name: str, path: Path, output: Path) -> Cost:
    """What the command takes, from the start of its interpreter to its exit."""
    began = time.monotonic()
    command = subprocess.Popen(
        offheap("import", path, "--format", name, "-o", output),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=quiet_environment(),
    )
    _, status, usage = os.wait4(command.pid, 0)
    command.returncode = os.waitstatus_to_exitcode(status)
    if command.returncode:
        raise subprocess.CalledProcessError(command.returncode, command.args)
    return Cost(time.monotonic() - began, usage.ru_maxrss << 10, usage.ru_utime + usage.ru_stime)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = BENCHMARK.parser(
        "seconds and memory of importing large files of other tools",
        quick="a hundredth of each file",
        more="only",
    )
    options = parser.parse_args(arguments)
    rows = []
    for name, unit, module, count, write in FILES:
        if (options.only or "") not in name:
            continue
        count //= 100 if options.quick else 1
        with runner.scratch() as folder:
            path = folder / name
            write(path, count)
            reader, cost = read(module, path), imported(name, path, folder / "imported.offheap")
            size = path.stat().st_size
        target = TARGETS.get(name, Cost(0, 0))
        rows.append(
            [
                *(name, f"{count:,} {unit}", f"{size / 1e6:,.0f} MB", f"{reader:.1f} s"),
                *(f"{cost.seconds:.1f} s", f"{cost.cpu:.1f} s", f"{cost.rss / 1e6:,.0f} MB"),
                *(str(target) or "-", cost.missed(target)),
            ]
        )
    lines = [
        f"{BENCHMARK.ran()}: {document.machine()}, {document.load()}.",
        "",
        *document.table(_HEADINGS, rows),
    ]
    BENCHMARK.publish(lines, write=options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
