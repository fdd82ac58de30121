"""Each check that keeps the unwinder from faulting is necessary: without it, torn stacks end the program."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from harness import needs
from harness.native.changed_sources import changed_source
from harness.native.unwinder_programs import UNWINDER, build
from harness.paths import PROBE

pytestmark = needs.on_x86_64  # the false rules are for x86-64

# The source with the check, its text, and the text without the check: [low, high) may be read.
CHECKS = {
    "a frame ends above the stack": ("unwind/packed_rules.h", "cfa > high || cfa <= r->sp", "cfa <= r->sp"),
    "a frame's words lie below it": ("unwind/packed_rules.h", " || cfa - low < deepest", ""),
    "a word that a rule computes lies below the stack": ("unwind/cfi_step.c", "address < stack->low || ", ""),
    "a word that a rule computes lies above the stack": (
        "unwind/cfi_step.c",
        " || address > stack->high - sizeof *word",
        "",
    ),
    "rules that go are read by the kernel": ("unwind/cfi.c", "if (image->stays)", "if (true)"),
}


@pytest.mark.parametrize("check", CHECKS)
def test_without_a_check_a_torn_stack_ends_the_program(check: str, tmp_path: Path) -> None:
    name, right, wrong = CHECKS[check]
    changed = changed_source(name, tmp_path, (right, wrong), unique=False)
    # The compiler finds a header below the folder of the including source.
    source = Path(shutil.copy(PROBE / "unwind/unwind.c", tmp_path)) if name.endswith(".h") else changed
    programs = build(tmp_path, unwinder=[source if one.name == source.name else one for one in UNWINDER])
    plugin = [str(tmp_path / "unwind_plugin.so")] if name == "unwind/cfi.c" else []
    outcome = subprocess.run(
        [tmp_path / "torn", "3000000", "1", *plugin], capture_output=True, text=True, timeout=120
    )
    assert outcome.returncode in (-signal.SIGSEGV, -signal.SIGBUS), outcome.stdout
    assert programs.run("cases", "recursion")  # the program has no other fault
