"""The benchmarks run, and say so where a peer is missing; what they measure is not judged here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def bench(script: str, *arguments: str) -> str:
    command = [sys.executable, str(ROOT / "benchmarks" / script), "--quick", *arguments]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=170)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


def test_every_pair_is_measured_under_offheap() -> None:
    rows = re.findall(
        r"^\| (nothing|offheap [^|]+) \|(.+)\|$", bench("malloc_pair.py", "--only", "offheap"), re.M
    )
    assert {name for name, _ in rows} == {"nothing", "offheap idle", "offheap 512 KiB", "offheap exact"}
    for name, cells in rows:
        figures = [float(cell.split()[0].replace(",", "")) for cell in cells.split("|")]
        assert all(figure > 0 for figure in figures), name
