"""The installations that `make test-pythons` and `make test-jdks` find."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from harness import needs
from harness.installs import sid, trials
from harness.paths import ROOT


def test_this_python_is_found_once_with_its_version() -> None:
    found = trials.pythons()
    minors = [python.version[:2] for python in found]
    assert sys.version_info[:2] in minors
    assert minors == sorted(set(minors))
    assert min(minors) >= trials.OLDEST


def test_sid_says_why_it_cannot_be_entered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sid, "FOLDER", tmp_path)
    assert "make sid" in sid.reason_against()
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "usr" / "bin" / "python3").touch()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "root" in sid.reason_against()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert sid.reason_against() == ""


@needs.unless(not sid.reason_against(), "a Debian sid in .sid", "make sid as root")
def test_nothing_of_a_command_in_sid_survives_it() -> None:
    before = Path("/proc/mounts").read_text()
    script = (
        "ls /proc/self/fd >/dev/null; touch /dev/shm/there /tmp/there; unshare -m true; echo $$; sleep 60 &"
    )
    done = subprocess.run(sid.command("sh", "-c", script), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 100  # a PID namespace of its own
    assert Path("/proc/mounts").read_text() == before
    assert not (sid.FOLDER / "tmp" / "there").exists()
    assert not Path("/dev/shm/there").exists()
    # This machine's certificates are read-only there.
    spoiled = subprocess.run(
        sid.command("touch", "/etc/ssl/certs/there"), capture_output=True, text=True, timeout=60
    )
    assert "Read-only file system" in spoiled.stderr
    assert not Path("/etc/ssl/certs/there").exists()


def test_the_table_says_what_did_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    ran = trials.Row("CPython 3.11.2", "newest: numpy 2.4.1", passed=12, seconds=31.4)
    assert trials._table([ran], ["CPython 3.14: make sid as root"]) == 0
    assert capsys.readouterr().out == (
        "\nwhat ran\n"
        "  CPython 3.11.2  12 checks passed, 31 s  newest: numpy 2.4.1\n"
        "what did not\n"
        "  CPython 3.14: make sid as root\n"
    )
    failed = trials.Row("JDK 26", "", failed={"nmt": "no answer"}, passed=11)
    assert trials._table([ran, failed], []) == 1
    told = capsys.readouterr().out
    assert "  JDK 26          FAILED: nmt, 0 s\n" in told
    assert "what did not" not in told


def test_nothing_that_ran_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert trials._table([], ["JDK 26: not in .jres"]) == 1
    assert "what did not\n  JDK 26: not in .jres\n" in capsys.readouterr().out


@pytest.mark.parametrize("status", [0, 1])
def test_ci_runs_the_tests_and_then_the_pythons(status: int, tmp_path: Path) -> None:
    """A failed part is the outcome of the whole, and the last part shows what is not here."""
    said, make = tmp_path / "said", tmp_path / "make"
    make.write_text(f'#!/bin/sh\necho "$PWD: $*" >>"{said}"\nexit {status}\n')
    make.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run([ROOT / ".ci" / "run"], cwd=tmp_path, env={**os.environ, "PATH": path}, timeout=60)
    assert done.returncode == status
    parts = ["--no-print-directory test", "--no-print-directory test-pythons PYTHONS_ARGS=--short"]
    assert said.read_text().splitlines() == [f"{ROOT}: {part}" for part in parts[: 2 - status]]


def collected(homes: str, *options: str) -> subprocess.CompletedProcess[str]:
    words = ["-q", "--collect-only", *options, "tests/jvm/outside/test_discovery.py"]
    command = [sys.executable, "-m", "pytest", *words]
    environment = {**os.environ, "OFFHEAP_JDKS": homes}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT, env=environment)


def test_a_jdk_is_added_by_the_environment(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(mode=0o755)
    (tmp_path / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="99.0.1"\n')
    listed = collected(str(tmp_path), "--jdk", "99").stdout
    assert re.findall(r"::(\S+)", listed) == ["test_a_jvm_is_listed[99]"]
    assert "test_a_jvm_is_listed[25]" in collected(str(tmp_path)).stdout


def test_an_added_jdk_must_be_one(tmp_path: Path) -> None:
    done = collected(str(tmp_path))
    assert done.returncode
    assert f"OFFHEAP_JDKS: {tmp_path} is no home of a JDK" in done.stdout + done.stderr


def test_the_readme_states_what_is_tried() -> None:
    text = " ".join((ROOT / "README.md").read_text().split())
    *most, last = trials.RELEASED_JDKS
    assert f"tested on {', '.join(map(str, most))} and {last}." in text
    oldest, newest = (".".join(map(str, version)) for version in (trials.OLDEST, trials.NEWEST))
    assert f"tested on {oldest} to {newest}, with the newest and the oldest dependencies allowed" in text


def dependencies() -> str:
    text = (ROOT / "pyproject.toml").read_text()
    (needed,) = re.findall(r"^dependencies = \[(.*?)^\]", text, re.M | re.S)
    return str(needed)


def test_files_and_lines_need_no_extra() -> None:
    """`symbolic` is unconditional: without it most C++ frames are unnamed or merged."""
    assert re.search(r'^\s*"symbolic>=[\d.]+",$', dependencies(), re.M)


def test_every_dependency_has_a_lower_bound() -> None:
    text, needed = (ROOT / "pyproject.toml").read_text(), dependencies()
    (tested,) = re.findall(r"^test = \[(.*?)^\]", text, re.M | re.S)
    words = re.findall(r'^\s*"([^"]+)"', needed + tested, re.M)
    assert len(words) > 15
    assert [word for word in words if ">=" not in word and not word.startswith("offheap[")] == []


def test_a_warning_fails_a_test_and_the_offheap_that_it_starts() -> None:
    """numpy and Python warn one release before they refuse a call."""
    with pytest.raises(DeprecationWarning):
        warnings.warn("will be refused", DeprecationWarning, stacklevel=1)
    program = "import warnings; warnings.warn('will be refused', DeprecationWarning)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "DeprecationWarning: will be refused" in done.stderr
    assert done.returncode == 1
