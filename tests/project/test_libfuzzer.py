"""libFuzzer's part of `make fuzz`: it builds, runs, and reports where it cannot run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness import needs
from harness.native.compiler import compile_c
from harness.paths import PROBE, ROOT
from harness.plugins.rotation import with_slow
from harness.survival import fuzzing


@pytest.mark.parametrize("sanitizer", with_slow(["address,undefined"], [""]))
def test_the_unwinder_without_libfuzzer(sanitizer: str, tmp_path: Path) -> None:
    """The libFuzzer program and its initial inputs, on machines without Clang too."""
    names = ("tests/unwind_libfuzzer.c", "tests/replay_inputs.c", "unwind/cfi.c", "unwind/cfi_step.c")
    program = compile_c([PROBE / name for name in names], tmp_path / "replay", sanitizer=sanitizer)
    corpus = tmp_path / "rules"
    corpus.mkdir()
    fuzzing.seeds(corpus)
    files = sorted(corpus.iterdir())[:100]
    assert len(files) > 10
    outcome = subprocess.run([program, "200", "1", *files], capture_output=True, text=True, timeout=120)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert outcome.stdout == f"inputs {201 * len(files)}\n"


def test_libfuzzer_on_the_unwinder(tmp_path: Path) -> None:
    needs.program("clang")
    assert fuzzing.unwinder(tmp_path, 2.0) is False


def test_libfuzzer_on_the_reader(tmp_path: Path) -> None:
    needs.module("atheris", "make fuzz-packages")
    assert fuzzing.reader(tmp_path, 2.0) is False


def fuzz_for_a_moment(path: Path) -> subprocess.CompletedProcess[str]:
    """With only the commands in `path`, and without Atheris."""
    hidden = (
        "import sys; sys.modules['atheris'] = None\n"
        "from benchmarks.survival import fuzz; sys.exit(fuzz.main())"
    )
    return subprocess.run(
        [sys.executable, "-c", hidden, "--minutes", "0.02"],
        cwd=ROOT,
        env={"PATH": str(path)},
        capture_output=True,
        text=True,
        timeout=170,
    )


def test_nothing_that_could_run_is_not_nothing_found(tmp_path: Path) -> None:
    """Clang and Atheris are missing; the machine's compiler stays, under another name."""
    compiler = needs.program("cc", "with its sanitizers")
    (tmp_path / "cc").symlink_to(compiler)
    for tool in ("as", "ld"):
        found = shutil.which(tool)
        assert found
        (tmp_path / tool).symlink_to(found)
    outcome = fuzz_for_a_moment(tmp_path)
    assert outcome.returncode == 2, outcome.stdout + outcome.stderr
    assert "libFuzzer did not run" in outcome.stderr
    assert "clang is missing" in outcome.stdout
    assert "atheris is missing" in outcome.stdout
    assert re.search(r"by chance: nothing found in [1-9]", outcome.stdout)


def test_nothing_at_all_that_could_run_is_no_find(tmp_path: Path) -> None:
    """Exit status 1 and a traceback would look like a find."""
    outcome = fuzz_for_a_moment(tmp_path)
    assert outcome.returncode == 2, outcome.stdout + outcome.stderr
    assert "by chance: not run, needs cc" in outcome.stdout
    assert outcome.stderr.count("\n") == 1, outcome.stderr
