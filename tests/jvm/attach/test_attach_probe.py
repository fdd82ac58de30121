"""`offheap attach` and `detach` with the real probe: in, out, in again, and after a recorder's death."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import needs
from harness.jvms.java_homes import JRE_VERSIONS
from harness.jvms.waiting_jvm import NOBODY, read_line, waiting_jvm
from harness.paths import ROOT
from offheap import recording
from offheap.errors import UserError
from offheap.inspect import discovery
from offheap.jvm.listener.attach import AttachedVM
from offheap.jvm.listener.attach_listener import TargetGone
from offheap.probe import control, library, options
from offheap.proc import maps, status

OFFHEAP = (sys.executable, "-m", "offheap")

pytestmark = pytest.mark.usefixtures("probe_library")


def offheap(*arguments: str | Path | int, expect: int = 0) -> subprocess.CompletedProcess[str]:
    outcome = subprocess.run(
        [*OFFHEAP, *map(str, arguments)], capture_output=True, text=True, timeout=120, env=quiet_environment()
    )
    assert outcome.returncode == expect, outcome.stderr + outcome.stdout
    return outcome


def quiet_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "OFFHEAP")}


def wait_until(what: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@pytest.mark.parametrize("version", JRE_VERSIONS)
def test_attach_records_and_leaves(
    version: int, jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    with waiting_jvm(jre(version), waiting_classes) as jvm:
        for turn in ("first", "again"):
            output = tmp_path / f"{turn}.offheap"
            told = offheap("attach", jvm.pid, "--duration", "0.5s", "--interval", "4k", "-o", output)
            assert "the probe is stopped" in told.stdout
            assert f"offheap leaks {output}" in told.stdout
            found = recording.load(output)
            assert found.info.pid == jvm.pid
            assert found.info.ended == "detached"
            assert found.info.entry == "attach"
            assert found.info.interval_bytes == 4096
            assert found.info.java_version.split(".")[0] == str(version)
            assert jvm.answers()
            # The probe is idle; one copy is loaded after any number of attaches, and no live file remains.
            left = control.loaded(jvm.pid)
            assert left
            assert left.libraries == (str(library.probe_library()),)
            assert left.live_file is None
        assert not list(Path("/dev/shm").glob(f"offheap-{jvm.pid}-*"))
        jvm_listed = discovery.find(jvm.pid)
        assert jvm_listed
        assert jvm_listed.recorded == "idle"
        assert "is stopped" in offheap("detach", jvm.pid, expect=2).stderr


def test_keep_leaves_it_recording_until_detach(
    jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    with waiting_jvm(jre(17), waiting_classes, main="Attached") as jvm:
        told = offheap(
            "attach", "Attached", "--keep", "--exact", "--duration", "200ms", "-o", tmp_path / "a.offheap"
        )
        assert "the probe still records" in told.stdout
        listed = discovery.find(jvm.pid)
        assert listed
        assert listed.recorded == "recording"
        assert Path(listed.live_file).is_file()
        # Another attach joins the running recording, and says so.
        told = offheap("attach", jvm.pid, "--keep", "--duration", "200ms", "-o", tmp_path / "b.offheap")
        assert "left recording by an earlier attach" in told.stderr
        assert recording.load(tmp_path / "b.offheap").info.mode == "exact"
        result = json.loads(offheap("detach", "Attached", "--json").stdout)
        assert result["schema"] == "offheap.detach/1"
        assert result["probe"] == "stopped"
        try:
            assert recording.load(Path(result["live_file"])).info.ended == "detached"
        finally:
            Path(result["live_file"]).unlink()
        assert jvm.answers()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_recording_and_takes_the_probe_out(
    number: signal.Signals, jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    output = tmp_path / "signalled.offheap"
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        recorder = subprocess.Popen(
            [*OFFHEAP, "attach", str(jvm.pid), "-o", str(output)], stdout=subprocess.PIPE, text=True
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
        recorder = subprocess.Popen([*OFFHEAP, "attach", str(jvm.pid), "-o", str(output)])
        wait_until(lambda: list(output.glob("*.json")))
        # A second recorder is refused while the first one lives.
        refused = offheap("attach", jvm.pid, "-o", tmp_path / "second.offheap", expect=2)
        assert (
            f"PID {jvm.pid} is already being recorded by another offheap (PID {recorder.pid})"
            in refused.stderr
        )
        recorder.kill()
        recorder.wait()
        present = control.loaded(jvm.pid)
        assert present
        assert present.live_file
        told = offheap("attach", jvm.pid, "--duration", "200ms", "-o", tmp_path / "next.offheap")
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
            [*OFFHEAP, "attach", str(jvm.pid), "-o", str(output)],
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


def test_a_preloaded_probe_is_recorded_and_stays(
    jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    environment = {"LD_PRELOAD": str(library.probe_library()), "OFFHEAP": f"dir={tmp_path}"}
    with waiting_jvm(jre(17), waiting_classes, environment=environment) as jvm:
        present = control.loaded(jvm.pid)
        assert present
        assert present.preloaded
        assert present.live_file
        assert present.live_file.parent == tmp_path
        told = offheap("attach", jvm.pid, "--duration", "200ms", "-o", tmp_path / "a.offheap")
        assert "has had the probe since it started" in told.stderr
        assert "the probe still records" in told.stdout
        assert recording.load(tmp_path / "a.offheap").info.entry == "preload"
        # A stopped probe stays loaded and idle; an attach starts it again and loads no second copy.
        assert json.loads(offheap("detach", jvm.pid, "--json").stdout)["probe"] == "idle"
        told = offheap("attach", jvm.pid, "--json", "--duration", "200ms", "-o", tmp_path / "b.offheap")
        result = json.loads(told.stdout)
        assert (result["schema"], result["pid"]) == ("offheap.attach/1", jvm.pid)
        assert (result["probe"], result["ended"]) == ("started", "detached")
        assert recording.load(Path(result["recording"])).info.pid == jvm.pid
        present = control.loaded(jvm.pid)
        assert present
        assert len(present.libraries) == 1
        assert present.live_file is None
        assert jvm.answers()


def test_another_users_jvm_gets_a_copy_it_can_read(
    jdk: Path, waiting_classes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs.root("to start a JVM as another user")
    hidden = tmp_path / "hidden" / library.NAME
    hidden.parent.mkdir(mode=0o700)
    shutil.copy(library.probe_library(), hidden)
    monkeypatch.setattr(library, "probe_library", lambda: hidden)
    with waiting_jvm(jdk / "bin" / "java", waiting_classes, wrapper=NOBODY) as jvm:
        for _ in range(2):
            started = control.start(jvm.pid, "interval=4096")
            assert started.live_file.stat().st_uid == 65534
            present = control.loaded(jvm.pid)
            assert present
            (path,) = present.libraries
            assert path.startswith("/tmp/offheap-lib-")
            assert control.detach(jvm.pid).state == "stopped"
            started.live_file.unlink()
            assert not Path(path).parent.exists()
        assert jvm.answers()


@pytest.mark.parametrize("version", JRE_VERSIONS)
def test_small_java_threads_may_have_the_stack_of_the_probes(
    version: int, jre: Callable[[int], Path], waiting_classes: Path
) -> None:
    with waiting_jvm(jre(version), waiting_classes, main="Diving") as jvm:
        for _ in range(3):
            control.start(jvm.pid, "interval=4096").live_file.unlink()
            assert control.detach(jvm.pid).state == "stopped"
            assert jvm.answers(), f"it ended: {jvm.process.wait(10)}"


@pytest.mark.parametrize("version", [version for version in JRE_VERSIONS if version >= 21])
def test_newer_jvms_warn_of_the_probe_once(
    version: int, jre: Callable[[int], Path], waiting_classes: Path
) -> None:
    """HotSpot warns of every agent that it has not seen before."""
    with waiting_jvm(jre(version), waiting_classes) as jvm:
        for _ in range(3):
            control.start(jvm.pid, "interval=4096").live_file.unlink()
            assert control.detach(jvm.pid).state == "stopped"
        assert jvm.stderr().count("A JVM TI agent has been loaded dynamically") == 1


@pytest.mark.parametrize("version", JRE_VERSIONS)
def test_a_jvm_that_checks_jni_has_nothing_to_complain_of(
    version: int, jre: Callable[[int], Path], waiting_classes: Path
) -> None:
    """The warnings of -Xcheck:jni go to the program's own output."""
    with waiting_jvm(jre(version), waiting_classes, "-Xcheck:jni") as jvm:
        for _ in range(2):
            control.start(jvm.pid, "interval=4096").live_file.unlink()
            assert control.detach(jvm.pid).state == "stopped"
        assert jvm.process.stdin
        assert jvm.process.stdout
        jvm.process.stdin.write(b"\n")
        jvm.process.stdin.flush()
        assert read_line(jvm.process, 20.0) == b"alive\n"


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


