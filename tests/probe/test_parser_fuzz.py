"""The probe's own text parsers with damaged input, under the sanitizers; `make fuzz` runs them for longer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.native.compiler import compile_c
from harness.paths import PROBE


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("fuzz") / "parser_fuzz"
    return compile_c([PROBE / "tests" / "parser_fuzz.c"], output, sanitizer="address,undefined")


@pytest.mark.parametrize("seed", range(2))
def test_damaged_options_and_mappings_are_harmless(seed: int, program: Path) -> None:
    outcome = subprocess.run([program, "50000", str(seed)], capture_output=True, text=True, timeout=120)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    _, options, _, mappings = outcome.stdout.split()
    assert int(options) > 12_500  # a quarter of the inputs is undamaged
    assert int(mappings) > 1000
