"""Ends of a recording that an attach began: of the JVM, of the recorder, by a signal, at any moment."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.command_line import offheap, run_offheap
from harness.jvms.waiting_jvm import waiting_jvm
from harness.waiting import wait_until
from offheap import recording
from offheap.errors import UserError
from offheap.jvm.listener.attach import AttachedVM
from offheap.probe import control

pytestmark = pytest.mark.usefixtures("probe_library")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_recording_and_takes_the_probe_out(
    number: signal.Signals, jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    output = tmp_path / "signalled.offheap"
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        recorder = subprocess.Popen(
            offheap("attach", str(jvm.pid), "-o", output), stdout=subprocess.PIPE, text=True
        )
        wait_until(lambda: list(output.glob("*.json")))
        recorder.send_signal(number)
        told, _ = recorder.communicate(timeout=60)
        assert recorder.returncode == 0
        assert "the probe is stopped" in told
        assert recording.load(output).info.ended == "detached"
        left = control.loaded(jvm.pid)
        assert left
        assert left.live_file is None
        assert jvm.answers()


def test_a_killed_recorder_is_followed_by_the_next(
    jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    output = tmp_path / "killed.offheap"
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        recorder = subprocess.Popen(offheap("attach", str(jvm.pid), "-o", output))
        wait_until(lambda: list(output.glob("*.json")))
        # A second recorder is refused while the first one lives.
        refused = run_offheap("attach", jvm.pid, "-o", tmp_path / "second.offheap", expect=2)
        assert (
            f"PID {jvm.pid} is already being recorded by another offheap (PID {recorder.pid})"
            in refused.stderr
        )
        recorder.kill()
        recorder.wait()
        present = control.loaded(jvm.pid)
        assert present
        assert present.live_file
        told = run_offheap("attach", jvm.pid, "--duration", "200ms", "-o", tmp_path / "next.offheap")
        assert "left recording by an earlier attach" in told.stderr
        assert "the probe is stopped" in told.stdout
        # Both recordings have the same start.
        first, second = (recording.load(tmp_path / f"{name}.offheap").info for name in ("killed", "next"))
        assert first.start == pytest.approx(second.start, abs=0.01)
        assert not present.live_file.exists()


@pytest.mark.parametrize(("number", "how"), [(signal.SIGTERM, "exited"), (signal.SIGKILL, "killed")])
def test_a_jvm_that_ends_while_it_is_recorded(
    number: signal.Signals, how: str, jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    output = tmp_path / f"{how}.offheap"
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        recorder = subprocess.Popen(
            offheap("attach", str(jvm.pid), "-o", output),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: list(output.glob("*.json")))
        jvm.process.send_signal(number)
        _, complaint = recorder.communicate(timeout=60)
        assert recorder.returncode == 0, complaint
        assert complaint == ""
    assert recording.load(output).info.ended == how
    assert not list(Path("/dev/shm").glob(f"offheap-{jvm.pid}-*"))


def killed_as_the_probe_begins(java: Path, classes: Path) -> bool:
    """Whether the JVM died before the probe answered; no file may remain then."""
    with waiting_jvm(java, classes) as jvm, ThreadPoolExecutor(1) as pool:
        files = f"offheap-{jvm.pid}-*.live"

        def kill_when_it_has_begun() -> None:
            while not list(Path("/dev/shm").glob(files)):
                pass
            jvm.process.kill()

        killing = pool.submit(kill_when_it_has_begun)
        try:
            started = control.start(jvm.pid, "interval=4096")
        except UserError as error:
            if "ended while offheap was" not in str(error):
                raise
            killing.result(10)
            assert not list(Path("/dev/shm").glob(files))
            return True
        killing.result(10)
        started.live_file.unlink()
        return False


def test_a_jvm_that_is_killed_as_the_probe_begins_leaves_nothing(jdk: Path, waiting_classes: Path) -> None:
    # On a busy machine the answer may come before the kill.
    assert any(killed_as_the_probe_begins(jdk / "bin" / "java", waiting_classes) for _ in range(20))


def test_a_jvm_that_is_killed_once_the_probe_has_answered(
    jdk: Path, waiting_classes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that it wrote is found by offheap's name for it."""
    asked = control.ask

    with waiting_jvm(jdk / "bin" / "java", waiting_classes) as jvm:

        def ask_and_kill(vm: AttachedVM, path: str, request: str) -> int:
            code = asked(vm, path, request)
            jvm.process.kill()
            jvm.process.wait()
            return code

        monkeypatch.setattr(control, "ask", ask_and_kill)
        started = control.start(jvm.pid, "interval=4096")
        assert started.live_file.parent == Path("/dev/shm")
        assert recording.load(started.live_file).info.pid == jvm.pid
        started.live_file.unlink()


def test_a_jvm_that_ends_during_the_start(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    # For every moment of the JVM's death, the caller gets one sentence.
    for delay in (0.0, 0.01, 0.03):
        with waiting_jvm(jre(17), waiting_classes) as jvm:
            killer = subprocess.Popen(["sh", "-c", f"sleep {delay}; kill -9 {jvm.pid}"])
            with pytest.raises(UserError, match=str(jvm.pid)):  # noqa: PT012
                control.start(jvm.pid)
                killer.wait()
                jvm.process.wait()
                control.detach(jvm.pid)
            killer.wait()
            for left in Path("/dev/shm").glob(f"offheap-{jvm.pid}-*"):
                left.unlink()
