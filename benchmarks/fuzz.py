"""Damaged input for the probe's parsers (.eh_frame, options, /proc/self/maps), with ever new seeds.

    .venv/bin/python benchmarks/fuzz.py                 ten minutes
    .venv/bin/python benchmarks/fuzz.py --minutes 600   a night

Under AddressSanitizer and UBSan. Exit status 1, and the command that repeats it, when something was found.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from native import PROBE, compile_c  # noqa: E402

HARNESSES = {"unwind_fuzz": ("cfi.c", "cfi_step.c"), "parser_fuzz": ()}
ROUNDS = "300000"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    args = parser.parse_args()
    deadline = time.monotonic() + args.minutes * 60
    runs = 0
    with tempfile.TemporaryDirectory(prefix="offheap-fuzz-") as folder:
        programs = []
        for name, sources in HARNESSES.items():
            files = [PROBE / "tests" / f"{name}.c", *(PROBE / source for source in sources)]
            programs.append(compile_c(files, Path(folder) / name, sanitizer="address,undefined"))
        while time.monotonic() < deadline:
            for program in programs:
                seed = str(random.randrange(1 << 40))
                outcome = subprocess.run([program, ROUNDS, seed], capture_output=True, text=True)
                runs += 1
                if outcome.returncode:
                    print(outcome.stdout + outcome.stderr)
                    print(f"found by {program.name} {ROUNDS} {seed} after {runs} runs")
                    return 1
    print(f"nothing found in {runs} runs of {ROUNDS} rounds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
