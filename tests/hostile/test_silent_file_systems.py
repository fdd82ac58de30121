"""File systems that stop answering between two requests: each command goes on without the file.

harness/hostile/silent_server.py serves them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import public_folders
from harness.command_line import offheap
from harness.hostile.process import NOBODY_UID, Measured, measured
from harness.hostile.silent_mount import silent_mount
from harness.hostile.silent_server import OPEN, OPENDIR
from offheap.proc.opened_folder import OpenedFolder

# Far more than the commands take on a busy machine, so that only a hang fails.
SECONDS = 100.0
STALE, THEIRS = "offheap-1-0123456789abcdef.live", "offheap-2-0123456789abcdef.live"


@pytest.fixture
def folder() -> Path:
    path = public_folders.make("silent")
    path.chmod(0o777)
    return path


def run(*arguments: object) -> Measured:
    return measured(offheap(*map(str, arguments)), SECONDS)


# ---- folders of live files -------------------------------------------------------------------------


@pytest.mark.parametrize("command", [("ps",), ("clean", "--dry-run")], ids=["ps", "clean"])
@pytest.mark.parametrize("after", [OPENDIR, OPEN], ids=["no list of names", "no content"])
def test_a_folder_of_live_files(command: tuple[str, ...], after: int, folder: Path) -> None:
    """Any process names a folder for its live files by its TMPDIR."""
    (folder / STALE).write_bytes(b"")
    with (
        silent_mount(folder / "mount", [THEIRS], after=after) as mount,
        _sleeper(mount.place),
        _sleeper(folder),
    ):
        its = run(*command, "--json")
        assert its.status == 0, its.stderr
        document = json.loads(its.stdout)
    files = document["files" if "clean" in command else "stale_files"]
    found = {Path(file["path"]).name for file in files}
    assert STALE in found, "offheap still reads the other folders"
    assert THEIRS not in found


@contextlib.contextmanager
def _sleeper(folder: Path) -> Iterator[None]:
    process = subprocess.Popen(["sleep", "1000"], env={"TMPDIR": str(folder)}, user=NOBODY_UID)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_what_an_opened_folder_opens(folder: Path) -> None:
    (folder / "file").write_bytes(b"12345")
    (folder / "link").symlink_to("file")
    (folder / "inner").mkdir()
    (folder / "far").symlink_to("inner")
    os.mkfifo(folder / "fifo")
    with OpenedFolder.at(folder) as opened:
        assert opened.names(re.compile("fi.*")) == ["fifo", "file"]
        with opened.regular("file") as file:
            assert file.read_at(1, 3) == b"234"
        for name in ("fifo", "link", "inner", "no such name"):
            with pytest.raises(OSError):
                opened.regular(name).close()
        opened.folder("inner").close()
        for name in ("far", "file"):
            with pytest.raises(OSError):
                opened.folder(name).close()
        assert stat.S_ISLNK(opened.entry_status("link").st_mode)
        opened.remove("link")
        opened.remove_folder("inner")
    assert sorted(os.listdir(folder)) == ["far", "fifo", "file"]
