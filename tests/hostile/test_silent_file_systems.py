"""File systems that stop answering between two requests: each command goes on without the file.

harness/hostile/silent_server.py serves them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import stat
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from harness import needs, public_folders
from harness.command_line import offheap
from harness.hostile.process import NOBODY_UID, Measured, fake_jdk, hostile_process, measured
from harness.hostile.silent_mount import silent_mount
from harness.hostile.silent_server import AT_ONCE, OPEN, OPENDIR
from harness.jvms.waiting_jvm import read_line
from offheap.errors import UserError
from offheap.inspect.process import inspect_process
from offheap.jvm.counters.collection_log import CollectionLog
from offheap.probe import library
from offheap.proc import opening
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


# ---- hsperfdata ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _silent_counters(folder: Path) -> Iterator[int]:
    """A process that looks like a JVM whose hsperfdata file can be opened and not read; its PID."""
    place = folder / "hsperfdata_nobody"
    code = (
        f"with open(f'{place}/{{os.getpid()}}', 'r+b') as file:\n"
        "    kept.append(mmap.mmap(file.fileno(), 0))\n"
    )
    with (
        silent_mount(place, ["PID"], owner=NOBODY_UID) as mount,
        hostile_process(fake_jdk(folder / "X"), code=code) as process,
    ):
        mount.silence(OPEN)
        yield process.pid


def test_counters_and_where(folder: Path) -> None:
    with _silent_counters(folder) as pid:
        its = run("where", pid, "--no-attach", "--json")
        assert its.status == 0, its.stderr
        assert json.loads(its.stdout)["pid"] == pid


def test_an_inspection_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offheap.inspect.process._SECONDS", 1.0)
    with (
        _silent_counters(folder) as pid,
        pytest.raises(UserError, match=f"PID {pid} did not answer within 1 s"),
    ):
        inspect_process(pid, attach=False)


def test_counters_and_attach(folder: Path) -> None:
    """It is no JVM: the attach comes to that refusal, which is later than the counters."""
    with _silent_counters(folder) as pid:
        its = run("attach", pid)
    assert its.status == 2
    assert its.stderr.startswith(f"offheap: PID {pid} takes no attach requests")
    assert its.stderr.count("\n") == 1


def test_counters_and_the_recorder(folder: Path) -> None:
    with _silent_counters(folder) as pid, contextlib.closing(CollectionLog(pid)) as log:
        began = time.monotonic()
        log.poll()
        assert log.known_since is None
        assert time.monotonic() - began < SECONDS / 2


def test_counters_and_a_scrape(folder: Path) -> None:
    with _silent_counters(folder) as hostile, hostile_process(fake_jdk(folder / "Y")) as honest:
        command = offheap("where", "--all", "--no-attach", "--serve", ":0")
        server = subprocess.Popen(command, stdout=subprocess.PIPE)
        try:
            match = re.search(r"http://127\.0\.0\.1:\d+/metrics", read_line(server, SECONDS).decode())
            assert match
            with urllib.request.urlopen(match[0], timeout=SECONDS) as answer:
                families = {
                    family.name: family.samples
                    for family in text_string_to_metric_families(answer.read().decode())
                }
            up = {sample.labels["pid"]: sample.value for sample in families["offheap_up"]}
            assert up[str(honest.pid)] == 1.0
            assert str(hostile) in up
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(SECONDS)
            assert server.stdout
            server.stdout.close()
        assert server.returncode == 0


# ---- attach ----------------------------------------------------------------------------------------

# Its own mount namespace, where the file system is /tmp and the probe's library is not there.
_MOUNTS = """
import ctypes
library = ctypes.CDLL(None)
assert library.unshare(0x20000) == 0  # CLONE_NEWNS
assert library.mount(b"none", b"/", None, 0x44000, None) == 0  # MS_REC | MS_PRIVATE
assert library.mount({place!r}.encode(), b"/tmp", None, 0x1000, None) == 0  # MS_BIND
assert library.mount(b"none", {library!r}.encode(), b"tmpfs", 0, None) == 0
"""


def test_the_tmp_of_an_attach(folder: Path) -> None:
    """offheap puts a copy of the probe into another folder, finds no attach socket, and removes the copy."""
    needs.namespaces("mount")
    copies = set(Path("/var/tmp").glob("offheap-lib-*"))
    with silent_mount(folder / "mount") as mount:
        before = _MOUNTS.format(place=str(mount.place), library=str(library.probe_library().parent))
        with hostile_process(fake_jdk(folder / "X"), before=before) as process:
            mount.silence(AT_ONCE)
            its = run("attach", process.pid)
    assert its.status == 2
    assert its.stderr.startswith(f"offheap: the /tmp of PID {process.pid} does not answer;"), its.stderr
    assert its.stderr.count("\n") == 1
    assert set(Path("/var/tmp").glob("offheap-lib-*")) == copies


# ---- one file --------------------------------------------------------------------------------------


def test_a_close_that_the_server_must_answer(folder: Path) -> None:
    with silent_mount(folder / "mount", ["file"], flushed=True) as mount:
        file = opening.regular(mount.place / "file")
        assert file.read_at(0, 4) == bytes(4)
        mount.silence(AT_ONCE)
        began = time.monotonic()
        file.close()
        assert time.monotonic() - began < SECONDS / 2
        mount.end()
