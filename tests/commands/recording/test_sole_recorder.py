"""One recorder at a time: which process records, with which options, and which command ended a recording."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.command_line import offheap, run_offheap
from harness.hostile.left_live_files import writing
from harness.jvms.waiting_jvm import waiting_jvm
from offheap import recording
from offheap.errors import UserError
from offheap.probe import control
from offheap.probe.live_files.live_file import LiveFile
from offheap.probe.sampling import Sampling, running
from offheap.probe.sole_recorder import recorder_of, sole_recorder

pytestmark = pytest.mark.usefixtures("probe_library")


def recorder(output: Path, *arguments: object) -> subprocess.Popen[str]:
    """Starts a command that records, and waits until it records."""
    process = subprocess.Popen(
        offheap(*map(str, arguments), "-o", output)
        if arguments[0] == "attach"
        else offheap("run", "-o", output, "--", *map(str, arguments[1:])),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not list(output.glob("*.json")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    return process


def refused(pid: int, output: Path, *options: str) -> str:
    outcome = run_offheap("attach", pid, "--duration", "1s", "-o", output, *options, expect=2)
    assert outcome.stdout == ""
    assert not output.exists()
    (line,) = outcome.stderr.splitlines()
    return line


def test_an_attach_beside_another_and_a_detach_from_elsewhere(
    jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    first = tmp_path / "first.offheap"
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        other = recorder(first, "attach", jvm.pid, "--json")
        line = refused(jvm.pid, tmp_path / "second.offheap", "--exact")
        assert line.startswith(
            f"offheap: PID {jvm.pid} is already being recorded by another offheap (PID {other.pid}); "
        )
        stopped = json.loads(run_offheap("detach", jvm.pid, "--json").stdout)
        told, _ = other.communicate(timeout=60)
        assert other.returncode == 0
        assert (stopped["recorder_pid"], stopped["live_file"]) == (other.pid, None)
        result = json.loads(told)
        assert (result["ended"], result["cut_short"]) == ("detached", True)
        assert recording.load(first).info.ended == "detached"
        # The same in text.
        other = recorder(tmp_path / "third.offheap", "attach", jvm.pid)
        said = run_offheap("detach", jvm.pid).stdout
        assert f"the recording by PID {other.pid} ends here and is kept" in said
        assert "offheap leaks" not in said, "the live file goes with its recorder"
        told, _ = other.communicate(timeout=60)
        assert "another command stopped the probe (offheap detach)" in told
        assert f"offheap leaks {tmp_path / 'third.offheap'}" in told
        assert jvm.answers()


def test_options_that_differ_from_the_running_recording(
    jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        kept = ("--keep", "--duration", "0.2s", "-o")
        run_offheap("attach", jvm.pid, "--budget", "2%", *kept, tmp_path / "a.offheap")
        for option in (["--exact"], ["--interval", "512k"], ["--budget", "1%"]):
            line = refused(jvm.pid, tmp_path / "no.offheap", *option)
            assert f"PID {jvm.pid} is being recorded with --budget 2% --interval 32KiB, not with --" in line
            assert line.endswith(f"end what is recorded now: offheap detach {jvm.pid}")
        present = control.loaded(jvm.pid)
        assert present
        assert present.live_file, "it goes on"
        # Equal options, and no options, join the recording.
        run_offheap("attach", jvm.pid, "--budget", "2%", *kept, tmp_path / "b.offheap")
        told = run_offheap("attach", jvm.pid, "--duration", "0.2s", "-o", tmp_path / "c.offheap")
        assert "left recording by an earlier attach" in told.stderr


def test_beside_a_run(jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path) -> None:
    output = tmp_path / "run.offheap"
    run = recorder(output, "run", jre(17), "-cp", waiting_classes, "Waiting")
    try:
        pid = recording.load(output).info.pid
        assert f"PID {pid} is already being recorded by another offheap (PID {run.pid})" in refused(
            pid, tmp_path / "no.offheap"
        )
        assert f"the recording by PID {run.pid} ends here" in run_offheap("detach", pid).stdout
    finally:
        told, _ = run.communicate(timeout=60)  # end of input ends the program
    assert run.returncode == 0
    assert (
        f"another command stopped the probe in PID {pid} (offheap detach): the recording ends there" in told
    )
    assert recording.load(output).info.ended == "detached"


def test_what_is_sampled_is_read_from_the_live_file(probe_library: Path, tmp_path: Path) -> None:
    for mode, asked in (
        ("exact", Sampling(exact=True)),
        ("interval=65536", Sampling(65536)),
        ("budget=2%", Sampling(32768, 0.02)),
        ("budget=0.5%,interval=1MiB", Sampling(1 << 20, 0.005)),
    ):
        folder = tmp_path / mode.replace(",", "-")
        folder.mkdir()
        with writing(probe_library, folder, mode) as (pid, live_file):
            with LiveFile(live_file) as source:
                assert running(source.header) == asked
            assert recorder_of(live_file) is None
            with (
                sole_recorder(live_file, pid, asked),
                pytest.raises(UserError, match="by another offheap"),
                sole_recorder(live_file, pid),
            ):
                pass
            with (
                pytest.raises(UserError, match="is being recorded with"),
                sole_recorder(live_file, pid, Sampling(4096)),
            ):
                pass


@pytest.mark.parametrize(
    ("asked", "now", "fits"),
    [
        (Sampling(), Sampling(exact=True), True),
        (Sampling(), Sampling(32768, 0.01), True),
        (Sampling(exact=True), Sampling(exact=True), True),
        (Sampling(exact=True), Sampling(4096), False),
        (Sampling(4096), Sampling(exact=True), False),
        (Sampling(4096), Sampling(4096), True),
        (Sampling(4096), Sampling(4096, 0.01), False),  # --interval alone means a fixed interval
        (Sampling(4096, 0.01), Sampling(4096, 0.01), True),
        (Sampling(None, 0.01), Sampling(32768, 0.01), True),
        (Sampling(None, 0.01), Sampling(32768, 0.02), False),
        (Sampling(None, 0.01), Sampling(32768), False),
        (Sampling(), Sampling(32768, 0.01, java_heap=True, java_interval=65536), True),
        (Sampling(java_heap=True), Sampling(32768, 0.01), False),
        (Sampling(java_heap=True), Sampling(exact=True), False),
        (Sampling(java_heap=True), Sampling(exact=True, java_heap=True, java_interval=65536), True),
        (Sampling(java_heap=True), Sampling(32768, 0.01, java_heap=True), True),  # no sampler: it says so
        (Sampling(exact=True, java_heap=True), Sampling(32768, 0.01, java_heap=True), False),
        (
            Sampling(java_heap=True, java_interval=4096),
            Sampling(4096, java_heap=True, java_interval=65536),
            False,
        ),
        (
            Sampling(java_heap=True, java_interval=4096),
            Sampling(65536, java_heap=True, java_interval=4096),
            True,
        ),
    ],
)
def test_which_options_fit(asked: Sampling, now: Sampling, fits: bool) -> None:
    assert asked.fits(now) is fits


def test_options_are_shown_as_they_are_given() -> None:
    assert str(Sampling(512 << 10, 0.005)) == "--budget 0.5% --interval 512KiB"
    assert str(Sampling(1000)) == "--interval 1000"
    assert str(Sampling(exact=True)) == "--exact"
    assert str(Sampling(exact=True, java_heap=True)) == "--exact --java-heap"
    assert str(Sampling(None, 0.01, java_heap=True, java_interval=4096)) == (
        "--budget 1% --java-heap-interval 4KiB"
    )
