"""A thousand times in and out of one running JVM, on each JDK (harness/survival/reattach.py).

    .venv/bin/python -m benchmarks.survival.reattach                 1,000 cycles on each JDK: ten minutes
    .venv/bin/python -m benchmarks.survival.reattach --cycles 100    fewer
    .venv/bin/python -m benchmarks.survival.reattach --write         into docs/measurements/reattach.md

Exit status 1 when a JVM did not end as it should, a slot was left changed, malloc that is not HotSpot's grew,
or HotSpot's own grew by more than with an agent that does nothing.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import get_args

from rich.console import Console
from rich.progress import Progress

from harness.jvms import java_homes
from harness.measuring import document
from harness.measuring.runner import Benchmark
from harness.survival import reattach
from offheap.probe import checkout

BENCHMARK = Benchmark("survival.reattach", "measurements/reattach.md")
HEADER = [
    *("JDK", "attached", "cycles", "library reloads", "slots left changed", "mappings", "RSS per cycle"),
    *("malloc not HotSpot's per cycle", "HotSpot's own malloc per cycle", "its arenas"),
    "free in malloc per cycle",
]
# JDK 11 takes memory for 128 monitors at once and frees none (omAlloc in runtime/synchronizer.cpp).
MONITORS = 32_895


def row(jdk: int, kind: str, outcome: reattach.Outcome) -> list[str]:
    warm, last = outcome.warm, outcome.last
    return [
        *(str(jdk), kind, f"{outcome.cycles:,}", f"{outcome.reloads:,}"),
        f"{len(outcome.changed)} of {outcome.modules} libraries",
        f"{warm.mappings} → {last.mappings}",
        f"{outcome.rss_growth:+,.0f} B",
        f"{outcome.external_growth:+,.1f} B",
        f"{outcome.hotspot_growth:+,.1f} B",
        f"{warm.arenas >> 10:,} → {last.arenas >> 10:,} KiB",
        f"{outcome.free_growth:+,.0f} B",
    ]


def hotspot_limit(jdk: int, outcome: reattach.Outcome, empty: reattach.Outcome) -> float:
    """The greatest growth of HotSpot's own malloc in a cycle that is no leak.

    HotSpot may grow by more than with an agent that does nothing: by a block or two of monitors that one run
    meets and the other does not, and by lists that become longer now and then, some 4,500 bytes in all.
    """
    once = 8192 + (2 * MONITORS if jdk == 11 else 0)
    return empty.hotspot_growth + 8 + once / (outcome.cycles - outcome.cycles // 10)


def wrong(jdk: int, kind: str, outcomes: dict[tuple[int, str], reattach.Outcome]) -> list[str]:
    outcome = outcomes[jdk, kind]
    found = list(outcome.changed)
    if outcome.status != reattach.STATUS:
        found.append(f"exit status {outcome.status}")
    if outcome.external_growth > outcome.external_limit:
        found.append(
            f"malloc that is not HotSpot's grew by {outcome.external_growth:,.1f} B a cycle, "
            f"{outcome.external_limit:,.1f} are allowed"
        )
    empty = outcomes.get((jdk, "empty"))
    if empty and outcome.hotspot_growth > (limit := hotspot_limit(jdk, outcome, empty)):
        found.append(
            f"HotSpot's own malloc grew by {outcome.hotspot_growth:,.1f} B a cycle, {limit:,.1f} are allowed"
        )
    return [f"{jdk} {kind}: {sentence}" for sentence in found]


def main() -> int:
    parser = BENCHMARK.parser(__doc__ or "")
    parser.add_argument("--cycles", type=int, default=1000)
    args = parser.parse_args()
    homes = java_homes.jdk_homes()
    if not homes or checkout.build_script().build_if_changed() is None:
        parser.error("needs a JDK of 11 or newer (javac)")
    failures: list[str] = []
    outcomes: dict[tuple[int, str], reattach.Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="offheap-reattach-") as scratch:
        programs = reattach.build(homes[min(homes)], Path(scratch))
        jdks = [jdk for jdk in java_homes.JRE_VERSIONS if java_homes.java(jdk).exists()]
        runs = [(jdk, kind) for jdk in jdks for kind in get_args(reattach.Kind)]
        with Progress(console=Console(stderr=True)) as bar:
            for jdk, kind in bar.track(runs, description="attach and detach"):
                try:
                    outcomes[jdk, kind] = reattach.run(java_homes.java(jdk), programs, args.cycles, kind)
                except AssertionError as error:
                    failures.append(f"{jdk} {kind}: {error}")
    failures += [sentence for jdk, kind in outcomes for sentence in wrong(jdk, kind, outcomes)]
    rows = [row(jdk, kind, outcome) for (jdk, kind), outcome in outcomes.items()]
    lines = [document.machine(), "", *document.table(HEADER, rows)]
    lines += ["", *(f"- {failure}" for failure in failures)] if failures else ["", "No failures."]
    BENCHMARK.publish(lines, write=args.write)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
