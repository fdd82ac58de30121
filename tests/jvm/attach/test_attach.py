"""The attach protocol against real JVMs; the probe loaded and stopped through it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import needs
from harness.jvms.java_homes import JRE_VERSIONS
from harness.jvms.waiting_jvm import NOBODY, waiting_jvm
from harness.native.compiler import compile_c
from harness.paths import AGENTS
from offheap.errors import UserError
from offheap.jvm.listener import attach
from offheap.jvm.listener.attach import AttachedVM, AttachError, TargetGone
from offheap.proc import maps

VERSIONS = JRE_VERSIONS
AGENT = AGENTS / "result_agent.c"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent whose result is the number in its options."""
    library = tmp_path_factory.mktemp("agent") / "libresult.so"
    return compile_c([AGENT], library, flags=["-shared", "-fPIC"])


@pytest.mark.parametrize("version", VERSIONS)
def test_commands_and_agents(
    version: int, jre: Callable[[int], Path], waiting_classes: Path, agent: Path
) -> None:
    with waiting_jvm(jre(version), waiting_classes) as jvm:
        vm = AttachedVM(jvm.pid)
        assert f"JDK {version}." in vm.jcmd("VM.version")
        assert "-XX:+UseSerialGC" in vm.jcmd("VM.flags")
        assert vm.version == (2 if version >= 24 else 1)
        assert vm.load_agent(agent, "0") == 0
        # The library is loaded already: the JVM calls it again.
        assert vm.load_agent(agent, "102") == 102
        assert jvm.answers()
        # Attaching leaves no file but HotSpot's own socket, and causes no thread dump.
        assert "Full thread dump" not in jvm.stderr()
        assert not list(Path("/tmp").glob(f".attach_pid{jvm.pid}"))
        assert not Path(f"/proc/{jvm.pid}/cwd/.attach_pid{jvm.pid}").exists()


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_jvm_refuses_is_an_error(
    version: int, jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    with waiting_jvm(jre(version), waiting_classes) as jvm:
        vm = AttachedVM(jvm.pid)
        with pytest.raises(AttachError, match="Unknown diagnostic command"):
            vm.jcmd("No.such")
        with pytest.raises(AttachError, match="not recognized"):
            vm.execute("nosuch")
        with pytest.raises(AttachError, match=r"cannot open shared object|was not loaded"):
            vm.load_agent(tmp_path / "missing.so", "")
        with pytest.raises(AttachError, match="Agent_OnAttach"):
            vm.load_agent(_libc(jvm.pid), "")
        assert jvm.answers()


def _libc(pid: int) -> str:
    return next(mapping.path for mapping in maps.read(pid) if mapping.name == "libc.so.6")


@pytest.mark.parametrize("version", VERSIONS)
def test_long_arguments_need_the_second_version(
    version: int, jre: Callable[[int], Path], waiting_classes: Path, agent: Path
) -> None:
    options = "7" + " " * 2000
    with waiting_jvm(jre(version), waiting_classes) as jvm:
        vm = AttachedVM(jvm.pid)
        if version >= 24:
            assert vm.load_agent(agent, options) == 7
        else:
            with pytest.raises(UserError, match="exceeds the 1024 bytes"):
                vm.load_agent(agent, options)
        # The exact limit of version 1.
        assert vm.load_agent(agent, "7" + " " * 1023) == 7
        assert jvm.answers()


def test_the_second_version_on_the_wire(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(25), waiting_classes) as jvm:
        vm = AttachedVM(jvm.pid)
        assert vm._exchange(attach.encode_v2("getversion"), "testing") == (0, "2")
        code, body = vm._exchange(attach.encode_v2("jcmd", "VM.version"), "testing")
        assert code == 0
        assert "JDK 25." in body
    with waiting_jvm(jre(11), waiting_classes) as jvm, pytest.raises(AttachError, match="version"):
        AttachedVM(jvm.pid)._exchange(attach.encode_v2("getversion"), "testing")


def test_a_jvm_in_its_first_milliseconds(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    for version in VERSIONS:
        with waiting_jvm(jre(version), waiting_classes, ready=False) as jvm:
            # SIGQUIT kills a JVM that has no handler yet.
            assert f"JDK {version}." in AttachedVM(jvm.pid).jcmd("VM.version")
            assert jvm.process.poll() is None


@pytest.mark.parametrize("version", VERSIONS)
def test_those_who_attach_at_the_same_time_take_turns(
    version: int, jre: Callable[[int], Path], waiting_classes: Path
) -> None:
    """A second SIGQUIT makes a JVM print its threads into the application's output."""
    for _ in range(3):
        with waiting_jvm(jre(version), waiting_classes) as jvm, ThreadPoolExecutor(6) as pool:
            versions = pool.map(lambda pid: AttachedVM(pid).jcmd("VM.version"), [jvm.pid] * 6)
            assert all(f"JDK {version}." in answer for answer in versions)
            assert jvm.answers()  # and this is the next line of its output


def test_a_socket_left_by_a_killed_jvm(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(f"/tmp/.java_pid{jvm.pid}")
        assert "JDK 17." in AttachedVM(jvm.pid).jcmd("VM.version")
    # A JVM whose socket was removed opens it again.
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        assert "JDK 17." in AttachedVM(jvm.pid).jcmd("VM.version")
        os.unlink(f"/tmp/.java_pid{jvm.pid}")
        assert "JDK 17." in AttachedVM(jvm.pid).jcmd("VM.version")


def test_an_impostor_on_the_socket_is_not_asked(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(17), waiting_classes) as jvm, socket.socket(socket.AF_UNIX) as impostor:
        impostor.bind(f"/tmp/.java_pid{jvm.pid}")
        impostor.listen()
        assert "JDK 17." in AttachedVM(jvm.pid).jcmd("VM.version")


@pytest.mark.parametrize("version", [11, 25])
def test_without_a_working_directory(version: int, jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(version), waiting_classes) as jvm:
        work = Path(f"/proc/{jvm.pid}/cwd").resolve()
        for file in work.iterdir():
            file.rename(f"/tmp/{work.name}.{file.name}")
        work.rmdir()
        try:
            assert f"JDK {version}." in AttachedVM(jvm.pid).jcmd("VM.version")
        finally:
            work.mkdir()
            Path(f"/tmp/{work.name}.stderr").rename(work / "stderr")


def test_root_attaches_to_another_users_jvm(jdk: Path, waiting_classes: Path) -> None:
    needs.root("to start a JVM as another user")
    with waiting_jvm(jdk / "bin" / "java", waiting_classes, wrapper=NOBODY) as jvm:
        assert "JDK" in AttachedVM(jvm.pid).jcmd("VM.version")
        assert (os.geteuid(), os.getegid()) == (0, 0)
        assert os.stat(f"/tmp/.java_pid{jvm.pid}").st_uid == 65534


def test_a_jvm_in_a_container(jdk: Path, waiting_classes: Path) -> None:
    needs.namespaces("mount", "pid")
    wrapper = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c")
    # The JVM has its own /tmp, and is process 1 there.
    classes = Path("/dev/shm") / waiting_classes.name
    shutil.copytree(waiting_classes, classes)
    command = 'mount -t tmpfs none /tmp && cd /tmp && exec "$0" "$@"'
    try:
        with waiting_jvm(jdk / "bin" / "java", classes, wrapper=(*wrapper, command)) as jvm:
            pid = int(Path(f"/proc/{jvm.pid}/task/{jvm.pid}/children").read_text().split()[0])
            assert "JDK" in AttachedVM(pid).jcmd("VM.version")
            assert not Path("/tmp/.java_pid1").exists()
            assert Path(f"/proc/{pid}/root/tmp/.java_pid1").is_socket()
    finally:
        shutil.rmtree(classes)


def test_a_target_that_dies_while_it_is_asked(
    jre: Callable[[int], Path], waiting_classes: Path, agent: Path
) -> None:
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        vm = AttachedVM(jvm.pid)
        with pytest.raises(TargetGone, match=f"PID {jvm.pid} ended"):
            vm.load_agent(agent, "die")
        jvm.process.wait(20)
        with pytest.raises(TargetGone):
            vm.jcmd("VM.version")


def test_no_such_process() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(UserError, match="there is no process"):
        AttachedVM(process.pid)


@given(st.binary())
def test_any_reply_is_read_or_refused(raw: bytes) -> None:
    try:
        code, _body = attach.parse_reply(raw, 1)
    except AttachError:
        return
    assert raw.startswith((str(code).encode(), b"-0", b"0"))


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), min_size=1, max_size=4))
def test_requests_say_where_every_word_ends(words: list[str]) -> None:
    encoded = [word.encode() for word in words]
    first = attach.encode_v1(*words)
    assert first.split(b"\0") == [b"1", *encoded, *[b""] * (4 - len(words)), b""]
    version, length, body = attach.encode_v2(*words).split(b"\0", 2)
    assert version == b"2"
    assert int(length) == len(body)
    assert body.split(b"\0") == [*encoded, b""]
