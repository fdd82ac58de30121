"""The set of mappings under threads and an outside reader: ranges_stress.c detects each planted mistake.

test_probe_units.py checks that the set passes under each sanitizer.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.native.changed_sources import changed_source
from harness.native.compiler import compile_c
from harness.paths import PROBE

# Simulates a thread that is preempted while it writes a row, which happens too rarely to wait for.
PAUSE = (
    "__atomic_store_n(&to[i], words[i], __ATOMIC_RELAXED);",
    "{ __atomic_store_n(&to[i], words[i], __ATOMIC_RELAXED); if (i == 2) sched_yield(); }",
)

# A change of probe/store/ranges.c: the text, its replacement, the sanitizer, the expected message.
MISTAKES = {
    "a start that comes before the rest": (
        "__atomic_store_n(&to[0], 0, __ATOMIC_RELAXED);",
        "__atomic_store_n(&to[0], words[0], __ATOMIC_RELAXED);",
        "",
        "a row that nobody has written",
    ),
    "a row that is given back as it was": (
        "            __atomic_store_n(&row->start, 0, __ATOMIC_RELEASE);\n            set.free_rows",
        "            set.free_rows",
        "",
        "two rows with one page",
    ),
    "a cut range that keeps its end": ("head.end = start;", "", "", ""),
    "no lock": (
        "if (!atomic_exchange_explicit(&set.locked, 1, memory_order_acquire)) return true;",
        "return true;",
        "",
        "",  # any message
    ),
    "a lock that orders nothing": (
        "atomic_exchange_explicit(&set.locked, 1, memory_order_acquire)",
        "atomic_exchange_explicit(&set.locked, 1, memory_order_relaxed)",
        "thread",
        "ThreadSanitizer: data race",
    ),
    "a row written as if nobody read it": (
        "__atomic_store_n(&to[i], words[i], __ATOMIC_RELAXED);",
        "to[i] = words[i];",
        "thread",
        "ThreadSanitizer: data race",
    ),
}


def stress(
    folder: Path, sanitizer: str, *changes: tuple[str, str], flags: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    changed = changed_source("store/ranges.c", folder, *changes)
    program = compile_c(
        [PROBE / "tests" / "ranges_stress.c", changed, PROBE / "platform/system.c"],
        folder / "stress",
        sanitizer=sanitizer,
        flags=flags,
        libraries=["pthread"],
    )
    environment = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1"}
    # This takes a few seconds; on a busy machine each yield in PAUSE may cost another process's time slice.
    return subprocess.run([program], env=environment, capture_output=True, text=True, timeout=540)


def test_a_writer_that_is_interrupted_in_a_row_does_no_harm(tmp_path: Path) -> None:
    outcome = stress(tmp_path, "", PAUSE, flags=["-DSTRESS_ROUNDS=20000"])
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_noticed(mistake: str, tmp_path: Path) -> None:
    right, wrong, sanitizer, words = MISTAKES[mistake]
    changes = [(right, wrong)] if right == PAUSE[0] else [PAUSE, (right, wrong)]
    outcome = stress(tmp_path, sanitizer, *changes)
    assert outcome.returncode != 0, outcome.stdout
    assert words in outcome.stderr, outcome.stderr
