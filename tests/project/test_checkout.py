"""Only the checkout that is installed as editable builds its probe; no other folder's code runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness import needs
from harness.paths import ROOT
from offheap.probe import checkout

PACKAGE = Path(checkout.__file__).parent.parent
FOREIGN = 12345  # a user and a group that nobody has
REFRESH = "from offheap.probe import checkout; print(checkout.__file__); checkout.refresh_probe()"


def test_an_installation_runs_no_build_script_beside_it(tmp_path: Path) -> None:
    """GIVEN `pip --target TMP/tool` WHEN it needs its probe THEN it does not run TMP/probe/build.py."""
    tool, planted = tmp_path / "tool", tmp_path / "probe"
    shutil.copytree(PACKAGE, tool / "offheap", ignore=shutil.ignore_patterns("__pycache__"))
    planted.mkdir()
    (planted / "build.py").write_text(f"open({os.fspath(tmp_path / 'ran')!r}, 'w')\nraise SystemExit(3)\n")
    environment = {**os.environ, "PYTHONPATH": str(tool)}
    outcome = subprocess.run(
        [sys.executable, "-c", REFRESH], capture_output=True, text=True, timeout=60, env=environment
    )
    assert outcome.stdout.startswith(str(tool)), outcome.stdout
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert not (tmp_path / "ran").exists()


def test_the_editable_install_of_the_tests_builds() -> None:
    assert checkout.is_editable()


@pytest.mark.parametrize("mode", [0o702, 0o772])
def test_a_checkout_that_others_may_write_to_does_not_build(
    mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(mode)
    monkeypatch.setattr(checkout, "_BUILD_SCRIPT", tmp_path / "build.py")
    (tmp_path / "build.py").touch(mode=0o600)
    assert not checkout.is_editable()
    tmp_path.chmod(0o700)
    assert checkout.is_editable()


@needs.as_root
@pytest.mark.parametrize("foreign", ["folder", "script"])
@pytest.mark.parametrize(
    ("user", "group", "mode", "builds"),
    [
        (FOREIGN, None, 0o700, False),
        (None, FOREIGN, 0o770, False),
        (None, FOREIGN, 0o750, True),
        (None, None, 0o770, True),  # with a umask of 002 the user's own group may write
    ],
)
def test_a_checkout_of_others_does_not_build(
    foreign: str,
    user: int | None,
    group: int | None,
    mode: int,
    builds: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = tmp_path / "build.py"
    script.touch(mode=0o600)
    tmp_path.chmod(0o700)
    monkeypatch.setattr(checkout, "_BUILD_SCRIPT", script)
    assert checkout.is_editable()
    changed = script if foreign == "script" else tmp_path
    os.chown(changed, os.geteuid() if user is None else user, os.getegid() if group is None else group)
    changed.chmod(mode)
    assert checkout.is_editable() == builds


def test_the_repository_has_no_links() -> None:
    """A link to a folder of one machine breaks every clone, and git puts it over an ignored folder."""
    needs.program("git")
    command = ["git", "-C", str(ROOT), "ls-files", "--stage"]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if listed.returncode:
        needs.skip("the repository", "run the tests in a clone")
    assert [line for line in listed.stdout.splitlines() if line.startswith("120000 ")] == []
