"""Other local users and a hostile JVM gain nothing from an offheap that runs as root."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from harness import needs, public_folders
from harness.command_line import offheap
from harness.hostile.process import NOBODY_UID, fake_jdk, hostile_process, own
from harness.jvms.java_homes import JRE_VERSIONS
from harness.jvms.waiting_jvm import read_line, remove_live_files, waiting_jvm
from harness.waiting import wait_until
from offheap.jvm.command_line import launch_options
from offheap.jvm.listener.attach import AttachedVM, TargetGone
from offheap.jvm.structures import vm_flags
from offheap.probe import library
from offheap.proc import maps, status
from offheap.report.metrics import bounded_server


@pytest.fixture
def folder() -> Path:
    path = public_folders.make("hostile")
    path.chmod(0o777)
    return path


# ---- attach ----------------------------------------------------------------------------------------


def test_another_users_lock_does_not_hold_up_an_attach(
    jre: Callable[[int], Path], waiting_classes: Path
) -> None:
    """Every user may open and lock the folder of a process in /proc."""
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        code = f"held = os.open('/proc/{jvm.pid}', os.O_RDONLY); fcntl.flock(held, fcntl.LOCK_EX)\n"
        with hostile_process(code=code):
            assert "JDK 17" in AttachedVM(jvm.pid, attach_seconds=20).jcmd("VM.version")
        assert jvm.answers()
        assert jvm.stderr() == ""


def test_two_of_one_user_still_take_turns(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        first, second = (os.open(f"/proc/{jvm.pid}/environ", os.O_RDONLY) for _ in range(2))
        try:
            fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with pytest.raises(BlockingIOError):
                fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(first)
            os.close(second)
        needs.root("to be another user")
        opened = subprocess.run(
            ["cat", f"/proc/{jvm.pid}/environ"], user=NOBODY_UID, group=NOBODY_UID, capture_output=True
        )
        assert opened.returncode != 0


def test_a_listener_that_takes_no_connection(folder: Path) -> None:
    """Its queue is full: connect(2) would block for ever."""
    code = (
        "place = f'/tmp/.java_pid{os.getpid()}'\n"
        "listener = socket.socket(socket.AF_UNIX); listener.bind(place); listener.listen(0)\n"
        "for _ in range(8):\n"
        "    one = socket.socket(socket.AF_UNIX); one.setblocking(False); kept.append(one)\n"
        "    try: one.connect(place)\n"
        "    except BlockingIOError: pass\n"
    )
    with hostile_process(fake_jdk(folder / "X"), code=code) as process:
        try:
            began = time.monotonic()
            outcome = subprocess.run(
                offheap("where", str(process.pid)), capture_output=True, text=True, timeout=60
            )
            assert outcome.returncode == 0, outcome.stderr
            assert "takes no more attach requests" in " ".join(outcome.stdout.split())
            assert time.monotonic() - began < 40
        finally:
            Path(f"/tmp/.java_pid{process.pid}").unlink(missing_ok=True)


def test_a_jvm_that_dies_while_it_answers(folder: Path) -> None:
    """Its result code has arrived, the agent's result has not: this is not a refusal."""
    code = (
        "place = f'/tmp/.java_pid{os.getpid()}'\n"
        "listener = socket.socket(socket.AF_UNIX); listener.bind(place); listener.listen(1)\n"
        "def answer():\n"
        "    one, _ = listener.accept(); one.recv(1000); one.send(b'0\\n'); os._exit(0)\n"
        "import _thread; _thread.start_new_thread(answer, ())\n"
    )
    with hostile_process(fake_jdk(folder / "X"), code=code) as process:
        try:
            with pytest.raises(TargetGone, match="ended while offheap was sending it `load`"):
                AttachedVM(process.pid).load_agent("/nowhere/liboffheap.so", "start")
        finally:
            Path(f"/tmp/.java_pid{process.pid}").unlink(missing_ok=True)