def test_a_killed_jvm_of_roots_had_the_same_pid(jdk: Path, waiting_classes: Path) -> None:
    needs.root("to start a JVM as another user")
    with waiting_jvm(jdk / "bin" / "java", waiting_classes, wrapper=NOBODY) as jvm:
        left = Path(f"/tmp/.java_pid{jvm.pid}")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(left))
        left.chmod(0o600)
        control.start(jvm.pid, "interval=4096").live_file.unlink()
        assert left.stat().st_uid == 65534
        assert control.detach(jvm.pid).state == "stopped"


@pytest.mark.parametrize("kind", ["root's", "rootless"])
def test_a_container_with_its_own_files(kind: str, jdk: Path, waiting_classes: Path, tmp_path: Path) -> None:
    needs.namespaces("mount", "pid")
    # In a rootless container our root is nobody, without the right to connect or create a file.
    rootless = (*NOBODY, "unshare", "--user", "--map-root-user") if kind == "rootless" else ()
    possible = subprocess.run([*rootless, "ls", library.probe_library()], capture_output=True, text=True)
    if possible.returncode != 0:
        needs.skip(f"a user namespace for nobody ({possible.stderr.strip()})", needs.READABLE)
    classes = Path("/dev/shm") / waiting_classes.name
    shutil.copytree(waiting_classes, classes)
    package = library.probe_library().parent
    # The JVM has its own /tmp and package folder (/tmp last: the package may lie in it); /dev/shm is full.
    script = (
        f"mount -t tmpfs none {package} && mount -t tmpfs none /tmp && cp -r {classes} /tmp/c && "
        'mount -t tmpfs -o size=1m none /dev/shm && cd /tmp && exec "$0" "$@"'
    )
    wrapper = (
        *(*rootless, "unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"),
        *("sh", "-c", script),
    )
    try:
        with waiting_jvm(jdk / "bin" / "java", Path("/tmp/c"), wrapper=wrapper) as jvm:
            pid = int(Path(f"/proc/{jvm.pid}/task/{jvm.pid}/children").read_text().split()[0])
            for turn in ("first", "again"):
                output = tmp_path / f"{turn}.offheap"
                told = offheap("attach", pid, "--duration", "300ms", "--interval", "4k", "-o", output)
                assert "found no room for its live file in /dev/shm (1.0 MiB free)" in told.stderr
                found = recording.load(output)
                assert found.info.ended == "detached"
                assert found.info.pid == 1
                # Neither library nor live file remains.
                assert not [
                    file
                    for file in Path(f"/proc/{pid}/root/tmp").iterdir()
                    if file.name.startswith("offheap-")
                ]
            assert len({m.inode for m in maps.read(pid) if m.name == library.NAME}) == 1
    finally:
        shutil.rmtree(classes)


