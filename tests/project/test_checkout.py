"""Only the checkout that is installed as editable builds its probe; no other folder's code runs."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
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


def test_a_checkout_that_others_may_change_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checkout.is_ours(ROOT)
    monkeypatch.setattr(checkout, "is_ours", lambda root: root != ROOT)
    assert not checkout.is_editable()


# What a build runs or compiles, or what leads there; "" is the root of the checkout.
INPUTS = (
    *("probe/build.py", "probe/store/table.c", "probe/store/table.h", "probe/__pycache__/build.pyc"),
    *("", "probe", "probe/store", "probe/__pycache__"),
    *("src", "src/offheap", "src/offheap/__init__.py", "src/offheap/_lib"),
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout in a folder of its own, with every input of a build."""
    root = tmp_path / "above" / "checkout"
    for name in INPUTS:
        path = root / name
        if path.suffix:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        else:
            path.mkdir(parents=True, exist_ok=True)
    for path in (root.parent, root, *root.rglob("*")):
        path.chmod(0o700)
    return root


@pytest.fixture
def private_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group of new files is the user's own, whatever this machine says."""
    user = pwd.getpwuid(os.geteuid())
    group = grp.struct_group((user.pw_name, "x", user.pw_uid, []))
    other = pwd.struct_passwd(("other", "x", FOREIGN, FOREIGN, "", "/", "/bin/sh"))
    monkeypatch.setattr(grp, "getgrgid", lambda _: group)
    monkeypatch.setattr(pwd, "getpwall", lambda: [user, other])
    checkout._is_private.cache_clear()


@pytest.fixture(autouse=True)
def no_memory_of_groups() -> Iterator[None]:
    yield
    checkout._is_private.cache_clear()


@pytest.mark.parametrize("name", INPUTS)
def test_each_input_of_a_build_is_examined(name: str, tree: Path, private_group: None) -> None:
    assert checkout.is_ours(tree)
    (tree / name).chmod(0o702)
    assert not checkout.is_ours(tree)
    (tree / name).chmod(0o770)
    assert checkout.is_ours(tree), "the private group of the user may write"


@pytest.mark.parametrize("name", ["probe/store/table.c", "probe/store"])
def test_no_input_is_a_link(name: str, tree: Path, tmp_path: Path) -> None:
    (tree / name).rename(tmp_path / "moved")
    (tree / name).symlink_to(tmp_path / "moved")
    assert not checkout.is_ours(tree)


@pytest.mark.parametrize(("mode", "builds"), [(0o702, False), (0o777, False), (0o1777, True), (0o755, True)])
def test_the_folders_above_are_examined(mode: int, builds: bool, tree: Path) -> None:
    """In a sticky folder others cannot exchange the checkout; inside they could add a source."""
    tree.parent.chmod(mode)
    assert checkout.is_ours(tree) == builds
    tree.parent.chmod(0o700)
    (tree / "probe").chmod(0o1777)
    assert not checkout.is_ours(tree)


@pytest.mark.parametrize(
    ("group", "others", "builds"),
    [
        (("NAME", "UID", []), (), True),
        (("NAME", "UID", ["NAME"]), (), True),
        (("NAME", "UID", ["NAME", "other"]), (), False),
        (("staff", "UID", []), (), False),
        (("NAME", FOREIGN, []), (), False),
        (("NAME", "UID", []), ("UID",), False),  # the group of another user as well
        (None, (), False),  # a group without a name
    ],
)
def test_only_a_private_group_may_write(
    group: tuple[str, str | int, list[str]] | None,
    others: tuple[str, ...],
    builds: bool,
    tree: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user = pwd.getpwuid(os.geteuid())
    words = {"NAME": user.pw_name, "UID": user.pw_uid}

    def entry(number: int) -> grp.struct_group:
        if group is None:
            raise KeyError(number)
        name, its, members = group
        its_members = [str(words.get(member, member)) for member in members]
        return grp.struct_group((words.get(name, name), "x", words.get(str(its), its), its_members))

    users = [pwd.struct_passwd(("other", "x", FOREIGN, words[gid], "", "/", "/bin/sh")) for gid in others]
    monkeypatch.setattr(grp, "getgrgid", entry)
    monkeypatch.setattr(pwd, "getpwall", lambda: [user, *users])
    os.chown(tree / "probe", -1, os.getegid())
    checkout._is_private.cache_clear()
    (tree / "probe").chmod(0o770)
    assert checkout.is_ours(tree) == builds


@needs.as_root
@pytest.mark.parametrize("name", ["", "probe", "probe/build.py", "probe/store/table.c", ".."])
@pytest.mark.parametrize(
    ("user", "group", "mode", "builds"),
    [
        (FOREIGN, None, 0o700, False),
        (None, FOREIGN, 0o770, False),
        (None, FOREIGN, 0o750, True),
    ],
)
def test_a_checkout_of_others_is_not_built(
    name: str, user: int | None, group: int | None, mode: int, builds: bool, tree: Path
) -> None:
    assert checkout.is_ours(tree)
    changed = (tree / name).resolve()
    os.chown(changed, -1 if user is None else user, -1 if group is None else group)
    changed.chmod(mode)
    assert checkout.is_ours(tree) == builds


def test_the_repository_has_no_links() -> None:
    """A link to a folder of one machine breaks every clone, and git puts it over an ignored folder."""
    needs.program("git")
    command = ["git", "-C", str(ROOT), "ls-files", "--stage"]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if listed.returncode:
        needs.skip("the repository", "run the tests in a clone")
    assert [line for line in listed.stdout.splitlines() if line.startswith("120000 ")] == []