@pytest.mark.parametrize("version", JRE_VERSIONS)
def test_attach_disabled_in_a_file(
    version: int, jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path
) -> None:
    """The JVM's own flag counts, from whatever source; SIGQUIT would make it print its threads."""
    (tmp_path / "arguments").write_text("# of a service\n-XX:-UsePerfData '-XX:+DisableAttachMechanism'\n")
    with waiting_jvm(jre(version), waiting_classes, f"@{tmp_path}/arguments") as jvm:
        mappings = maps.read(jvm.pid)
        assert vm_flags.is_set(jvm.pid, mappings, "DisableAttachMechanism") is True
        assert vm_flags.is_set(jvm.pid, mappings, "UsePerfData") is False
        assert vm_flags.is_set(jvm.pid, mappings, "UseSerialGC") is True
        assert vm_flags.is_set(jvm.pid, mappings, "NoSuchFlag") is None
        outcome = subprocess.run(
            offheap("attach", str(jvm.pid), "-o", tmp_path / "a.offheap"),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert outcome.returncode == 2
        assert "runs with -XX:+DisableAttachMechanism" in outcome.stderr
        assert launch_options.switches(jvm.pid, "DisableAttachMechanism") == [True]
        assert jvm.answers()
        assert jvm.stderr() == ""


def test_where_options_stand(jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path) -> None:
    """The options come from variables and files, not from the JVM's memory; the last one counts."""
    (tmp_path / "vm").write_text("-XX:-UsePerfData -XX:+DisableAttachMechanism")
    (tmp_path / "flags").write_text("+DisableAttachMechanism")
    (tmp_path / "jdk").write_text('"-XX:+DisableAttachMechanism"')
    off = "-XX:-DisableAttachMechanism"
    for options, environment, expected in (
        ((f"-XX:VMOptionsFile={tmp_path}/vm",), {}, [True]),
        ((f"-XX:VMOptionsFile={tmp_path}/vm", off), {}, [True, False]),
        ((f"-XX:Flags={tmp_path}/flags", off), {}, [True, False]),
        ((), {"JDK_JAVA_OPTIONS": f"@{tmp_path}/jdk"}, [True]),
        ((off,), {"JAVA_TOOL_OPTIONS": "-XX:+DisableAttachMechanism"}, [True, False]),
        ((off,), {"_JAVA_OPTIONS": "-XX:+DisableAttachMechanism"}, [False, True]),
    ):
        with waiting_jvm(jre(17), waiting_classes, *options, environment=environment) as jvm:
            assert launch_options.switches(jvm.pid, "DisableAttachMechanism") == expected
            flag = vm_flags.is_set(jvm.pid, maps.read(jvm.pid), "DisableAttachMechanism")
            assert flag is expected[-1]


# ---- the copy of the probe -------------------------------------------------------------------------


@pytest.mark.parametrize("held", [False, True], ids=["another command", "the command that placed it"])
def test_a_copy_is_not_removed_through_a_link(held: bool, folder: Path) -> None:
    """The target owns its copy's folder, and may replace it by a link before the copy is removed."""
    needs.root("to have another user's process")
    ours = folder / "ours"
    ours.mkdir()
    (ours / library.NAME).write_bytes(b"root's")
    with hostile_process() as process:
        target = status.read(process.pid)
        path = library._copy(library.probe_library(), target, Path("/tmp"), "/tmp")
        if not held:
            os.close(library._placed.pop((target.pid, target.start_ticks, path)))
        place = Path(path).parent
        try:
            assert place.stat().st_uid == NOBODY_UID
            place.rename(folder / "moved")
            place.symlink_to(ours)
            library.remove_copy(target, path)
            assert (ours / library.NAME).read_bytes() == b"root's"
            assert ours.is_dir()
        finally:
            place.unlink(missing_ok=True)
        assert not library._placed
        # Without such a link both are removed.
        path = library._copy(library.probe_library(), target, Path("/tmp"), "/tmp")
        assert Path(path).read_bytes() == library.probe_library().read_bytes()
        library.remove_copy(target, path)
        assert not Path(path).parent.exists()
    assert os.geteuid() == 0


# ---- the server ------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`where --serve` of this very process, which is no JVM: PID and port."""
    command = offheap("where", str(os.getpid()), "--no-attach", "--serve", ":0")
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        line = read_line(process, 60).decode()
        assert line.startswith("serving OpenMetrics on http://127.0.0.1:"), line
        yield process, int(line.partition("127.0.0.1:")[2].partition("/")[0])
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stdout
        process.stdout.close()


def scrape(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text: str = answer.read().decode()
    return text


def test_idle_connections_cost_no_threads(server: tuple[subprocess.Popen[bytes], int]) -> None:
    process, port = server
    assert "offheap_rss_bytes" in scrape(port)
    before = status.read(process.pid).threads
    idle = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(300)]
    try:
        for number, one in enumerate(idle):
            if number % 3 == 0:
                one.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")  # no end of the request
        assert "offheap_rss_bytes" in scrape(port)
        assert status.read(process.pid).threads <= before + 1
        open_now = len(os.listdir(f"/proc/{process.pid}/fd"))
        assert open_now < bounded_server.MOST_CONNECTIONS + 40
        # Each is closed when its time is over.
        one = idle[-1]
        one.settimeout(bounded_server.SECONDS * 4)
        assert one.recv(1) == b""
    finally:
        for one in idle:
            one.close()
    assert "offheap_rss_bytes" in scrape(port)


def test_a_connection_that_is_dropped_as_it_speaks(server: tuple[subprocess.Popen[bytes], int]) -> None:
    """In one round the oldest connection has sent data and makes room for a new one."""
    process, port = server
    idle = [socket.create_connection(("127.0.0.1", port), timeout=10)]
    try:
        # The server accepts them one by one, the oldest first, once it has seen them all.
        idle += [
            socket.create_connection(("127.0.0.1", port), timeout=10)
            for _ in range(bounded_server.MOST_CONNECTIONS - 1)
        ]
        descriptors = Path(f"/proc/{process.pid}/fd")
        wait_until(
            lambda: len(list(descriptors.iterdir())) >= bounded_server.MOST_CONNECTIONS,
            seconds=bounded_server.SECONDS / 2,
        )
        process.send_signal(signal.SIGSTOP)
        idle.append(socket.create_connection(("127.0.0.1", port), timeout=10))
        idle[0].send(b"GET")
        process.send_signal(signal.SIGCONT)
        assert "offheap_rss_bytes" in scrape(port)
    finally:
        process.send_signal(signal.SIGCONT)
        for one in idle:
            one.close()


def test_the_server_only_reads(server: tuple[subprocess.Popen[bytes], int]) -> None:
    _, port = server

    def said(request: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(request)
            with suppress(ConnectionResetError):
                return connection.makefile("rb").read()
        return b""

    for method in (b"POST", b"PUT", b"DELETE", b"PATCH", b"TRACE"):
        assert b" 405 " in said(method + b" /metrics HTTP/1.1\r\nHost: x\r\n\r\n").split(b"\r\n")[0]
    assert b" 400 " in said(b"\x16\x03\x01 nonsense\r\n\r\n")
    assert said(b"GET /" + b"x" * 40000) == b""  # too long, and never ends
    assert b"offheap_rss_bytes" in said(b"GET /metrics HTTP/1.0\r\n\r\n")


def test_scrapes_at_once_inspect_once(server: tuple[subprocess.Popen[bytes], int]) -> None:
    _, port = server
    texts: list[str] = []
    threads = [threading.Thread(target=lambda: texts.append(scrape(port))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(texts) == 8
    assert len({text.partition("offheap_owner_bytes{")[2] for text in texts}) <= 2


def test_it_is_quiet_when_the_port_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "offheap", "where", str(os.getpid()), "--no-attach"]
        outcome = subprocess.run(
            [*command, "--serve", f":{port}"], capture_output=True, text=True, timeout=60
        )
    assert outcome.returncode == 2
    assert outcome.stderr.startswith(f"offheap: cannot listen on 127.0.0.1:{port}: Address already in use")


def test_the_hostile_process_is_nobodys(folder: Path) -> None:
    """With the same user, these tests would show nothing."""
    needs.root("to be another user")
    (folder / "f").write_bytes(b"x" * 4096)
    own(folder / "f")
    with hostile_process(folder / "f") as process:
        assert status.read(process.pid).uid == NOBODY_UID
        assert any(m.path == str(folder / "f") for m in maps.read(process.pid))


def test_attach_that_leaves_its_probe_behind_says_so_by_its_status(
    jre: Callable[[int], Path], waiting_classes: Path, tmp_path: Path, probe_library: Path
) -> None:
    """The JVM is stopped when its recording ends, so that no command can take the probe out."""
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        command = offheap("attach", str(jvm.pid), "--duration", "4s", "-o", tmp_path / "a.offheap", "--json")
        attach = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while not list((tmp_path / "a.offheap").glob("journal/process.blocks")):
            assert time.monotonic() < deadline
            assert attach.poll() is None, attach.communicate()
            time.sleep(0.05)
        os.kill(jvm.pid, signal.SIGSTOP)
        try:
            out, err = attach.communicate(timeout=120)
        finally:
            os.kill(jvm.pid, signal.SIGCONT)
        assert attach.returncode == 1, err
        assert f"then take the probe out: offheap detach {jvm.pid}" in err
        assert '"probe_left": true' in out
        detached = subprocess.run(offheap("detach", str(jvm.pid)), capture_output=True, text=True, timeout=60)
        assert detached.returncode == 0, detached.stderr
        assert jvm.answers()
        remove_live_files(jvm.pid)