def test_no_room_anywhere(jdk: Path, waiting_classes: Path) -> None:
    needs.namespaces("mount")
    classes = Path("/var/tmp") / waiting_classes.name
    shutil.copytree(waiting_classes, classes)
    script = (
        "mount -t tmpfs -o size=1m none /dev/shm && mount -t tmpfs -o size=1m none /tmp && cd / && "
        'exec "$0" "$@"'
    )
    try:
        with waiting_jvm(
            jdk / "bin" / "java", classes, wrapper=("unshare", "--mount", "sh", "-c", script)
        ) as jvm:
            with pytest.raises(
                UserError, match=r"no room for its live file in /dev/shm \(1\.0 MiB free\), /tmp"
            ):
                control.start(jvm.pid)
            present = control.loaded(jvm.pid)
            assert present is None or present.live_file is None
            assert jvm.answers()
    finally:
        shutil.rmtree(classes)


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


def test_the_environment_starts_the_probe(
    jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    java = f"{jre(21)} -Xmx64m -cp {waiting_classes} Waiting </dev/null"
    script = tmp_path / "start.sh"
    script.write_text(f"ls /\n{java}\n")
    shell = f'eval "$({sys.executable} -m offheap env --interval 4k --dir {tmp_path})"\nsh {script}\n'
    subprocess.run(["sh", "-c", shell], check=True, capture_output=True, timeout=60, env=quiet_environment())
    found = [recording.load(path) for path in sorted(tmp_path.glob("*.live"))]
    # The script's own shell is recorded because it is the next program; `ls` is not recorded.
    (jvm,) = [each for each in found if each.info.java_version]
    assert jvm.info.java_version.startswith("21.")
    assert jvm.info.entry == "preload"
    assert jvm.info.interval_bytes == 4096
    assert len(found) == 2


def test_a_native_program_needs_no_jvm(tmp_path: Path) -> None:
    shell = (
        f'eval "$({sys.executable} -m offheap env --native --exact --dir {tmp_path})"\n'
        f"exec {sys.executable} -S -c pass\n"
    )
    subprocess.run(["sh", "-c", shell], check=True, capture_output=True, timeout=60, env=quiet_environment())
    (path,) = tmp_path.glob("*.live")
    found = recording.load(path)
    assert found.info.mode == "exact"
    assert found.info.java_version == ""
    assert found.process["allocated_bytes"][-1] > 0


def test_what_env_prints(tmp_path: Path) -> None:
    built = str(library.probe_library())
    found = json.loads(offheap("env", "--json", "--exact", "--follow").stdout)
    assert found == {"schema": "offheap.env/1", "variables": {"LD_PRELOAD": built, "OFFHEAP": "exact,follow"}}
    assert (
        options.preload(Path("/a/liboffheap.so"), "/b.so /c.so:/a/liboffheap.so")
        == "/a/liboffheap.so:/b.so:/c.so"
    )
    with pytest.raises(UserError, match="space"):
        options.preload(Path("/a b/liboffheap.so"), "")
    with pytest.raises(UserError, match="comma"):
        options.environment_text("interval=1", directory=Path("/a,b"), follow=False)
    assert "--exact" in offheap("env", "--interval", "0", expect=2).stderr


def test_codes_are_those_of_the_probe() -> None:
    header = (ROOT / "probe" / "errors.h").read_text()
    codes = {int(code) for code in re.findall(r"PROBE_\w+ = (\d+),", header)}
    assert codes == set(control._RESULTS) | {control.OK, control._OK_AGAIN}
    with pytest.raises(UserError, match="result 7"):
        raise control.result_error(1, 7)
    assert issubclass(TargetGone, UserError)
    assert status.read(os.getpid()).alive
