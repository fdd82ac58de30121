"""A pytest plugin: with --leftovers, a run that leaves files or processes behind fails and names them.

It compares /dev/shm, the folders for temporary files and the work tree with what they held before.
Several runs may share a machine: a file that bears the PID of a living process of another run belongs to it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from harness.paths import ROOT

FOLDERS = ("/dev/shm", "/tmp", "/var/tmp", tempfile.gettempdir())
# How offheap, its tests, HotSpot and the tools of the tests name their files.
OURS = re.compile(
    r"offheap|allocations|pytest-of-|\.(java|attach)_pid|hs_err_pid|hsperfdata_|java_pid|core\b|"
    r"\.?org\.chromium|playwright|node-compile-cache|zig|npm-|gradle|maven|jna"
)
# What a build or a test run makes in the work tree, and git ignores.
BUILT = re.compile(
    r"build/|dist/|\.venv/|\.jres\b|\.hypothesis/|\.pytest_cache/|\.mypy_cache/|\.ruff_cache/|"
    r"web/node_modules/|src/offheap/(_lib|report/_web)/|(.*/)?__pycache__/"
)
MARK = "TEST_RUN"  # in the environment of every process that a run starts


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--leftovers",
        type=float,
        metavar="SECONDS",
        help="fail if the tests leave files or processes behind that are not gone after SECONDS",
    )


def pytest_configure(config: pytest.Config) -> None:
    # The workers of xdist have their own sessions: the controlling process alone asks.
    grace: float | None = config.getoption("--leftovers")
    if grace is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Leftovers(grace), "leftovers-of-this-run")


class Leftovers:
    def __init__(self, grace: float) -> None:
        self.grace = grace  # processes that were killed take a moment to go
        self.run = uuid.uuid4().hex
        os.environ[MARK] = self.run
        self.files = set(files())
        self.tree = set(work_tree(ROOT))

    @pytest.hookimpl(trylast=True)  # the temporary folders of pytest are gone by then
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        deadline = time.monotonic() + self.grace
        while (left := self.left(session.exitstatus == 0)) and time.monotonic() < deadline:
            time.sleep(0.2)
        if not left:
            return
        report = pytest.TestReport(
            nodeid="leftovers",
            location=("leftovers", None, "leftovers"),
            keywords={},
            outcome="failed",
            longrepr="left behind by the tests:\n" + "\n".join(f"  {each}" for each in left),
            when="teardown",
        )
        session.config.hook.pytest_runtest_logreport(report=report)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def left(self, passed: bool) -> list[str]:
        """What is left; pytest keeps its folders of tests that failed, and they do not count."""
        running = list(processes(self.run))
        if not running:
            sweep(self.files)
        return [
            *running,
            *(
                str(path)
                for path in sorted(set(files()) - self.files)
                if not anothers(path, self.run) and (passed or not path.name.startswith("pytest-of-"))
            ),
            *sorted(set(work_tree(ROOT)) - self.tree),
        ]


def files() -> Iterator[Path]:
    """The files with a name of ours in the folders for temporary files."""
    for folder in dict.fromkeys(FOLDERS):
        with contextlib.suppress(OSError):
            yield from (path for path in Path(folder).iterdir() if OURS.match(path.name))


def sweep(before: Iterable[Path]) -> None:
    """Removes what HotSpot and pytest leave by design: sockets of killed JVMs, and empty folders."""
    for path in set(files()) - set(before):
        with contextlib.suppress(OSError):
            if path.name.startswith((".java_pid", "java_pid")):
                if not Path(f"/proc/{path.name.partition('pid')[2]}").exists():
                    path.unlink()
            elif path.name.startswith("hsperfdata_"):
                for file in path.iterdir():
                    if not Path(f"/proc/{file.name}").exists():
                        file.unlink()
                path.rmdir()
            elif path.name.startswith("pytest-of-"):
                for link in path.iterdir():
                    if link.is_symlink() and not link.exists():
                        link.unlink()
                path.rmdir()


def anothers(path: Path, run: str) -> bool:
    """Whether a living process that is not of this run bears the number in the name."""
    if path.name.startswith(("hsperfdata_", "pytest-of-")):
        # Others share these folders; what is in them after the sweep belongs to others.
        with contextlib.suppress(OSError):
            return any(path.iterdir())
    marked = set(_marked(run))
    numbers = map(int, re.findall(r"(?:pid|[-.])(\d+)(?![^-.])", path.name))
    return any(Path(f"/proc/{number}").exists() and number not in marked for number in numbers)


def processes(run: str) -> Iterator[str]:
    """The command lines of the living processes of a run, apart from this one."""
    for pid in _marked(run):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if words != [b""]:
                yield f"process {pid}: {b' '.join(words).decode(errors='replace').strip()[:200]}"


def _marked(run: str) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                if f"{MARK}={run}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
    return found


def work_tree(root: Path) -> list[str]:
    """The files that git does not know, apart from what a build makes."""
    if not (root / ".git").exists() or not shutil.which("git"):
        return []
    outcome = subprocess.run(
        ["git", "-C", root, "status", "--porcelain", "--ignored"],
        capture_output=True,
        text=True,
    )
    return [line for line in outcome.stdout.splitlines() if not BUILT.match(line[3:])]
