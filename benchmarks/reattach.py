"""A thousand times in and out of one running JVM, on each JDK (tests/reattach.py).

    .venv/bin/python benchmarks/reattach.py                 1,000 cycles on 11, 17, 21 and 25: some minutes
    .venv/bin/python benchmarks/reattach.py --cycles 100    fewer
    .venv/bin/python benchmarks/reattach.py --write         and put the table into docs/soak.md

Exit status 1 when a JVM did not end as it should, or a slot was left changed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import document
from rich.console import Console
from rich.progress import Progress

from offheap import checkout

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import reattach  # noqa: E402
import zoo as zoo_programs  # noqa: E402

DOCUMENT = ROOT / "docs" / "soak.md"
WRITER = "benchmarks/reattach.py"
HEADER = ["JDK", "probe", "cycles", "library reloads", "slots left changed", "mappings", "RSS per cycle"]


def row(jdk: int, kind: str, outcome: reattach.Outcome) -> list[str]:
    changed = f"{len(outcome.changed)} of {outcome.modules} libraries"
    mappings = f"{outcome.warm.mappings} → {outcome.last.mappings}"
    growth = f"{outcome.growth_per_cycle:+,.0f} B"
    return [str(jdk), kind, f"{outcome.cycles:,}", f"{outcome.reloads:,}", changed, mappings, growth]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--write", action="store_true", help="put the table into docs/soak.md")
    args = parser.parse_args()
    homes = zoo_programs.jdk_homes()
    if not homes or checkout.build_script().build_if_changed() is None:
        parser.error("needs a JDK of 11 or newer (javac)")
    rows, failures = [], []
    with tempfile.TemporaryDirectory(prefix="offheap-reattach-") as scratch:
        programs = reattach.build(homes[min(homes)], Path(scratch))
        jdks = [jdk for jdk in zoo_programs.JRE_VERSIONS if zoo_programs.java(jdk).exists()]
        runs = [(jdk, kind) for jdk in jdks for kind in ("sampled", "exact", "none")]
        with Progress(console=Console(stderr=True)) as bar:
            for jdk, kind in bar.track(runs, description="attach and detach"):
                try:
                    outcome = reattach.run(
                        zoo_programs.java(jdk),
                        programs,
                        args.cycles,
                        exact=kind == "exact",
                        attach=kind != "none",
                    )
                except AssertionError as error:
                    failures.append(f"{jdk} {kind}: {error}")
                    continue
                rows.append(row(jdk, kind, outcome))
                failures += [f"{jdk} {kind}: {changed}" for changed in outcome.changed]
                if outcome.status != reattach.STATUS:
                    failures.append(f"{jdk} {kind}: exit status {outcome.status}")
    lines = [document.machine(), "", *document.table(HEADER, rows)]
    lines += ["", *(f"- {failure}" for failure in failures)] if failures else ["", "No failures."]
    print("\n".join(lines))
    if args.write:
        document.replace_section(DOCUMENT, WRITER, lines, "What the JVM survives")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
