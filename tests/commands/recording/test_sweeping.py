"""The next command removes live files that no reader will ask for, and keeps all others."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.hostile.left_live_files import left, writing
from harness.jvms.waiting_jvm import waiting_jvm
from offheap.cli import main as cli
from offheap.probe import contract, control
from offheap.probe.contract import State
from offheap.probe.live_files import folders, stale_files
from offheap.proc import status

DAY = 24 * 3600.0
NAME = "offheap-7-0123456789abcdef.live"

# This recorder is killed after it removes the probe and before it removes the live file.
KILLED_RECORDER = """
import os, signal, sys
from offheap.probe import control as probe
started = probe.start(int(sys.argv[1]), "interval=65536", passing=True)
print(started.live_file, flush=True)
if sys.argv[2] == "detached": probe.detach(int(sys.argv[1]))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder that is swept: other folders of this machine belong to other tests."""
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(folders, "for_runs", lambda: [str(folder)])
    return folder


@pytest.fixture(scope="module")
def ended(probe_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The live file of a process that has ended."""
    return left(probe_library, tmp_path_factory.mktemp("ended"), "interval=65536")


def copied(ended: Path, folder: Path, **fields: int) -> Path:
    """A copy with other values in its header."""
    path = folder / NAME
    subprocess.run(["cp", "--sparse=always", ended, path], check=True)
    with path.open("r+b") as file:
        for name, value in fields.items():
            dtype, offset = contract.HEADER.fields[name][:2]  # type: ignore[index]
            file.seek(offset)
            file.write(value.to_bytes(dtype.itemsize, "little"))
    return path


def days_ago(days: float) -> int:
    return int((time.time() - days * DAY) * 1e9)


def test_what_was_not_to_be_kept_goes_after_a_day(place: Path, ended: Path) -> None:
    for fields, stays in (
        ({"kept": 0, "start_realtime_ns": days_ago(1.1)}, False),
        ({"kept": 0, "start_realtime_ns": days_ago(0.9)}, True),
        ({"kept": 1, "start_realtime_ns": days_ago(30)}, True),
        ({"kept": 0, "start_realtime_ns": days_ago(1.1), "state": State.RECORDING}, False),
    ):
        path = copied(ended, place, **fields)
        stale_files.sweep()
        assert path.exists() == stays, fields


def test_what_recorded_for_long_is_as_old_as_its_end(place: Path, ended: Path) -> None:
    """The day begins at the last write."""
    hours = 3600 * 10**9
    times = {"start_realtime_ns": days_ago(3), "start_monotonic_ns": hours}
    for field in ("heartbeat_ns", "stop_monotonic_ns"):
        other = {"heartbeat_ns": 0, "stop_monotonic_ns": 0, field: 71 * hours}
        path = copied(ended, place, kept=0, **times, **other)
        stale_files.sweep()
        assert path.exists()


def test_the_recorder_that_it_was_made_for(place: Path, ended: Path) -> None:
    pid, start, namespace = status.identity()
    recorder = {"recorder_pid": pid, "recorder_start": start, "recorder_namespace": namespace}
    path = copied(ended, place, kept=0, **recorder)
    stale_files.sweep()
    assert path.exists(), "it still runs"
    path = copied(ended, place, kept=0, **{**recorder, "recorder_start": start + 1})
    stale_files.sweep()
    assert not path.exists(), "that number is another process's by now"


