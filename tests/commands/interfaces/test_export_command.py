"""`offheap export`: names of files, standard output, options that a format does not take."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from harness.command_line import offheap
from harness.recordings.stored import stored
from harness.warm_command import warm_bytes
from offheap.cli.export import _NAMES, _VALUES
from offheap.formats.exported.content.samples import VALUES
from offheap.formats.exported.formats import FORMATS


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return stored(tmp_path / "app.offheap")


def export(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    return warm_bytes("export", *arguments, cwd=folder)


def refused(done: subprocess.CompletedProcess[bytes]) -> str:
    assert done.returncode == 2
    assert not done.stdout
    assert done.stderr.count(b"\n") == 1
    return done.stderr.decode()


def test_the_command_names_every_format_and_value() -> None:
    assert (tuple(FORMATS), tuple(VALUES)) == (_NAMES, _VALUES)


@pytest.mark.parametrize("name", ["pprof", "firefox"])
def test_a_file_is_named_like_the_recording(recording: Path, name: str) -> None:
    for source in (recording, f"{recording}/"):
        done = export(recording.parent, source, "--format", name)
        assert done.returncode == 0, done.stderr
        path = recording.parent / f"app{FORMATS[name].suffix}"
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.name.encode() in done.stderr
        path.unlink()
    inside = export(recording, ".", "--format", name, "-o", recording.parent / "a file")
    assert inside.returncode == 0, inside.stderr
    assert (recording.parent / "a file").exists()


def test_the_folder_itself_gives_its_name(recording: Path) -> None:
    assert export(recording, ".", "--format", "csv").returncode == 0
    assert (recording / "app.csv").exists()


def test_standard_output(recording: Path) -> None:
    done = export(recording.parent, recording, "--format", "collapsed", "--value", "inuse_objects", "-o", "-")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout
    assert sorted(path.name for path in recording.parent.iterdir()) == ["app.offheap"]


def test_a_binary_format_is_not_written_to_a_terminal(recording: Path) -> None:
    ours, theirs = pty.openpty()
    command = offheap("export", recording, "--format", "pprof", "-o", "-")
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2
    assert b"pprof is binary, and standard output is a terminal" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_a_reader_that_ends_early_is_no_error(recording: Path) -> None:
    command = offheap("export", recording, "--format", "json", "-o", "-")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        said = process.stderr.read()
        process.wait(60)
    assert b"Traceback" not in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--format", "pprof", "--value", "alloc_space"], "leave out --value"),
        (["--format", "chrome-trace", "--native"], "leave out --native"),
        (["--format", "csv", "--java-heap"], "no Java objects"),
        (["--format", "csv", "-o", "app.offheap"], "is a directory"),
        (["--format", "csv", "-o", "none/a.csv"], "none/a.csv"),
    ],
)
def test_what_cannot_be_is_one_line(recording: Path, options: list[str], said: str) -> None:
    before = sorted(recording.parent.iterdir())
    assert said in refused(export(recording.parent, recording, *options))
    assert sorted(recording.parent.iterdir()) == before
