"""The probe's data structures outside a JVM, under the sanitizers that the compiler offers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from native import SANITIZERS, compile_c

PROBE = Path(__file__).parent.parent / "probe"

UNITS = {
    "table_stress": ["table.c", "system.c"],
    "ranges_model": ["ranges.c", "system.c"],
    "sampler_rates": ["sampler.c", "system.c"],
    "sampler_moves": ["sampler.c", "system.c"],
    "budget_shares": ["budget.c", "sampler.c"],
    "table_patterns": ["table.c", "system.c"],
    "system_copies": ["system.c"],
}


@pytest.mark.parametrize("sanitizer", SANITIZERS)
@pytest.mark.parametrize("unit", UNITS)
def test_unit(unit: str, sanitizer: str, tmp_path: Path) -> None:
    sources = [PROBE / "tests" / f"{unit}.c", *(PROBE / name for name in UNITS[unit])]
    program = compile_c(sources, tmp_path / unit, sanitizer=sanitizer, libraries=["m", "pthread"])
    result = subprocess.run([program], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "WARNING: ThreadSanitizer" not in result.stderr
