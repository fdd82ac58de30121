"""The command-line frame: help, errors, statuses, completion, and the commands that read a recording."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import needs
from harness.warm_command import warm
from offheap import __version__
from offheap.cli import main as cli
from offheap.errors import UserError

READING = ("leaks", "summary", "tree", "stats")


def offheap(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return warm(*map(str, arguments), env={**os.environ, "NO_COLOR": "1", **environment})


def one_line(outcome: subprocess.CompletedProcess[str]) -> str:
    """The only line of an error: status 2, nothing on stdout."""
    assert outcome.returncode == 2, outcome
    assert outcome.stdout == ""
    (line,) = outcome.stderr.splitlines()
    assert line.startswith("offheap")
    return line


def test_help_names_every_command() -> None:
    outcome = offheap("--help")
    assert outcome.returncode == 0
    for name, text in cli.COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(text)}$", outcome.stdout, re.MULTILINE)
    assert "examples:" in outcome.stdout
    assert max(map(len, outcome.stdout.splitlines())) <= 100


def test_no_command_shows_help_and_fails() -> None:
    outcome = offheap()
    assert outcome.returncode == 2
    assert outcome.stdout.startswith("usage: offheap")


def test_help_loads_nothing_heavy() -> None:
    outcome = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "offheap", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    modules = {line.rpartition("|")[2].strip() for line in outcome.stderr.splitlines()}
    assert "offheap.cli.main" in modules
    heavy = {
        "numpy",
        "duckdb",
        "rich",
        "textual",
        "symbolic",
        "cffi",
        "offheap.recording.model",
        "importlib.metadata",
        "subprocess",
    }
    assert not heavy & modules


def test_help_takes_little_more_than_the_interpreter() -> None:
    def seconds(*command: str) -> float:
        best = float("inf")
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *command], capture_output=True, timeout=60, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            best = min(best, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
        return best

    # getrusage counts microseconds; os.times counts ticks of 10 ms, and the bare interpreter may take none.
    # The least CPU time of five runs is compared with the bare interpreter's, so that load cancels out.
    assert seconds("-m", "offheap", "--help") < 5 * seconds("-c", "import argparse")


def test_version() -> None:
    assert offheap("--version").stdout == f"offheap {__version__}\n"


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    outcome = offheap(name, "--help")
    assert outcome.returncode == 0, outcome.stderr
    assert f"offheap {name}" in outcome.stdout
    assert "examples:" in outcome.stdout
    assert "\x1b" not in outcome.stdout
    headings = re.findall(r"^(\w.*):\n  ", outcome.stdout, re.MULTILINE)
    assert headings == [heading.lower() for heading in headings], "as in `offheap --help`"
    narrow = offheap(name, "--help", COLUMNS="80").stdout.splitlines()
    assert [line for line in narrow if len(line) > 80] == []


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["lekas"], "did you mean `offheap leaks`?"),
        (["sumary"], "did you mean `offheap summary`?"),
        (["frobnicate"], "see `offheap --help`"),
        (["--frobnicate"], "see `offheap --help`"),
        (["\x1b[31mred"], r"\x1b[31mred"),
        (["leaks"], "see `offheap leaks --help`"),
        (["leaks", "x", "--frob"], "see `offheap leaks --help`"),
        (["leaks", "x", "--top", "0"], "not a number of 1 or more"),
        (["tree", "x", "--least", "200%"], "not a share"),
        (["completion", "cmd.exe"], "see `offheap completion --help`"),
        (["leaks", "/no/such/recording"], "/no/such/recording does not exist"),
        # The probe would start without recording, and say so in its own words.
        (["run", "--interval", "17TiB", "--", "true"], "--interval is above 16.0 TiB"),
        (["run", "--memory", "17TiB", "--", "true"], "--memory is above 16.0 TiB"),
        (
            ["run", "--memory", "2MiB", "--", "true"],
            "2.0 MiB is too little: the probe needs 2.1 MiB",
        ),
        (["env", "--java-heap-interval", "2GiB"], "--java-heap-interval is above 1.0 GiB"),
        (["check", "x.offheap", "--duration", "5s"], "--duration is for recording a command"),
        (["check", "x.offheap", "--exact"], "--exact is for recording a command"),
        (["push", "x", "--otlp", "http://localhost:99999"], "is not the URL of a server"),
        (["push", "x", "--otlp", "http://[::1"], "is not the URL of a server"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], hint: str) -> None:
    assert hint in one_line(offheap(*arguments))


def test_a_pid_where_a_recording_is_expected_has_a_hint() -> None:
    line = one_line(offheap("leaks", os.getpid()))
    assert f"PID {os.getpid()} is a process: record it first, offheap attach {os.getpid()}" in line


def test_foreign_input_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("hello\n" * 1000)
    (tmp_path / "folder").mkdir()
    for name in ("empty", "text", "folder"):
        for command in READING:
            one_line(offheap(command, tmp_path / name))


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def dispatch(_: object) -> int:
        raise error

    monkeypatch.setattr(cli, "_dispatch", dispatch)


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (UserError("it is broken", "mend it"), 2, "offheap: it is broken; mend it\n"),
        (UserError("two\nlines\x1b"), 2, "offheap: two\\x0alines\\x1b\n"),
        (PermissionError(13, "Permission denied", "/x"), 2, "offheap: /x: Permission denied\n"),
        (KeyboardInterrupt(), 130, ""),
        (ZeroDivisionError("oops"), 70, "offheap: internal error: ZeroDivisionError: oops; "),
    ],
)
def test_errors_have_their_status(
    error: BaseException,
    status: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("OFFHEAP_DEBUG", raising=False)
    fail_with(monkeypatch, error)
    assert cli.main([]) == status
    complaint = capsys.readouterr().err
    assert complaint == line or (status == 70 and complaint.startswith(line))
    assert "Traceback" not in complaint


@pytest.mark.parametrize(("closed", "shown"), [("<&-", True), ("2>&-", True), (">&-", False)])
def test_closed_standard_streams_are_no_defect(closed: str, shown: bool, recording: Path) -> None:
    """GIVEN a caller that closed standard streams, as some daemons do THEN the command works without them."""
    command = shlex.join([sys.executable, "-m", "offheap", "leaks", str(recording)])
    done = subprocess.run(["sh", "-c", f"{command} {closed}"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr, bool(done.stdout)) == (0, "", shown)


def test_a_defect_shows_its_traceback_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFHEAP_DEBUG", "1")
    fail_with(monkeypatch, ZeroDivisionError("oops"))
    with pytest.raises(ZeroDivisionError):
        cli.main([])


def test_a_reader_that_goes_away_is_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "offheap", "completion", "zsh"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        complaint = process.stderr.read()
    assert process.returncode == 141
    assert complaint == b""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_valid(shell: str, tmp_path: Path) -> None:
    outcome = offheap("completion", shell)
    assert outcome.returncode == 0
    for name in cli.COMMANDS:
        assert name in outcome.stdout
    assert "--threads" in outcome.stdout or "threads" in outcome.stdout
    needs.program(shell, "which checks its own script")
    script = tmp_path / "script"
    script.write_text(outcome.stdout)
    subprocess.run([shell, "-n", script], check=True, timeout=60)


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    needs.program("bash")
    script = tmp_path / "script"
    script.write_text(offheap("completion", "bash").stdout)

    def complete(*words: str) -> list[str]:
        program = (
            f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
            "_shtab_offheap; printf '%s\\n' \"${COMPREPLY[@]}\""
        )
        done = subprocess.run(
            ["bash", "--norc", "-O", "extglob", "-c", program], capture_output=True, text=True, timeout=60
        )
        return done.stdout.split()

    assert "leaks" in complete("offheap", "le")
    assert "--threads" in complete("offheap", "leaks", "--t")


@pytest.fixture(scope="module")
def recording(probe_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A live file of a real program that has ended: the allocations of a Python interpreter."""
    folder = tmp_path_factory.mktemp("cli")
    program = (
        "import time\nkept = []\nfor _ in range(60):\n kept.append(bytearray(300_000)); time.sleep(0.02)\n"
    )
    subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "LD_PRELOAD": str(probe_library), "OFFHEAP": f"exact,dir={folder}"},
        check=True,
        timeout=60,
    )
    (live_file,) = folder.glob("*.live")
    return live_file


@pytest.mark.parametrize("command", READING)
def test_a_live_file_is_read_by_every_command(command: str, recording: Path) -> None:
    text = offheap(command, recording)
    assert text.returncode == 0, text.stderr
    assert "\x1b" not in text.stdout
    assert "every block" in text.stdout
    value = json.loads(offheap(command, recording, "--json").stdout)
    assert value["schema"] == f"offheap.{command}/1"
    assert value["recording"]["mode"] == "exact"


def test_color_is_for_terminals_only(recording: Path) -> None:
    assert "\x1b" not in offheap("leaks", recording, "--all", NO_COLOR="").stdout
    assert "\x1b[" in offheap("leaks", recording, "--all", NO_COLOR="", FORCE_COLOR="1", TERM="xterm").stdout


def test_reading_is_not_slow(recording: Path) -> None:
    start = time.process_time()
    assert cli.main(["stats", str(recording)]) == 0
    assert time.process_time() - start < 5
