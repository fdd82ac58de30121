"""Commands that cannot succeed say so in one line before they start a program."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import needs
from harness.hostile.left_live_files import left
from harness.jvms.waiting_jvm import NOBODY
from harness.paths import ROOT
from harness.recordings.imported_profiles import SAMPLES
from harness.warm_command import warm
from offheap.cli.main import COMMANDS
from offheap.errors import UserError
from offheap.quantities import QuantityError, parse_positive_duration
from offheap.recording.storage.output import check_output
from offheap.recording.storage.output_name import free_name, refuse_other_format

OFFHEAP = (sys.executable, "-m", "offheap")


@pytest.fixture(autouse=True)
def _built(probe_library: Path) -> None:
    pass


def refused(*arguments: str | Path, folder: Path, **variables: str) -> str:
    """The one line of a command that starts no program: its program would create the file `started`."""
    outcome = warm(*map(str, arguments), cwd=folder, env={**os.environ, **variables})
    assert outcome.returncode == 2, outcome
    assert outcome.stdout == ""
    (line,) = outcome.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("options", "words"),
    [
        # /proc claims to be writable.
        (["-o", "/proc/a.offheap"], "/proc/a.offheap"),
        (["-o", "a" * 300], "File name too long"),
        (["-o", "file/a.offheap"], "file"),
        (["-o", "a.pdf"], "a recording is a directory, NAME.offheap"),
        (["-o", "a.html"], "`offheap report NAME.offheap -o NAME.html` then writes html, md, json or txt"),
        (["--duration", "0"], "'0' is not above 0 (write 30s, 1m30s)"),
        (["--duration", "0m0s"], "'0m0s' is not above 0"),
        (["--duration=-5"], "'-5' is negative"),
    ],
)
@pytest.mark.parametrize("command", ["run", "check"])
def test_nothing_is_started_for_an_output_that_cannot_be(
    command: str, options: list[str], words: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    line = refused(command, *options, "--", "touch", tmp_path / "started", folder=tmp_path)
    assert words in line
    assert os.listdir(tmp_path) == ["file"]


def test_nor_for_a_working_directory_that_cannot_be_written(tmp_path: Path) -> None:
    line = refused("run", "--", "touch", tmp_path / "started", folder=Path("/proc"))
    assert "touch-" in line
    assert not os.listdir(tmp_path)
    line = refused("check", "--junit", "/proc/x.xml", "--", "touch", tmp_path / "started", folder=tmp_path)
    assert "/proc/x.xml" in line
    assert "/proc/a.offheap" in refused("demo", "-o", "/proc/a.offheap", folder=tmp_path)
    assert not os.listdir(tmp_path)


def test_a_full_file_system_is_found_before_the_start(tmp_path: Path) -> None:
    for options in ("size=4k,nr_inodes=2", "ro"):
        needs.mounted(["mount", "-t", "tmpfs", "-o", options, "tmpfs", tmp_path])
        try:
            line = refused("run", "-o", tmp_path / "a.offheap", "--", "true", folder=Path("/"))
            assert re.search("No space left on device|Read-only file system", line)
            assert not os.listdir(tmp_path)
        finally:
            subprocess.run(["umount", tmp_path], check=True)


def test_a_file_system_that_fills_up_has_one_plain_line(tmp_path: Path) -> None:
    """GIVEN room for any share of a new recording THEN it is there as a whole, or not at all."""
    recording, small = tmp_path / "app.offheap", tmp_path / "small"
    assert warm("import", SAMPLES / "jemalloc.heap", "-o", recording).returncode == 0
    small.mkdir()
    lines = set()
    for kilobytes in range(16, 400, 16):
        needs.mounted(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", small])
        try:
            done = warm("anonymize", recording, "-o", small / "new.offheap")
            if done.returncode == 0:
                break
            assert not os.listdir(small)
            lines.add(done.stderr)
        finally:
            subprocess.run(["umount", small], check=True)
    else:
        pytest.fail("never enough room")
    said = f"cannot write {small}/new.offheap: No space left on device; choose another place with -o"
    assert f"offheap: {said}\n" in lines
    assert all(line.count("\n") == 1 and "{" not in line for line in lines)


def test_root_without_the_capability_is_not_told_to_be_root(tmp_path: Path) -> None:
    """GIVEN root in a container, by default without SYS_PTRACE, and a process of another user."""
    needs.root("to be two users")
    without = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", "--"]
    with subprocess.Popen([*NOBODY, "sleep", "60"]) as process:
        try:
            await_user(process.pid)
            done = subprocess.run(
                [*without, *OFFHEAP, "attach", str(process.pid)],
                capture_output=True,
                text=True,
                timeout=60,
                cwd=tmp_path,
            )
        finally:
            process.kill()
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.endswith("run offheap outside of its container, or add SYS_PTRACE to it"), line


def await_user(pid: int) -> None:
    """Until setpriv has changed the user."""
    deadline = time.monotonic() + 60
    while os.stat(f"/proc/{pid}").st_uid == os.getuid() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_what_was_tried_leaves_nothing_behind(tmp_path: Path) -> None:
    check_output(tmp_path / "a.offheap")
    check_output(tmp_path / "app-1.4")  # not a format's extension
    assert not os.listdir(tmp_path)
    (tmp_path / "a.offheap").mkdir()
    with pytest.raises(UserError, match=r"exists already; choose another name with -o$"):
        check_output(tmp_path / "a.offheap")  # not a recording: the message must not advise to remove it
    assert os.listdir(tmp_path) == ["a.offheap"]


@pytest.fixture(scope="module")
def recording(probe_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return left(probe_library, tmp_path_factory.mktemp("bad-starts"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report", "R", "-o", "a.pdf"], "name a file .html, .md, .json, .txt or .svg"),
        (["report", "R", "-o", "a.html", "--format", "md"], "a.html"),
        (["report", "R", "-o", "a.md", "--open"], "--open shows an HTML file"),
        (["report", "R", "-o", "-", "--open"], "--open shows an HTML file"),
        (["report", "/missing", "-o", "/proc/a.html"], "/proc/a.html"),  # fails before it reads
        (["diff", "R", "R", "-o", "a.md"], "a diff is written as HTML: name it .html"),
        (["diff", "/missing", "R", "-o", "/proc/a.html"], "/proc/a.html"),
        (["nmt", "1", "-o", "a.csv"], "a baseline is JSON: name it .json"),
        (["nmt", "1", "-o", "/proc/a.json"], "/proc/a.json"),
        (["live", "R", "-o", "/proc"], "/proc"),
        # Root could replace the device.
        (["export", "/missing", "--format", "csv", "-o", "/dev/null"], "/dev/null is not a regular file"),
        (["export", "/missing", "--format", "csv", "-o", "/proc"], "/proc is a directory"),
        (["check", "/missing", "--junit", "/dev/null"], "/dev/null is not a regular file"),
        (["where", "1", "--histogram", "0"], "'0' is not above 0"),
    ],
)
def test_reports_check_their_output_first(
    arguments: list[str], words: str, recording: Path, tmp_path: Path
) -> None:
    line = refused(*(str(recording) if word == "R" else word for word in arguments), folder=tmp_path)
    assert words in line
    assert not os.listdir(tmp_path)


def test_endings_that_name_no_format_are_names() -> None:
    for name in ("a.offheap", "app.v2", "shop-1.4", "shop.", ".hidden", "com.example.Shop"):
        refuse_other_format(Path(name), (".offheap",), "")
    with pytest.raises(UserError, match=r"A\.PDF ends in \.pdf, which this command does not write; mend"):
        refuse_other_format(Path("A.PDF"), (".offheap",), "mend")


def test_a_chosen_name_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert free_name("app-1") == Path("app-1.offheap")
    Path("app-1.offheap").mkdir()
    Path("app-1-2.offheap").symlink_to("nowhere")
    assert free_name("app-1") == Path("app-1-3.offheap")


def test_a_time_to_wait_is_above_zero() -> None:
    assert parse_positive_duration("1h30m") == 5400
    for text in ("0", "0s", "-5", "-5s", " - 5s", "0.0", "soon"):
        with pytest.raises(QuantityError):
            parse_positive_duration(text)


def test_a_python_that_is_not_there_is_named() -> None:
    needs.program("make")
    # A make below another make prints the folder that it enters.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    for target in ("help", "test"):
        command = ["make", "PYTHON=nonesuch", target]
        outcome = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=60, env=environment
        )
        assert outcome.returncode == 2
        assert "there is no program nonesuch" in outcome.stderr
        assert outcome.stdout == ""


def test_a_machine_without_a_python_is_told(tmp_path: Path) -> None:
    make = needs.program("make")
    shutil.copy(ROOT / "Makefile", tmp_path)
    outcome = subprocess.run(
        [make, ".venv/bin/python"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": str(tmp_path)},
    )
    assert outcome.returncode == 2
    assert "there is no program python3: install Python 3.10 or newer" in outcome.stderr
    assert os.listdir(tmp_path) == ["Makefile"]


def test_the_report_opens_in_the_browser(recording: Path, tmp_path: Path) -> None:
    """Even a browser that the command waits for, which runs for as long as the user reads."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho $$ "$@" > {tmp_path}/opened\nexec sleep 60\n')
    browser.chmod(0o755)
    began = time.monotonic()
    outcome = warm(
        "report",
        str(recording),
        "-o",
        "a page.html",
        "--open",
        cwd=tmp_path,
        env={**os.environ, "BROWSER": str(browser)},
    )
    pid, _, address = (tmp_path / "opened").read_text().partition(" ")
    os.kill(int(pid), 9)
    assert outcome.returncode == 0, outcome.stderr
    assert time.monotonic() - began < 40
    assert outcome.stdout.startswith("wrote a page.html (")
    assert address.strip() == f"file://{tmp_path}/a%20page.html"


def test_without_a_browser_the_path_is_said(recording: Path, tmp_path: Path) -> None:
    displays = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    bare = {name: value for name, value in os.environ.items() if name not in displays}
    for variables, why in (({}, "no display"), ({"BROWSER": "false"}, "no browser could be started")):
        outcome = warm(
            "report", str(recording), "-o", "a.html", "--open", cwd=tmp_path, env={**bare, **variables}
        )
        assert outcome.returncode == 0
        assert outcome.stdout.startswith("wrote a.html (")
        assert why in outcome.stderr
        assert f"open {tmp_path}/a.html yourself" in outcome.stderr


def test_every_command_can_be_asked_on_a_narrow_terminal() -> None:
    for name in ("help", *COMMANDS):
        arguments = [name] if name == "help" else [name, "--help"]
        outcome = warm(*arguments, env={**os.environ, "COLUMNS": "40"})
        assert outcome.returncode == 0
        lines = [line for line in outcome.stdout.splitlines() if len(line) > 40]
        # argparse keeps an option and its value together.
        assert [line for line in lines if " " in line.strip() and not line.strip().startswith("[")] == []
