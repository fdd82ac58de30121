"""Every obstacle to an attach: one line, status 2, the target unharmed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from harness import needs
from harness.command_line import offheap
from harness.jvms.java_homes import JRE_VERSIONS
from harness.jvms.waiting_jvm import NOBODY, waiting_jvm
from harness.paths import AGENTS
from harness.warm_command import warm
from offheap.errors import UserError
from offheap.jvm.listener import target
from offheap.jvm.listener.attach import AttachedVM
from offheap.probe import checkout, control, library
from offheap.proc import maps, status
from offheap.proc.images import executable

PAUSE = AGENTS / "pause.c"

pytestmark = pytest.mark.usefixtures("probe_library")


def refusal(tmp_path: Path, who: str | int, *wrapper: str, command: Sequence[str] = ("attach",)) -> str:
    """The line with which `offheap attach` refuses: only one, with status 2 and no output file."""
    output = tmp_path / "refused.offheap"
    arguments = [
        *command,
        str(who),
        *(("-o", str(output), "--duration", "1s") if command == ("attach",) else ()),
    ]
    if wrapper:
        as_user = [*wrapper, *offheap(*arguments)]
        outcome = subprocess.run(as_user, capture_output=True, text=True, timeout=120)
    else:
        outcome = warm(*arguments)
    assert outcome.returncode == 2, outcome.stderr + outcome.stdout
    assert outcome.stdout == ""
    assert outcome.stderr.startswith("offheap: ")
    assert outcome.stderr.count("\n") == 1, outcome.stderr
    assert not output.exists()
    return outcome.stderr


def test_no_such_process(tmp_path: Path) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert f"there is no process {process.pid}" in refusal(tmp_path, process.pid)
    assert "there is no process" in refusal(tmp_path, process.pid, command=("detach",))
    assert "no JVM has 'no.such.Main'" in refusal(tmp_path, "no.such.Main")


def test_not_a_jvm(tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        line = refusal(tmp_path, process.pid)
        assert f"PID {process.pid} (sleep) is not a JVM" in line
        assert "offheap run" in line
        # SIGQUIT ends this process.
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_a_zombie(tmp_path: Path) -> None:
    process = subprocess.Popen(["true"])
    while status.read(process.pid).alive:
        time.sleep(0.01)
    try:
        assert f"there is no process {process.pid}" in refusal(tmp_path, process.pid)
    finally:
        process.wait()


def test_attach_disabled(jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path) -> None:
    for version, options in ((11, ()), (25, ("-XX:-UsePerfData",))):
        with waiting_jvm(jre(version), waiting_classes, "-XX:+DisableAttachMechanism", *options) as jvm:
            line = refusal(tmp_path, jvm.pid)
            assert "-XX:+DisableAttachMechanism" in line
            assert "offheap run" in line
            # SIGQUIT makes this JVM print its threads.
            assert jvm.answers()
            assert jvm.stderr() == ""
    environment = {"JAVA_TOOL_OPTIONS": "-XX:+DisableAttachMechanism"}
    with waiting_jvm(jre(17), waiting_classes, "-XX:-UsePerfData", environment=environment) as jvm:
        assert "-XX:+DisableAttachMechanism" in refusal(tmp_path, jvm.pid)
        assert jvm.answers()


@pytest.mark.parametrize("version", JRE_VERSIONS)
def test_agents_disabled(
    version: int, jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    with waiting_jvm(jre(version), waiting_classes, "-XX:-EnableDynamicAgentLoading") as jvm:
        line = refusal(tmp_path, jvm.pid)
        assert "-XX:-EnableDynamicAgentLoading" in line
        assert "offheap run" in line
        assert not [m for m in maps.read(jvm.pid) if m.name == library.NAME]
        assert jvm.answers()


@pytest.mark.parametrize("version", [11, 25])
def test_a_jvm_without_a_handler_for_sigquit(
    version: int, jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    with waiting_jvm(jre(version), waiting_classes, "-Xrs") as jvm:
        assert not status.read(jvm.pid).catches(signal.SIGQUIT)
        # With -Xrs it listens from its start instead.
        assert f"JDK {version}." in AttachedVM(jvm.pid).jcmd("VM.version")
        Path(f"/tmp/.java_pid{jvm.pid}").unlink()
        line = refusal(tmp_path, jvm.pid)
        assert "no handler for SIGQUIT" in line
        assert jvm.answers()


def test_a_stopped_jvm(jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path) -> None:
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        os.kill(jvm.pid, signal.SIGSTOP)
        while status.read(jvm.pid).state != "T":
            time.sleep(0.01)
        assert f"kill -CONT {jvm.pid}" in refusal(tmp_path, jvm.pid)
        os.kill(jvm.pid, signal.SIGCONT)
        assert jvm.answers()
        # No SIGQUIT is pending.
        assert "Full thread dump" not in jvm.stderr()


def test_a_jvm_that_does_not_answer_in_time(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        vm = AttachedVM(jvm.pid, reply_seconds=0.5)
        assert "JDK 17." in vm.jcmd("VM.version")
        # A silent connection keeps the only listening thread busy.
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(f"/tmp/.java_pid{jvm.pid}")
            started = time.monotonic()
            with pytest.raises(UserError, match=r"no answer in 0\.5 s"):
                vm.jcmd("VM.version")
            assert time.monotonic() - started < 20
        assert "JDK 17." in AttachedVM(jvm.pid).jcmd("VM.version")


def test_another_users_jvm(
    jdk: Path, jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    needs.root("to be two users")
    needs.readable_by(NOBODY, sys.executable, "-c", "import offheap.probe.control")
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        line = refusal(Path("/var/tmp"), jvm.pid, *NOBODY)
        assert f"PID {jvm.pid} belongs to root" in line
        assert jvm.answers()


def test_another_architecture(tmp_path: Path) -> None:
    for architecture, what in (("x86", "32-bit"), ("x86_64", "musl")):
        program = tmp_path / architecture
        loader = tmp_path / "ld-musl-x86_64.so.1"
        compiler = (f"--target={architecture}-linux-musl", str(PAUSE))
        if architecture == "x86":
            _zig([*compiler, "-static", "-o", str(program)])
        else:
            # The kernel starts this program in place of musl's loader: its mapping is alike, and it sleeps.
            _zig([*compiler, "-static", "-o", str(loader)])
            dependency = tmp_path / "libpause.so"
            _zig([*compiler, "-shared", "-fPIC", "-o", str(dependency)])
            linked = [str(dependency), "-Wl,--no-as-needed", f"-Wl,--dynamic-linker={loader}"]
            _zig([*compiler, "-pie", *linked, "-o", str(program)])
        try:
            process = subprocess.Popen([program])
        except OSError as error:
            needs.skip(f"a kernel that runs a {what} program ({error})", "run on x86-64 with IA-32 emulation")
        try:
            time.sleep(0.1)
            assert process.poll() is None
            line = refusal(tmp_path, process.pid)
            assert what in line
            with pytest.raises(UserError, match=what):
                target.check_loadable(process.pid, executable.read(program), maps.read(process.pid))
            assert process.poll() is None
        finally:
            process.kill()
            process.wait()


def _zig(arguments: Sequence[str]) -> None:
    """Builds a program without a C library, so that no C library need be compiled for it."""
    with checkout.build_script()._zig_caches() as environment:
        subprocess.run(
            [sys.executable, "-m", "ziglang", "cc", "-nostdlib", "-O1", *arguments],
            check=True,
            capture_output=True,
            timeout=150,
            env=environment,
        )


def test_a_tmp_that_cannot_be_written(jdk: Path, waiting_classes: Path, tmp_path: Path) -> None:
    needs.namespaces("mount")
    classes = Path("/var/tmp") / waiting_classes.name
    shutil.copytree(waiting_classes, classes)
    wrapper = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o ro none /tmp && cd / && exec "$0" "$@"')
    try:
        with waiting_jvm(jdk / "bin" / "java", classes, wrapper=wrapper) as jvm:
            line = refusal(tmp_path, jvm.pid)
            assert "Read-only file system" in line
            assert jvm.answers()
    finally:
        shutil.rmtree(classes)


def test_an_output_that_exists(jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        outcome = subprocess.run(
            [sys.executable, "-m", "offheap", "attach", str(jvm.pid), "-o", str(tmp_path / "there")],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert outcome.returncode == 2
        assert "exists already" in outcome.stderr
        # The probe is not loaded.
        assert control.loaded(jvm.pid) is None


def test_detach_without_a_probe(jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path) -> None:
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        assert "has no probe" in refusal(tmp_path, jvm.pid, command=("detach",))
        assert jvm.answers()


def test_a_library_that_was_not_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("offheap.probe.checkout.refresh_probe", lambda: None)
    monkeypatch.setattr("offheap.__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(UserError, match=r"not built.*probe/build\.py"):
        library.probe_library()