def test_what_is_written_read_or_foreign_stays(place: Path, ended: Path, probe_library: Path) -> None:
    with writing(probe_library, place, "interval=65536,recorder=1.1.1") as (_, used):
        stale_files.sweep()
        assert used.exists()
    path = copied(ended, place, kept=0, recorder_pid=1)
    with path.open("rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_EX)
        stale_files.sweep()
        assert path.exists()
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
        stale_files.sweep()
        assert path.exists()
        os.chown(path, 0, 0)
    notes = place / "offheap-8-0123456789abcdef.live"
    notes.write_text("somebody's notes")
    (place / "offheap-9-0123456789abcdef.live").symlink_to(notes)
    stale_files.sweep()
    assert not path.exists()
    assert notes.exists()


@pytest.fixture
def jvm(jdk: Path, waiting_classes: Path, probe_library: Path) -> Iterator[int]:
    with waiting_jvm(jdk / "bin" / "java", waiting_classes) as waiting:
        yield waiting.pid


@pytest.mark.parametrize("command", [["ps"], ["where", "PID", "--no-attach"]])
def test_a_recorder_killed_after_the_detach_leaves_nothing(
    command: list[str], jvm: int, capsys: pytest.CaptureFixture[str]
) -> None:
    script = [sys.executable, "-c", KILLED_RECORDER, str(jvm), "detached"]
    printed = subprocess.run(script, capture_output=True, text=True, timeout=60).stdout
    live_file = Path(printed.strip())
    assert live_file.exists()
    assert cli.main([word.replace("PID", str(jvm)) for word in command]) == 0
    assert not live_file.exists()


@pytest.mark.parametrize(
    "command",
    [
        ["attach", "PID", "--duration", "100ms", "-o", "OUT/a.offheap"],
        ["detach", "PID"],
        ["env"],
        ["jemalloc", "dump", "PID", "-o", "OUT"],
        ["mtrace", "PID"],
        ["nmt", "PID"],
        ["run", "-o", "OUT/b.offheap", "--", "true"],
        ["trim", "PID"],
        ["where", "no JVM has such a name", "--serve", ":0"],
    ],
    ids=lambda command: command[0],
)
def test_every_command_that_meets_processes_sweeps(
    command: list[str],
    place: Path,
    ended: Path,
    jvm: int,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Also one that is refused then: no probe is there to detach, the JVM does not track its memory."""
    refused = ("detach", "jemalloc", "nmt", "where")
    left_behind = copied(ended, place, kept=0, recorder_pid=1 << 22)
    words = [word.replace("PID", str(jvm)).replace("OUT", str(tmp_path)) for word in command]
    assert cli.main(words) == (2 if command[0] in refused else 0), capfd.readouterr().err
    assert not left_behind.exists()


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["leaks", "FILE"], 0),
        (["summary", "FILE"], 0),
        (["stats", "FILE"], 0),
        (["tree", "FILE"], 0),
        (["report", "FILE", "-o", "OUT/a.html"], 0),
        (["export", "FILE", "--format", "collapsed", "-o", "OUT/a.collapsed"], 0),
        (["diff", "FILE", "FILE"], 0),
        (["check", "FILE"], 3),  # so short a recording has no answer
        (["nmt", "FILE"], 0),
        (["where", "FILE"], 2),  # a live file has no owners of RSS
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_a_command_that_reads_a_live_file_does_not_remove_it(
    command: list[str],
    expected: int,
    place: Path,
    ended: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The file is one that nobody would ask for, if this command did not."""
    asked_for = copied(ended, place, kept=0, recorder_pid=1 << 22)
    words = [word.replace("FILE", str(asked_for)).replace("OUT", str(tmp_path)) for word in command]
    assert cli.main(words) == expected, capfd.readouterr().err
    assert asked_for.exists()
    stale_files.sweep()
    assert not asked_for.exists()


def test_env_loads_nothing_heavy_where_nothing_is_left(probe_library: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from offheap.cli import main; from offheap.probe.live_files import folders; "
        "folders.for_runs = lambda: [sys.argv[1]]; assert main.main(['env']) == 0; "
        "assert 'numpy' not in sys.modules"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert outcome.returncode == 0, outcome.stderr


def test_what_a_killed_recorder_left_recording_is_kept_by_detach(
    jvm: int, capsys: pytest.CaptureFixture[str]
) -> None:
    script = [sys.executable, "-c", KILLED_RECORDER, str(jvm), "recording"]
    printed = subprocess.run(script, capture_output=True, text=True, timeout=60).stdout
    live_file = Path(printed.strip())
    stale_files.sweep()
    assert live_file.exists(), "it is written to"
    assert cli.main(["detach", str(jvm)]) == 0
    assert f"offheap leaks {live_file}" in capsys.readouterr().out
    stale_files.sweep()
    assert live_file.exists(), "the command said that it can be read"
    live_file.unlink()


def test_attach_keep_goes_on_for_somebody_else(jvm: int) -> None:
    script = [sys.executable, "-c", KILLED_RECORDER, str(jvm), "recording"]
    subprocess.run(script, capture_output=True, timeout=60)
    started = control.start(jvm, passing=False)  # like `offheap attach --keep`
    assert started.how == "continued"
    control.detach(jvm)
    stale_files.sweep()
    assert started.live_file.exists()
    started.live_file.unlink()


ALLOCATES = """
import ctypes, os
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
for _ in range({blocks}): libc.malloc(5000)
print(os.getpid())
"""


@pytest.mark.parametrize(
    ("options", "blocks", "stays"),
    [
        ("interval=65536", 10, False),
        ("interval=65536,keep", 10, True),
        ("interval=1", 5000, True),  # enough samples to be worth keeping
        ("exact", 10, True),
        ("interval=65536,dir={folder}", 10, True),
    ],
)
def test_a_short_lived_process_removes_its_own(
    options: str, blocks: int, stays: bool, probe_library: Path
) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="offheap-test-") as folder:
        outcome = subprocess.run(
            [sys.executable, "-c", ALLOCATES.format(blocks=blocks)],
            env={**os.environ, "LD_PRELOAD": str(probe_library), "OFFHEAP": options.format(folder=folder)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert outcome.returncode == 0, outcome.stderr
        there = Path(folder) if "dir=" in options else Path("/dev/shm")
        found = list(there.glob(f"offheap-{outcome.stdout.strip()}-*.live"))
        assert len(found) == stays
        for path in found:
            path.unlink()


def test_jvms_that_are_asked_for_their_version_leave_nothing(jdk: Path, probe_library: Path) -> None:
    variables = {"LD_PRELOAD": str(probe_library), "OFFHEAP": "budget=1%,search=1"}
    for _ in range(3):
        with subprocess.Popen(
            [jdk / "bin" / "java", "-version"], env={**os.environ, **variables}, stderr=subprocess.DEVNULL
        ) as process:
            assert process.wait(60) == 0
        assert not list(Path("/dev/shm").glob(f"offheap-{process.pid}-*.live"))
