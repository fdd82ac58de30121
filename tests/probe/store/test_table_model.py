"""The live table's protocol in every order of its steps; a wrong order is detected."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from harness.native.changed_sources import changed_source
from harness.native.compiler import compile_c
from harness.paths import PROBE

# The effect of a change of probe/store/table.c: the text, its replacement, the model's message.
MISTAKES = {
    "the key before the value": (
        "slot, &empty, key | 1, memory_order_acquire",
        "slot, &empty, key, memory_order_acquire",
        "a row that nobody has written",
    ),
    "a value that outruns its mark": (
        "        atomic_thread_fence(memory_order_release);\n",
        "",
        "a row that nobody has written",
    ),
    "a key that outruns its value": (
        "            atomic_store_explicit(slot, key, memory_order_release)",
        "            atomic_store_explicit(slot, key, memory_order_relaxed)",
        "a row that nobody has written",
    ),
    "a key that outruns the value in place of another": (
        "value);\n        atomic_store_explicit(slot, key, memory_order_release)",
        "value);\n        atomic_store_explicit(slot, key, memory_order_relaxed)",
        "a row that nobody has written",
    ),
    "a free that does not ask whether it was the first": (
        "if (!atomic_compare_exchange_strong_explicit(&keys_of(place.segment)[place.slot], &key, 0, "
        "memory_order_release,\n"
        "                                                 memory_order_relaxed))\n"
        "        return false;",
        "atomic_store_explicit(&keys_of(place.segment)[place.slot], 0, memory_order_release);",
        "was freed twice|miscounted|counts wrong",
    ),
    "a count that is not taken back when the table is full": (
        "    for (unsigned n = 0; n <= FARTHEST; n++) "
        "count_down(&segment->passed[nth_bucket(segment, key, n)]);\n",
        "",
        "miscounted",
    ),
    "a lookup that ends too early": (
        "        count_up(&segment->passed[bucket]);\n",
        "        if (n > 0) count_up(&segment->passed[bucket]);\n",
        "is not found|miscounted",
    ),
    "a filter that forgets a block": (
        "if (!table.exact) count_up(&table_filter[table_filter_index(block)]);",
        "",
        "the filter",
    ),
    "a segment that is counted before it is complete": (
        "atomic_store_explicit(&table.count, count + 1, memory_order_release);",
        "atomic_store_explicit(&table.count, count + 1, memory_order_relaxed);",
        "used before it is made",
    ),
    "blocks that go to a segment before it is counted": (
        "atomic_store_explicit(&table.target, count, memory_order_release);",
        "atomic_store_explicit(&table.target, count, memory_order_relaxed);",
        "is not found",
    ),
    "a lookup in the youngest segment only": (
        "if (find_in(segment_at(i), key, place)) return true;",
        "return find_in(segment_at(i), key, place);",
        "is not found",
    ),
}


def model(folder: Path, table: Path) -> subprocess.CompletedProcess[str]:
    program = compile_c(
        [PROBE / "tests" / "table_model.c", PROBE / "platform/system.c"],
        folder / "model",
        flags=["-std=gnu17", f'-DTABLE_SOURCE="{table}"'],
    )
    return subprocess.run([program], capture_output=True, text=True, timeout=150)


def test_no_order_of_steps_breaks_the_table(tmp_path: Path) -> None:
    outcome = model(tmp_path, PROBE / "store/table.c")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    scenarios = dict(re.findall(r"(.+): (\d+) states", outcome.stdout))
    assert len(scenarios) == 9
    # Threads that run one after the other would have some dozens.
    assert all(int(states) > 1000 for states in scenarios.values())


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_noticed(mistake: str, tmp_path: Path) -> None:
    right, wrong, words = MISTAKES[mistake]
    outcome = model(tmp_path, changed_source("store/table.c", tmp_path, (right, wrong)))
    assert outcome.returncode == 1, outcome.stdout + outcome.stderr
    assert re.search(words, outcome.stdout), outcome.stdout
