"""A few cells of the matrix of survival, chosen by OFFHEAP_SEED; `make soak` runs all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import needs
from harness.plugins import rotation
from harness.survival import kept_outcomes, survival_matrix


def chosen(seed: int) -> list[survival_matrix.Cell]:
    """One cell a JDK: the seed decides collector, flags, end, and how the probe is started.

    A cell's name has all of these: `python -m benchmarks.survival.soak --only NAME` runs any cell.
    """
    cells = []
    for turn, jdk in enumerate(survival_matrix.JDKS):
        machines = [machine for machine in survival_matrix.machines() if machine.jdk == jdk]
        # 11 and 40 machines have no common factor, and neither have 4 cells and the seeds that choose one
        # machine: consecutive seeds choose every cell.
        machine = machines[(seed * 11 + turn * 7) % len(machines)]
        of_machine = survival_matrix.cells([machine])
        cells.append(of_machine[(seed + turn) % len(of_machine)])
    return cells


@pytest.fixture(scope="module")
def stress(
    jdk: Path, probe_library: Path, tmp_path_factory: pytest.TempPathFactory
) -> survival_matrix.Stress:
    return survival_matrix.Stress(jdk, tmp_path_factory.mktemp("soak"), divisor=40, library=probe_library)


@pytest.fixture(scope="module")
def stress_of_the_heap(
    jdk: Path, probe_library: Path, tmp_path_factory: pytest.TempPathFactory
) -> survival_matrix.Stress:
    folder = tmp_path_factory.mktemp("soak-java-heap")
    return survival_matrix.Stress(jdk, folder, divisor=40, library=probe_library, java_heap=True)


@pytest.mark.parametrize("cell", chosen(rotation.seed()), ids=str)
def test_the_jvm_survives(
    cell: survival_matrix.Cell, stress: survival_matrix.Stress, jres: dict[int, Path]
) -> None:
    if cell.machine.jdk not in jres or not stress.present(cell.machine):
        needs.skip(f"a JRE {cell.machine.jdk} with {cell.machine.collector} in .jres", needs.JRES)
    assert not stress.run(cell).failures


# Other cells: half the matrix away.
@pytest.mark.parametrize("cell", chosen(rotation.seed() + 80), ids=str)
def test_the_jvm_survives_while_java_objects_are_followed(
    cell: survival_matrix.Cell, stress_of_the_heap: survival_matrix.Stress, jres: dict[int, Path]
) -> None:
    if cell.machine.jdk not in jres or not stress_of_the_heap.present(cell.machine):
        needs.skip(f"a JRE {cell.machine.jdk} with {cell.machine.collector} in .jres", needs.JRES)
    assert not stress_of_the_heap.run(cell).failures


def test_the_matrix_is_whole() -> None:
    cells = survival_matrix.cells(survival_matrix.machines())
    assert len(set(cells)) == 4 * 5 * 8 * 4
    half = cells[: len(cells) // 2]
    assert len({(cell.machine, cell.entry) for cell in half}) == 4 * 5 * 8 * 2
    for entry in survival_matrix.ENTRIES:
        assert {(c.machine.flags, c.exact) for c in half if c.entry == entry} == {
            (flags, exact) for flags in survival_matrix.FLAGS for exact in (False, True)
        }
    for jdk in survival_matrix.JDKS:
        assert {m.end for m in survival_matrix.machines() if m.jdk == jdk and m.flags == "default"} == set(
            survival_matrix.ENDS
        )


def test_a_difference_is_a_failure(
    stress: survival_matrix.Stress, jres: dict[int, Path], tmp_path: Path
) -> None:
    """With a library that does not exist: the JVM runs well, and creates no live file."""
    needs.jre(17, 17 in jres)
    machine = survival_matrix.Machine(17, "Serial", "default", "exit")
    other = survival_matrix.Stress(
        stress.jdk_home, tmp_path, divisor=1000, library=Path("/nowhere/liboffheap.so")
    )
    failures = other.run(survival_matrix.Cell(machine, "preload", exact=False)).failures
    assert any("live files" in failure for failure in failures)
    assert any("cannot be preloaded" in failure for failure in failures)


def test_an_empty_recording_is_a_failure(
    stress: survival_matrix.Stress, jres: dict[int, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs.jre(17, 17 in jres)
    shorter = survival_matrix.Stress(stress.jdk_home, tmp_path, divisor=1000, library=stress.library)
    cell = survival_matrix.Cell(
        survival_matrix.Machine(17, "Serial", "default", "return"), "preload", exact=False
    )
    assert not shorter.run(cell).failures
    monkeypatch.setattr(survival_matrix, "_options", lambda exact: "interval=1048576g")
    assert shorter.run(cell).failures == ("nothing was recorded",)


def test_of_two_lines_for_one_cell_the_later_counts(tmp_path: Path) -> None:
    file = tmp_path / "soak.jsonl"
    assert kept_outcomes.read_kept(file, 1) == {}
    failed = survival_matrix.Result(("exit status -11",), 0, 0, {})
    for cell, divisor, probe, result in [
        ("a", 1, "old", failed),
        ("b", 40, "old", failed),
        ("a", 1, "new", survival_matrix.Result((), 3, 40, {"truncated": 7})),
    ]:
        kept_outcomes.Kept(cell, divisor, probe, 27.5, result).append(file)
    kept = kept_outcomes.read_kept(file, 1)
    assert list(kept) == ["a"]
    assert kept["a"].result == survival_matrix.Result((), 3, 40, {"truncated": 7})
    tally = kept_outcomes.Tally()
    machine = survival_matrix.Machine(17, "Serial", "default", "exit")
    tally.add(survival_matrix.Cell(machine, "preload", exact=False), kept["a"], "new")
    text = "\n".join(kept_outcomes.tables(tally, 1))
    assert "1 cells in 0 minutes" in text
    assert "1 of them with the probe as it was" in text
    assert "0 failures; 40 blocks and mappings recorded.  Lost and counted: truncated 7" in text
