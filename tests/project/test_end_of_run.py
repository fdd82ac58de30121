"""The report and the checks at the end of a test run, by small runs of pytest with the two plugins."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness import needs
from harness.paths import HARNESS, ROOT, TESTS
from harness.plugins.leftovers import work_tree
from harness.plugins.skip_summary import summary


def pytest_run(folder: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs one test file.  The plugins check only its own temporary folder and work tree."""
    (folder / "test_it.py").write_text(source)
    temporary = folder / "temporary"
    temporary.mkdir()
    (folder / "conftest.py").write_text(
        "import pathlib\nfrom harness.plugins import leftovers\n"
        f"leftovers.FOLDERS, leftovers.ROOT = [{str(temporary)!r}], pathlib.Path({str(folder)!r})\n"
    )
    plugins = (
        "-p",
        "harness.plugins.skip_summary",
        "-p",
        "harness.plugins.leftovers",
        "-p",
        "no:cacheprovider",
    )
    keep = ("-o", "tmp_path_retention_policy=failed")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *keep, *options, "test_it.py"],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(temporary),
            "PYTEST_ADDOPTS": "",
            "PYTHONWARNINGS": "",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_run_of_all_tests_does_both(request: pytest.FixtureRequest) -> None:
    for plugin in ("skip_summary", "leftovers"):
        assert request.config.pluginmanager.has_plugin(f"harness.plugins.{plugin}")
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^test:.*\n\t.* -m pytest .*--leftovers \d+ ", makefile, re.MULTILINE)


def test_skips_are_counted_by_what_would_avoid_them(tmp_path: Path) -> None:
    source = """
import pytest
from harness import needs
@pytest.mark.parametrize("name", ["no-such-program", "no-such-other"])
def test_program(name): needs.program(name)
def test_root(): needs.skip("root", needs.ROOT)
@needs.unless(False, "x86-64", needs.X86_64)
def test_mark(): pass
def test_passes(): pass
"""
    outcome = pytest_run(tmp_path, source)
    assert outcome.returncode == 0, outcome.stdout
    told = outcome.stdout.partition("4 skipped; to run them")[2]
    assert "    2  apt-get install no-such-other no-such-program\n" in told
    assert "    1  run as root\n" in told
    assert "    1  run on x86-64\n" in told


def test_a_remedy_is_said_once() -> None:
    reasons = [
        f"Skipped: {needs.reason('cc', needs.apt('cc'))}",
        f"Skipped: {needs.reason('nm (to compare with: it)', needs.apt('nm', 'objcopy'))}",
        needs.reason("a JDK", needs.JDK),
        needs.reason("root", needs.ROOT),
        "no reason of our form",
    ]
    assert summary(reasons) == [
        "    3  apt-get install binutils gcc openjdk-17-jdk-headless",
        "    1  run as root",
        "    1  no reason of our form",
    ]


def test_every_skip_says_what_it_needs() -> None:
    words = re.compile(r"pytest\.(skip|importorskip|mark\.skip)")
    files = [path for folder in (TESTS, HARNESS) for path in folder.rglob("*.py")]
    asking = [path.name for path in files if words.search(path.read_text())]
    assert asking == ["needs.py"], "ask harness/needs.py"


def test_what_is_left_behind_fails_the_run(tmp_path: Path) -> None:
    source = f"""
import os, pathlib, tempfile
def test_leaves(tmp_path):
    tempfile.mkdtemp(prefix="offheap-waiting-")
    pathlib.Path(tempfile.gettempdir(), ".java_pid4194305").touch()
    pid = os.posix_spawnp("sleep", ["sleep", "600"], os.environ)
    pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(pid))
    pathlib.Path("left.py").touch()
"""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    outcome = pytest_run(tmp_path, source, "--leftovers", "1")
    sleeping = int((tmp_path / "pid").read_text())
    os.kill(sleeping, signal.SIGKILL)
    assert outcome.returncode == 1, outcome.stdout
    told = outcome.stdout.partition("left behind by the tests:")[2]
    assert f"  {tmp_path}/temporary/offheap-waiting-" in told
    assert f"  process {sleeping}: sleep 600\n" in told
    assert "  ?? left.py\n" in told
    assert "1 passed, 1 error" in outcome.stdout


def test_a_changed_work_tree_is_noticed(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("build/\n*.o\n")
    before = set(work_tree(tmp_path))
    for name in ("build/zoo/a", "left.o", "left.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert sorted(set(work_tree(tmp_path)) - before) == ["!! left.o", "?? left.py"]


def test_a_run_that_tidies_up_passes(tmp_path: Path) -> None:
    """The plugin removes the files that HotSpot leaves for a killed JVM."""
    source = """
import os, pathlib, tempfile
def test_leaves(tmp_path):
    (tmp_path / "file").touch()
    pathlib.Path(tempfile.gettempdir(), ".java_pid4194305").touch()
    folder = pathlib.Path(tempfile.gettempdir(), "hsperfdata_somebody")
    folder.mkdir()
    (folder / "4194305").touch()
"""
    outcome = pytest_run(tmp_path, source, "--leftovers", "1")
    assert outcome.returncode == 0, outcome.stdout
    assert list((tmp_path / "temporary").iterdir()) == []
