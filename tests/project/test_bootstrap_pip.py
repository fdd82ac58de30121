"""bootstrap_pip.py, which creates a virtual environment for a Python without ensurepip."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bootstrap_pip
from harness import needs


@pytest.mark.parametrize("lists", ["as they are", "none"])
def test_pip_comes_from_debian(lists: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN Debian, with or without lists of packages WHEN asked THEN its wheel of pip runs."""
    if not shutil.which("apt-get"):
        needs.skip("apt-get", "run the tests on Debian or Ubuntu")
    if lists == "none":
        configuration = tmp_path / "apt.conf"
        empty = tmp_path / "empty"
        empty.mkdir()
        configuration.write_text(f'Dir::State::lists "{empty}";\n')
        monkeypatch.setenv("APT_CONFIG", str(configuration))
    folder = tmp_path / "folder"
    folder.mkdir()
    try:
        wheel = bootstrap_pip.wheel(folder)
    except ValueError as error:
        needs.skip(f"Debian's packages ({error})", "let apt-get reach its mirror")
    told = subprocess.run(
        [sys.executable, f"{wheel}/pip", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert told.stdout.startswith("pip ")


def test_where_there_is_no_debian_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit) as refused:
        bootstrap_pip.main()
    assert "this Python has no ensurepip" in str(refused.value)
    assert "install your distribution's python3-venv package" in str(refused.value)
