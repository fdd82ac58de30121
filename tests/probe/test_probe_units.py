"""The probe's data structures outside a JVM, under the sanitizers that the compiler offers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.native.compiler import SANITIZERS, compile_c
from harness.paths import PROBE

# A program with its argument, if any; the sources that it tests.
UNITS = {
    "table_stress": ["store/table.c", "platform/system.c"],
    "table_stress exact": ["store/table.c", "platform/system.c"],
    "table_stress grows": ["store/table.c", "platform/system.c"],
    "ranges_model": ["store/ranges.c", "platform/system.c"],
    "ranges_stress": ["store/ranges.c", "platform/system.c"],
    "sampler_rates": ["sampling/sampler.c", "guard/thread_state.c", "platform/system.c"],
    "sampler_moves": ["sampling/sampler.c", "guard/thread_state.c", "platform/system.c"],
    "budget_shares": ["sampling/budget.c", "sampling/sampler.c", "guard/thread_state.c"],
    "object_shares": [
        "sampling/budget.c",
        "sampling/sampler.c",
        "guard/thread_state.c",
        "java_heap/object_interval.c",
    ],
    "objects_stress": ["java_heap/objects.c", "store/table.c", "platform/system.c"],
    "class_memo": ["java_heap/class_memo.c"],
    "table_patterns": ["store/table.c", "platform/system.c"],
    "table_patterns exact": ["store/table.c", "platform/system.c"],
    "system_copies": ["platform/system.c"],
}

ONE_THREAD = {
    "ranges_model",
    "sampler_rates",
    "budget_shares",
    "object_shares",
    "table_patterns",
    "table_patterns exact",
    "system_copies",
}


@pytest.mark.parametrize(
    ("unit", "sanitizer"),
    [
        (unit, sanitizer)
        for unit in UNITS
        for sanitizer in SANITIZERS
        if sanitizer != "thread" or unit not in ONE_THREAD
    ],
)
def test_unit(unit: str, sanitizer: str, tmp_path: Path) -> None:
    name, *words = unit.split()
    sources = [PROBE / "tests" / f"{name}.c", *(PROBE / source for source in UNITS[unit])]
    program = compile_c(sources, tmp_path / name, sanitizer=sanitizer, libraries=["m", "pthread"])
    result = subprocess.run([program, *words], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "WARNING: ThreadSanitizer" not in result.stderr
