"""The files that a killed `offheap run` leaves in /dev/shm, and who removes them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import needs
from harness.waiting import wait_until
from offheap.probe.live_files import run_folder, search

pytestmark = pytest.mark.usefixtures("probe_library")


@pytest.fixture
def killed_run(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """The folder of a killed run, and its program, which is still alive."""
    program = [sys.executable, "-c", "print('up', flush=True); input()"]
    command = [sys.executable, "-m", "offheap", "run", "-o", str(tmp_path / "a.offheap"), "--", *program]
    run = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert run.stdout
    assert run.stdout.readline() == "up\n"
    (folder,) = Path("/dev/shm").glob(f"offheap-run-{run.pid}-*")
    # While the program lives no command removes its folder.
    run_folder.sweep()
    assert folder.exists()
    run.kill()
    run.wait()
    try:
        yield folder, run
    finally:
        assert run.stdin
        run.stdin.close()
        run.stdout.close()


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_swept_when_the_program_has_ended(
    killed_run: tuple[Path, subprocess.Popen[str]], tmp_path: Path
) -> None:
    folder, run = killed_run
    (file,) = search.inside(folder)
    assert file.recording
    run_folder.sweep()
    assert file.path.exists(), "the program still writes there"
    assert run.stdin
    run.stdin.write("\n")
    run.stdin.close()
    pid = file.pid
    assert pid
    wait_until(lambda: ended(pid))
    outcome = subprocess.run(
        [sys.executable, "-m", "offheap", "run", "-o", tmp_path / "b.offheap", "--", "true"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert not folder.exists()


def left_behind(folder: Path, *, owner: str = "1 1") -> Path:
    """A folder of a run whose process has ended: no PID 1 ever started at tick 1."""
    folder.mkdir(mode=0o700)
    namespace = os.stat("/proc/self/ns/pid").st_ino
    (folder / "owner").write_text(f"{owner} {namespace}\n")
    (folder / f"offheap-999999999-{'0' * 16}.live").write_bytes(b"damaged")
    return folder


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_only_what_a_run_makes_is_removed(parent: Path) -> None:
    swept = left_behind(parent / "offheap-run-7-abcdefgh")
    kept = left_behind(parent / "offheap-run-8-abcdefgh")
    (kept / "a file of somebody else").touch()
    other = left_behind(parent / "offheap-runner")
    run_folder.sweep()
    assert not swept.exists()
    assert [path.name for path in kept.iterdir()] == ["a file of somebody else"]
    assert len(list(other.iterdir())) == 2


def test_links_are_not_followed(parent: Path) -> None:
    target = left_behind(parent / "elsewhere")
    (parent / "offheap-run-7-abcdefgh").symlink_to(target)
    kept = left_behind(parent / "offheap-run-8-abcdefgh")
    (kept / "owner").unlink()
    (kept / "owner").symlink_to(target / "owner")
    run_folder.sweep()
    assert len(list(target.iterdir())) == 2
    assert len(list(kept.iterdir())) == 2


@pytest.mark.parametrize("words", ["", "1", "1 1 1", "-1 1 ", "one two ", "\0", "1 1\n" * 50, "9" * 90])
def test_a_foreign_owner_is_nobody(words: str, parent: Path) -> None:
    """The owner is in another PID namespace, or missing: the folder stays."""
    folder = left_behind(parent / "offheap-run-7-abcdefgh")
    (folder / "owner").write_text(words)
    run_folder.sweep()
    assert len(list(folder.iterdir())) == 2


def test_another_users_folder_stays(parent: Path) -> None:
    needs.root("to make a folder of another user's")
    folder = left_behind(parent / "offheap-run-7-abcdefgh")
    os.chown(folder, 65534, 65534)
    mine = left_behind(parent / "offheap-run-8-abcdefgh")
    os.chown(mine / "owner", 65534, 65534)
    run_folder.sweep()
    assert len(list(folder.iterdir())) == 2
    assert len(list(mine.iterdir())) == 2
