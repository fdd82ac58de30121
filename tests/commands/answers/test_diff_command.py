"""`offheap diff` of two programs on real JVMs: text, JSON, colours, wrong use."""

from __future__ import annotations

import json as standard_json
import os
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness import needs
from harness.command_line import offheap
from harness.jvms.zoo import Running, Zoo, programs
from harness.waiting import wait_until
from harness.warm_command import warm
from offheap.errors import UserError
from offheap.recording import load


@pytest.fixture(scope="module")
def recorded(
    jres: dict[int, Path], zoo: Zoo, probe_library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """leak.offheap and churn.offheap: two programs of the zoo, until enough of each is recorded."""
    needs.jre(17, 17 in jres)
    folder = tmp_path_factory.mktemp("diff")
    with ExitStack() as stack:
        running = {
            folder / f"{name}.offheap": stack.enter_context(
                Running(
                    offheap(
                        *("run", "--interval", "64KiB", "--every", "0.2s"),
                        *("-o", folder / f"{name}.offheap", "--"),
                        *zoo.command(programs()[program], jres[17], rate=200),
                    )
                )
            )
            for name, program in (("leak", "inflaters"), ("churn", "churn"))
        }
        wait_until(lambda: all(map(_long_enough, running)), seconds=120, pause=0.5)
        for each in running.values():
            assert each.exit() == 0, each.errors
    return folder


def _early_and_late(recording: Path) -> tuple[float, float]:
    """The times of two snapshots.  They are not fixed: a busy machine takes its first snapshots late."""
    times = load(recording).process["time"].tolist()
    return times[len(times) // 3], times[-2]


def _long_enough(recording: Path) -> bool:
    """Whether the leak (1.4 MiB/s) outgrows the JVM's own allocation and frees between the two times."""
    try:
        early, late = _early_and_late(recording)
    except (UserError, IndexError):
        return False
    return late - early > 3


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def command(recorded: Path) -> Run:
    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return warm("diff", *arguments, cwd=recorded, env={**os.environ, **variables})

    return run


def test_two_real_programs(command: Run) -> None:
    done = command("churn.offheap", "leak.offheap", "--json")
    assert done.returncode == 0, done.stderr
    first = standard_json.loads(done.stdout)["sites"][0]
    assert first["change"] == "new"
    assert first["significant"]
    names = [frame["name"] for frame in first["stack"]]
    assert "inflateInit2_" in names
    assert first["blamed"]["name"] == "leaks.Inflaters.openInflater"
    text = command("churn.offheap", "leak.offheap").stdout
    assert "java.util.zip.Inflater.<init>, called by leaks.Inflaters.openInflater" in text
    assert "\x1b" not in text


def test_one_real_program_at_two_times(command: Run, recorded: Path) -> None:
    early, late = _early_and_late(recorded / "leak.offheap")
    done = command(
        *("leak.offheap", "--from", f"{early + 0.01:.3f}s", "--to", f"{late + 0.01:.3f}s"),
        *("--per", "second", "--json"),
    )
    assert done.returncode == 0, done.stderr
    value = standard_json.loads(done.stdout)
    first = value["sites"][0]
    assert first["blamed"]["name"] == "leaks.Inflaters.openInflater"
    assert first["change"] in ("grown", "new")
    assert value["old"]["time"] == pytest.approx(early, abs=0.02)
    assert value["new"]["time"] == pytest.approx(late, abs=0.02)


def test_colours_are_for_terminals_that_want_them(command: Run) -> None:
    forced = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    assert "\x1b[1;31mNEW" in command("churn.offheap", "leak.offheap", **forced).stdout
    assert "\x1b[1;31m" not in command("churn.offheap", "leak.offheap", NO_COLOR="1", **forced).stdout


@pytest.mark.parametrize(
    ("arguments", "mend"),
    [
        (["leak.offheap"], "--from TIME"),
        (["leak.offheap", "churn.offheap", "--from", "1s"], "leave NEW out"),
        (["leak.offheap", "--from", "3s", "--to", "1s"], "the earlier one first"),
        (["leak.offheap", "--from", "1h"], "within it"),
        (["leak.offheap", "--from", "2s", "--per", "10,20"], "--per second"),
        (["leak.offheap", "churn.offheap", "--per", "0,1"], "two numbers above zero"),
        (["leak.offheap", "churn.offheap", "--per", "minute"], "neither `second`"),
        (["leak.offheap", "nothing.offheap"], "nothing.offheap"),
    ],
)
def test_bad_input(command: Run, arguments: list[str], mend: str) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert mend in done.stderr
    assert len(done.stderr.splitlines()) == 1
