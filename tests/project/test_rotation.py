"""The seed chooses the cells and the examples of a run; without a seed the choice is fixed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings

from harness.paths import ROOT
from harness.plugins import rotation

ROWS, COLUMNS = (11, 17, 21), ("serial", "g1", "z", "parallel")


def runs(cells: list[ParameterSet]) -> list[tuple[object, ...]]:
    """The values of the cells that are not marked slow."""
    return [tuple(cell.values) for cell in cells if not cell.marks]


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    monkeypatch.setenv(rotation.VARIABLE, str(request.param))
    seed: int = request.param
    return seed


@pytest.mark.parametrize("seeded", [0, 1, 7, 20_000], indirect=True)
def test_each_row_has_one_cell(seeded: int) -> None:
    assert [row for row, _ in runs(rotation.one_a_row(ROWS, COLUMNS))] == list(ROWS)
    assert runs(rotation.one_of(COLUMNS)) == [(COLUMNS[seeded % len(COLUMNS)],)]


def test_seeds_in_turn_run_every_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    met = set()
    for seed in range(len(COLUMNS)):
        monkeypatch.setenv(rotation.VARIABLE, str(seed))
        met.update(runs(rotation.one_a_row(ROWS, COLUMNS)))
    assert len(met) == len(ROWS) * len(COLUMNS)


def test_without_a_seed_it_is_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(rotation.VARIABLE, raising=False)
    assert rotation.seed() == 0
    assert "OFFHEAP_SEED=0" in rotation.pytest_report_header()


def collected(seed: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "tests/project/test_rotation.py"]
    environment = {**os.environ, rotation.VARIABLE: seed}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)


def test_a_run_prints_its_seed() -> None:
    assert "\nrotation: OFFHEAP_SEED=4711\n" in collected("4711").stdout


def test_a_seed_must_be_a_number() -> None:
    done = collected("today")
    assert done.returncode
    assert "OFFHEAP_SEED: 'today' is not a whole number" in done.stdout + done.stderr


PROGRAM = """
{imports}
from hypothesis import given, strategies as st

@given(st.lists(st.integers()), st.text())
def test_examples(numbers, text):
    print("example", numbers, ascii(text))
"""


def examples(folder: Path, seed: str, *options: str, imports: str = "") -> list[str]:
    """The examples that a run of PROGRAM tries with this seed."""
    (folder / "test_printed.py").write_text(PROGRAM.format(imports=imports))
    words = ["-q", "-s", "-p", "harness.plugins.examples", "-p", "no:cacheprovider", *options]
    environment = {**os.environ, rotation.VARIABLE: seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "test_printed.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("example")]


def test_the_seed_chooses_the_examples(tmp_path: Path) -> None:
    fixed = examples(tmp_path, "0")
    assert len(fixed) >= 50
    assert examples(tmp_path, "0") == fixed
    rotated = examples(tmp_path, "1")
    assert rotated != fixed
    assert examples(tmp_path, "1") == rotated
    assert examples(tmp_path, "0", "--hypothesis-seed", "1") == rotated


def test_loaded_modules_choose_no_example(tmp_path: Path) -> None:
    (tmp_path / "constants.py").write_text("".join(f"C{n} = {n * 7919 + 4711}\n" for n in range(200)))
    assert examples(tmp_path, "0", imports="import constants") == examples(tmp_path, "0")


def test_earlier_failures_choose_no_example() -> None:
    """Hypothesis's database keeps the examples that failed on this machine."""
    assert settings.default is not None
    assert settings.default.database is None
    assert settings.default.derandomize == (rotation.seed() == rotation.DEFAULT)
