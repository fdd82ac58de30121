"""The probe's data structures outside a JVM, under the sanitizers that the compiler offers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from native import SANITIZERS, compile_c

PROBE = Path(__file__).parent.parent / "probe"

# A program, the word that it is given if any; the sources that it tries out.
UNITS = {
    "table_stress": ["table.c", "system.c"],
    "table_stress exact": ["table.c", "system.c"],
    "table_stress grows": ["table.c", "system.c"],
    "ranges_model": ["ranges.c", "system.c"],
    "ranges_stress": ["ranges.c", "system.c"],
    "sampler_rates": ["sampler.c", "system.c"],
    "sampler_moves": ["sampler.c", "system.c"],
    "budget_shares": ["budget.c", "sampler.c"],
    "table_patterns": ["table.c", "system.c"],
    "table_patterns exact": ["table.c", "system.c"],
    "system_copies": ["system.c"],
}


@pytest.mark.parametrize("sanitizer", SANITIZERS)
@pytest.mark.parametrize("unit", UNITS)
def test_unit(unit: str, sanitizer: str, tmp_path: Path) -> None:
    name, *words = unit.split()
    sources = [PROBE / "tests" / f"{name}.c", *(PROBE / source for source in UNITS[unit])]
    program = compile_c(sources, tmp_path / name, sanitizer=sanitizer, libraries=["m", "pthread"])
    result = subprocess.run([program, *words], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "WARNING: ThreadSanitizer" not in result.stderr
