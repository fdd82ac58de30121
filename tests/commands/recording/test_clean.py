"""`offheap clean` removes live files that belong to no process, and nothing else."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import needs
from harness.hostile.left_live_files import left, writing
from harness.jvms.waiting_jvm import waiting_jvm
from offheap.cli import main as cli
from offheap.errors import UserError
from offheap.probe import contract, control
from offheap.probe.contract import State
from offheap.probe.live_files import folders, run_folder, stale_files
from offheap.probe.live_files.stale_files import LiveFileFound, Wish, survey
from offheap.proc import locks, status

NAME = "offheap-{}-0123456789abcdef.live"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder that the command searches: other folders of this machine belong to other tests."""
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(folders, "everywhere", lambda pid=None: [folder])
    return folder


@pytest.fixture(scope="module")
def stale(probe_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return left(probe_library, tmp_path_factory.mktemp("stale"), "interval=65536")


def copied(stale: Path, folder: Path, pid: int = 7) -> Path:
    path = folder / NAME.format(pid)
    subprocess.run(["cp", "--sparse=always", stale, path], check=True)
    return path


def judged(wish: Wish | None = None) -> dict[str, LiveFileFound]:
    return {file.path.name: file for file in survey(wish)}


def clean(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert cli.main(["clean", *options]) == 0
    return capsys.readouterr().out


def test_what_belongs_to_nobody_goes(
    place: Path, stale: Path, probe_library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = copied(stale, place)
    half_made = place / NAME.format(8)
    half_made.write_bytes(bytes(contract.HEADER_BYTES))
    with writing(probe_library, place, "interval=65536") as (pid, used):
        listed = " ".join(clean(capsys, "--dry-run").split())
        assert "2 would be removed (" in listed
        user = status.user_name(os.geteuid())
        for path, number in ((gone, 7), (half_made, 8)):
            about = rf"[\d.]+ [KM]?i?B, of {user}, [\d.]+ s old; would be removed: its process, PID {number},"
            assert re.search(rf"{path} {about} no longer exists", listed), listed
        assert len(list(place.iterdir())) == 3
        told = json.loads(clean(capsys, "--json"))
        assert used.exists()
        assert not gone.exists()
        assert not half_made.exists()
    assert told["schema"] == "offheap.clean/1"
    assert told["dry_run"] is False
    files = {file["path"]: file for file in told["files"]}
    assert files[str(gone)]["removed"] is True
    assert files[str(gone)]["kept"] is None
    assert files[str(gone)]["pid"] == 7
    assert files[str(gone)]["bytes"] > 0
    assert files[str(used)]["removed"] is False
    assert files[str(used)]["kept"] == f"PID {pid} records into it"
    assert told["freed_bytes"] == sum(file["bytes"] for file in told["files"] if file["removed"])
    # The process is dead here.
    assert "1 removed (" in clean(capsys)
    assert "nothing to remove" in clean(capsys)
    assert not list(place.iterdir())


def test_what_only_has_the_name_stays(place: Path, stale: Path, tmp_path: Path) -> None:
    target = copied(stale, tmp_path)
    (place / NAME.format(1)).symlink_to(target)
    os.mkfifo(place / NAME.format(2))
    (place / NAME.format(3)).mkdir()
    (place / NAME.format(4)).write_text("somebody's notes")
    (place / f"{NAME.format(5)}.txt").touch()
    (place / "offheap-6-0123456789ABCDEF.live").touch()
    before = set(os.listdir(place))
    found = judged(Wish(remove=True))
    assert set(os.listdir(place)) == before
    assert target.exists()
    assert {name: file.kept for name, file in found.items()} == {
        NAME.format(4): "not a live file, despite its name"
    }


def test_a_file_that_an_offheap_reads_stays(place: Path, stale: Path) -> None:
    path = copied(stale, place)
    with path.open("rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_EX)
        assert judged(Wish(remove=True))[path.name].kept == f"PID {os.getpid()} reads it"
    assert judged(Wish(remove=True))[path.name].removed


def test_a_detached_process_that_lives_keeps_its_file(place: Path, probe_library: Path) -> None:
    """A reader may still ask for its data.  A process that is not visible from here keeps its files."""
    with writing(probe_library, place, "interval=65536") as (pid, used):
        copy = copied(used, place)
        assert judged(Wish(remove=True))[copy.name].kept == f"PID {pid} records into it"
        with copy.open("r+b") as file:
            file.seek(24)
            file.write(bytes([State.STOPPED]))
        assert (
            f"PID {pid} still runs, and its recording was stopped"
            in judged(Wish(remove=True))[copy.name].kept
        )
        with copy.open("r+b") as file:
            file.seek(48)  # process_start
            file.write(bytes(8))
            file.flush()
            kept = judged(Wish(remove=True))[copy.name].kept
            assert kept == "a process that is not visible from here writes to it"
        assert judged(Wish(remove=True))[copy.name].removed


def test_age_and_other_users(place: Path, stale: Path) -> None:
    path = copied(stale, place)
    assert judged(Wish(remove=True, seconds=3600))[path.name].kept == "is younger than 1 h"
    os.utime(path, (time.time() - 7200,) * 2)
    assert not judged(Wish(seconds=3600))[path.name].kept
    assert path.exists()
    needs.root("to make a file of another user's")
    os.chown(path, 65534, 65534)
    assert "--all-users" in judged(Wish(remove=True))[path.name].kept
    assert judged(Wish(remove=True, everybody=True))[path.name].removed
    assert not path.exists()


def test_the_folder_of_a_run_goes_with_it(place: Path, stale: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "for_runs", lambda: [str(place)])
    folder = place / "offheap-run-7-abcdefgh"
    folder.mkdir(mode=0o700)
    path = copied(stale, folder)
    assert judged(Wish(remove=True))[path.name].kept == "the run that created its folder is unknown"
    (folder / "owner").write_text(run_folder._ourselves())
    assert judged(Wish(remove=True))[path.name].kept.endswith(f"still runs (PID {os.getpid()})")
    # The result is the same for a folder that a process names itself, as `OFFHEAP=dir=` of a run does.
    monkeypatch.setattr(folders, "everywhere", lambda pid=None: [folder])
    assert judged(Wish(remove=True))[path.name].kept.endswith(f"still runs (PID {os.getpid()})")
    monkeypatch.setattr(folders, "everywhere", lambda pid=None: [place])
    (folder / "owner").write_text(f"1 1 {os.stat('/proc/self/ns/pid').st_ino}\n")
    assert judged(Wish(remove=True))[path.name].removed
    assert not folder.exists()


def test_ps_and_a_full_file_system_name_them(
    place: Path, stale: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stale_files.mend(place) == ""
    paths = [copied(stale, place, pid) for pid in range(5)]
    assert cli.main(["ps"]) == 0
    text = capsys.readouterr().out
    assert "`offheap clean` removes" in text
    assert all(str(path) in text for path in paths)
    assert cli.main(["ps", "--json"]) == 0
    assert {file["path"] for file in json.loads(capsys.readouterr().out)["stale_files"]} == {*map(str, paths)}
    named = stale_files.mend(place)
    assert named.startswith("`offheap clean` frees")
    assert str(paths[0]) in named
    assert named.endswith("and 2 more")
    assert stale_files.mend(Path("/proc")) == "", "they are on another file system"

    real = os.statvfs
    none_free = os.statvfs_result((*real("/")[:4], 0, *real("/")[5:]))
    monkeypatch.setattr(os, "statvfs", lambda path: none_free)
    monkeypatch.setattr(folders, "for_runs", lambda: [str(place)])
    lines: list[str] = []
    with pytest.raises(UserError, match="160 MiB free for the live file; `offheap clean` frees"):
        run_folder.make(True, lines.append, stale_files.mend)
    assert [line.partition(";")[0] for line in lines] == [f"{place} has only 0 B free"]


def test_an_attach_names_what_fills_shared_memory(
    jdk: Path, waiting_classes: Path, probe_library: Path, tmp_path: Path
) -> None:
    needs.namespaces("mount")
    fill = f': > /dev/shm/{NAME.format(7)} && exec "$0" "$@"'
    wrapper = ("unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o size=1m none /dev/shm && {fill}")
    with waiting_jvm(jdk / "bin" / "java", waiting_classes, wrapper=wrapper) as jvm:
        command = [sys.executable, "-m", "offheap", "attach", str(jvm.pid), "--duration", "0.2s"]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
        assert outcome.returncode == 0, outcome.stderr
        line = next(line for line in outcome.stderr.splitlines() if "/dev/shm" in line)
        assert "no room for its live file in /dev/shm (1" in line
        assert f"`offheap clean` frees 0 B of stale live files: /proc/{jvm.pid}/root" in line
        assert control.loaded(jvm.pid)


def test_a_run_names_what_fills_shared_memory(probe_library: Path, tmp_path: Path) -> None:
    needs.namespaces("mount")
    fill = f': > /dev/shm/{NAME.format(7)} && exec "$0" "$@"'
    wrapper = ("unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o size=1m none /dev/shm && {fill}")
    command = (*wrapper, sys.executable, "-m", "offheap", "run", "-o", "run.offheap", "--", "true")
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    line = next(line for line in outcome.stderr.splitlines() if "/dev/shm" in line)
    assert "/dev/shm has only 1.0 MiB free; `offheap clean` frees 0 B of stale live files: " in line
    assert line.endswith(f"/dev/shm/{NAME.format(7)}")


def test_who_writes_and_who_locks_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(4096))
    program = (
        "import fcntl, mmap, sys\n"
        "file = open(sys.argv[1], 'r+b'); mapping = mmap.mmap(file.fileno(), 4096); file.close()\n"
        "reader = open(sys.argv[1], 'rb'); fcntl.flock(reader, fcntl.LOCK_EX)\n"
        "print('up', flush=True); input()\n"
    )
    with path.open("rb") as file:
        if locks.is_written(file.fileno()) is None:
            needs.skip("leases on files", "set TMPDIR to a folder on ext4, XFS or tmpfs")
        assert locks.is_written(file.fileno()) is False
        assert locks.holder(file.fileno()) is None
        process = subprocess.Popen(
            [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            assert process.stdout
            assert process.stdout.readline() == b"up\n"
            assert locks.is_written(file.fileno()) is True
            assert locks.holder(file.fileno()) == process.pid
        finally:
            process.kill()
            process.communicate()
        assert locks.is_written(file.fileno()) is False
        # A lock of another container has no PID here, and the line may have any content.
        for line in ("1: FLOCK  ADVISORY  WRITE 0 00:00:0 0 EOF", "1: -> FLOCK", "", "x" * 1000):
            assert locks.holder(file.fileno(), line) is None
