"""`offheap attach` where the JVM has another user, other files, or no room for a live file."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from harness import needs
from harness.command_line import run_offheap
from harness.jvms.waiting_jvm import NOBODY, waiting_jvm
from offheap import recording
from offheap.errors import UserError
from offheap.probe import control, library
from offheap.proc import maps

pytestmark = pytest.mark.usefixtures("probe_library")


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
                told = run_offheap("attach", pid, "--duration", "300ms", "--interval", "4k", "-o", output)
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
