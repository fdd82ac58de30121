"""`offheap where` on real JVMs: every owner has the known bytes of the program, and little remains."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import needs
from harness.jvms.footprint import COLLECTORS, DIRECT, HEAP, MAPPED, WORKERS, compile_footprint, footprint_jvm
from harness.jvms.java_homes import JRE_VERSIONS
from harness.jvms.waiting_jvm import NOBODY, waiting_jvm
from harness.native.compiler import compile_c
from harness.plugins.rotation import one_a_row
from harness.warm_command import warm
from offheap.analysis.owners.accounts import Accounts, Holding
from offheap.errors import UserError
from offheap.inspect.process import inspect_process
from offheap.inspect.questions import ANSWERING_THREADS
from offheap.jvm.listener.attach import AttachedVM
from offheap.proc import cgroup, threads
from offheap.proc.pagemap import PAGE

MIB = 1 << 20
VERSIONS = JRE_VERSIONS
CLOSED, WITH_NMT = 0.0025, 0.0005  # shares of RSS


@pytest.fixture(scope="module")
def classes(jdk: Path) -> Path:
    return compile_footprint(jdk)


def held(accounts: Accounts) -> dict[str, Holding]:
    return {holding.owner: holding for holding in accounts.holdings}


def check_books(accounts: Accounts) -> None:
    """The sums are exact to the byte, down to the parts."""
    assert sum(h.bytes for h in accounts.holdings) + accounts.unattributed_bytes == accounts.memory.rss
    for holding in accounts.holdings:
        assert sum(part.bytes for part in holding.parts) == holding.bytes
        assert all(part.bytes > 0 for part in holding.parts)


def check_program(accounts: Accounts) -> None:
    """The known memory of the program has the right owners."""
    owners = held(accounts)
    assert HEAP <= owners["java-heap"].bytes <= 3 * 192 * MIB  # ZGC on 11 and 17 maps the heap three times
    assert {part.name: part.bytes for part in owners["mapped-files"].parts if "mapped.bin" in part.name} == {
        next(p.name for p in owners["mapped-files"].parts if "mapped.bin" in p.name): MAPPED
    }
    names = {part.name for part in owners["thread-stacks"].parts}
    assert {f"worker-{number}" for number in range(WORKERS)} <= names
    assert 100 << 10 < owners["metaspace"].bytes < 16 * MIB
    assert 100 << 10 < owners["code-cache"].bytes < 16 * MIB
    assert any("libjvm.so" in part.name for part in owners["shared-libraries"].parts)
    assert any(part.name.endswith("/modules") for part in owners["jars"].parts)


@needs.tracing
@pytest.mark.parametrize(("version", "collector"), one_a_row(VERSIONS, COLLECTORS))
def test_without_tracking(version: int, collector: str, jre: Callable[[int], Path], classes: Path) -> None:
    with footprint_jvm(jre(version), classes, collector, "-XX:+ExplicitGCInvokesConcurrent") as jvm:
        accounts = inspect_process(jvm.pid)
        check_books(accounts)
        check_program(accounts)
        assert accounts.unattributed_bytes <= CLOSED * accounts.memory.rss, accounts.unattributed
        # Direct buffers of 1 MiB are large blocks of malloc; the zip streams are in malloc's arenas.
        owners = held(accounts)
        direct = owners["direct-buffers"].bytes if "direct-buffers" in owners else 0
        # ZGC may have moved the counters a moment ago.
        assert direct == DIRECT or (collector == "z" and not direct)
        assert owners["malloc"].bytes + direct >= DIRECT + 10 * MIB
        # The cost is the memory that the attach listener and its starting thread touch.
        assert len({thread.name for thread in threads.read(jvm.pid)} & {*ANSWERING_THREADS}) == 2
        assert 16 * PAGE <= accounts.cost_bytes < 2 * MIB
        assert any("Native Memory Tracking is off" in sentence for sentence in accounts.missing)
        AttachedVM(jvm.pid).jcmd("GC.run")
        # The collector's tables are in memory after the collection.
        accounts = inspect_process(jvm.pid)
        assert accounts.cost_bytes < MIB
        assert accounts.unattributed_bytes <= CLOSED * accounts.memory.rss, accounts.unattributed
        if collector in ("g1", "parallel"):
            assert {"card table", "mark bitmap"} <= {part.name for part in held(accounts)["gc"].parts}
        assert jvm.answers()


@needs.tracing
@pytest.mark.parametrize(("version", "collector"), one_a_row((21, 25), COLLECTORS))
def test_with_tracking(version: int, collector: str, jre: Callable[[int], Path], classes: Path) -> None:
    with footprint_jvm(jre(version), classes, collector, "-XX:NativeMemoryTracking=summary") as jvm:
        accounts = inspect_process(jvm.pid)
        check_books(accounts)
        check_program(accounts)
        owners = held(accounts)
        anonymous = owners["anonymous"].bytes if "anonymous" in owners else 0
        assert accounts.unattributed_bytes + anonymous <= WITH_NMT * accounts.memory.rss
        # 24 blocks in mappings of their own, each with a page for the headers.
        assert owners["direct-buffers"].bytes == DIRECT + 24 * PAGE
        assert not owners["direct-buffers"].counted
        assert {"Symbol", "Internal"} <= {part.name for part in owners["jvm-malloc"].parts}
        assert jvm.answers()


@needs.tracing
@pytest.mark.parametrize("version", [11, 17])
def test_with_tracking_in_detail(version: int, jre: Callable[[int], Path], classes: Path) -> None:
    with footprint_jvm(jre(version), classes, "g1", "-XX:NativeMemoryTracking=detail") as jvm:
        accounts = inspect_process(jvm.pid, detail=True)
        check_books(accounts)
        check_program(accounts)
        owners = held(accounts)
        anonymous = owners["anonymous"].bytes if "anonymous" in owners else 0
        assert accounts.unattributed_bytes + anonymous <= WITH_NMT * accounts.memory.rss
        assert owners["direct-buffers"].bytes == DIRECT + 24 * PAGE
        assert owners["gc"].bytes > 500 << 10


@needs.tracing
def test_what_the_jvm_said_before_it_fell_silent(
    jre: Callable[[int], Path], classes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = AttachedVM.jcmd

    def jcmd(vm: AttachedVM, command: str) -> str:
        if "detail" in command:
            os.kill(vm.pid, signal.SIGSTOP)
        return ask(vm, command)

    monkeypatch.setattr(AttachedVM, "jcmd", jcmd)
    monkeypatch.setattr("offheap.inspect.questions._DETAIL_SECONDS", 0.5)
    with footprint_jvm(jre(17), classes, "serial", "-XX:NativeMemoryTracking=detail") as jvm:
        accounts = inspect_process(jvm.pid, detail=True)
        check_books(accounts)
        check_program(accounts)
        assert held(accounts)["direct-buffers"].bytes == DIRECT + 24 * PAGE
        assert [one for one in accounts.missing if "did not answer" in one]
        assert not [one for one in accounts.missing if "Tracking is off" in one]
        os.kill(jvm.pid, signal.SIGCONT)
        assert jvm.answers()


@needs.tracing
def test_what_the_program_takes_meanwhile_is_not_our_cost(
    jre: Callable[[int], Path], classes: Path, tmp_path: Path
) -> None:
    command = [str(jre(17)), "-XX:+UseSerialGC", "-cp", str(classes)]
    command += ["Footprint", str(tmp_path / "mapped"), "wait"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        try:
            readings: list[Accounts] = []
            deadline = time.monotonic() + 60
            while not readings and time.monotonic() < deadline:
                with contextlib.suppress(UserError):  # a new process has no memory yet, or takes no questions
                    readings.append(inspect_process(process.pid, walk=False))
            # The process grows by 100 MiB.
            process.stdin.write(b"\n")
            process.stdin.flush()
            while not select.select([process.stdout], [], [], 0.05)[0]:
                readings.append(inspect_process(process.pid, walk=False))
            readings.append(inspect_process(process.pid, walk=False))
        finally:
            process.kill()
    assert any(one.sources for one in readings)
    assert readings[-1].memory.rss - readings[0].memory.rss > 10 * MIB
    assert sum(one.cost_bytes for one in readings) < MIB


@needs.tracing
@pytest.mark.parametrize("allocator", ["jemalloc", "tcmalloc", "mimalloc"])
def test_another_allocator(
    allocator: str, jre: Callable[[int], Path], classes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = needs.shared_library(allocator)
    monkeypatch.setenv("LD_PRELOAD", library)
    with footprint_jvm(jre(21), classes, "serial") as jvm:
        accounts = inspect_process(jvm.pid)
        monkeypatch.delenv("LD_PRELOAD")
        check_books(accounts)
        check_program(accounts)
        assert accounts.allocator == allocator
        assert any(sentence.startswith(f"{allocator} has malloc's place") for sentence in accounts.missing)
        # Zip streams, and direct buffers as the JDK counts them.
        assert held(accounts)["malloc"].bytes > 10 * MIB
        assert held(accounts)["direct-buffers"].bytes == DIRECT
        assert accounts.native_heap is None
        assert accounts.unattributed_bytes <= 0.005 * accounts.memory.rss, accounts.unattributed


def test_an_allocator_that_is_merely_loaded(tmp_path: Path) -> None:
    """A library of that name without a malloc: glibc's chunks are walked as always."""
    source = tmp_path / "nothing.c"
    source.write_text("int nothing;\n")
    library = compile_c([source], tmp_path / "libjemalloc.so.2", flags=["-shared", "-fPIC"])
    program = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print('ready', flush=True); input()"
    command = [sys.executable, "-c", program, str(library)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            accounts = inspect_process(process.pid)
        finally:
            process.kill()
    assert accounts.allocator == ""
    assert accounts.native_heap


def test_a_jdk_with_cds(jdk: Path, classes: Path) -> None:
    with footprint_jvm(jdk / "bin" / "java", classes, "serial") as jvm:
        accounts = inspect_process(jvm.pid)
        check_books(accounts)
        if "cds" not in held(accounts):
            needs.skip(f"a CDS archive in {jdk}", f"{jdk}/bin/java -Xshare:dump")
        assert held(accounts)["cds"].bytes > 4 * MIB


def where(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return warm(
        "where", *map(str, arguments), env={**os.environ, "NO_COLOR": "1", "COLUMNS": "80", **environment}
    )


def test_text_and_json(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(17), waiting_classes, "-XX:NativeMemoryTracking=summary") as jvm:
        text = where(jvm.pid)
        assert text.returncode == 0, text.stderr
        assert max(map(len, text.stdout.splitlines())) <= 80
        assert text.stdout.splitlines()[0].endswith(f"RSS of Waiting (pid {jvm.pid}, Java 17.0.9)")
        for title in ("Java heap", "metaspace", "thread stacks", "the JVM's malloc", "unattributed"):
            assert f"\n{title} " in text.stdout
        full = where(jvm.pid, "-v").stdout
        assert "def new generation" in full
        assert "VM Thread" in full
        document = json.loads(where(jvm.pid, "--json").stdout)
        assert document["schema"] == "offheap.where/1"
        assert document["java_version"] == "17.0.9"
        owners = {owner["owner"]: owner for owner in document["owners"]}
        total = sum(owner["bytes"] for owner in owners.values()) + document["unattributed_bytes"]
        assert total == document["rss_bytes"]
        for owner in owners.values():
            assert sum(part["bytes"] for part in owner["detail"]) == owner["bytes"]
        assert document["sources"][0] == "GC.heap_info"
        assert jvm.answers()
        assert jvm.stderr() == ""


def test_no_attach_asks_nothing(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(21), waiting_classes) as jvm:
        outcome = where(jvm.pid, "--no-attach")
        assert outcome.returncode == 0
        assert "the JVM was not asked" in outcome.stdout
        assert not Path(f"/tmp/.java_pid{jvm.pid}").exists()
        assert jvm.stderr() == ""
        assert where(jvm.pid, "--no-attach", "--detail").returncode == 2


def test_attach_disabled_is_said(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(21), waiting_classes, "-XX:+DisableAttachMechanism") as jvm:
        outcome = where(jvm.pid)
        assert outcome.returncode == 0
        assert "DisableAttachMechanism" in outcome.stdout.replace("\n           ", " ")
        assert jvm.stderr() == ""


def test_a_program_without_a_jvm() -> None:
    accounts = inspect_process(os.getpid())
    check_books(accounts)
    assert accounts.java_version == ""
    assert held(accounts)["shared-libraries"].bytes > MIB


def test_a_cgroup_of_its_own(tmp_path: Path) -> None:
    own = cgroup.parse(Path("/proc/self/cgroup").read_text())
    if 2 not in own:
        needs.skip("a cgroup of version 2", "run where version 2 is mounted at /sys/fs/cgroup")
    folder = tmp_path / own[2].lstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.current").write_text("1000\n")
    (folder / "memory.max").write_text("max\n")
    (folder / "memory.stat").write_text("anon 600\nfile 300\nkernel 100\n")
    found = cgroup.read(os.getpid(), tmp_path)
    assert found
    assert (found.version, found.usage, found.limit) == (2, 1000, None)
    assert (found.anonymous, found.page_cache, found.kernel) == (600, 300, 100)
    (folder / "memory.max").write_text("4096\n")
    limited = cgroup.read(os.getpid(), tmp_path)
    assert limited
    assert limited.limit == 4096


def test_cgroup_text() -> None:
    assert cgroup.parse("9:name=systemd:/\n4:cpu,memory:/a/b\n0::/c:d\n") == {1: "/a/b", 2: "/c:d"}
    assert cgroup.parse("nonsense\n:::\n") == {}
    assert cgroup.parse_stat("anon 5\nfile x\n\nkernel 7 8\n") == {"anon": 5}


def test_bad_input() -> None:
    for arguments, word in (
        ((1 << 22,), "there is no process"),
        (("no-such-main-class",), "no JVM has"),
        ((2,), "PID 2"),  # a kernel thread, or no process
    ):
        outcome = where(*arguments)
        assert outcome.returncode == 2
        assert outcome.stdout == ""
        (line,) = outcome.stderr.splitlines()
        assert word in line or "there is no process" in line


@needs.as_root
def test_the_jvm_of_another_user(jdk: Path, jre: Callable[[int], Path], waiting_classes: Path) -> None:
    # The JDK's own java: other users may have no access to the folder of this checkout.
    with waiting_jvm(jdk / "bin" / "java", waiting_classes, wrapper=NOBODY) as jvm:
        accounts = inspect_process(jvm.pid)
        check_books(accounts)
        assert "GC.heap_info" in accounts.sources
    needs.readable_by(NOBODY, sys.executable, "-c", "import offheap")
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        command = [*NOBODY, sys.executable, "-m", "offheap", "where", str(jvm.pid)]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert outcome.returncode == 2
        assert "belongs to root" in outcome.stderr


# The capabilities of a user without rights over other users' processes.
PLAIN = ("setpriv", "--bounding-set", "-sys_ptrace,-dac_override,-dac_read_search")


@needs.as_root  # only root can give up CAP_SYS_PTRACE
def test_a_jvm_with_more_rights_than_ours(jre: Callable[[int], Path], classes: Path) -> None:
    with footprint_jvm(jre(21), classes, "serial") as jvm:
        command = [*PLAIN, sys.executable, "-m", "offheap", "where", str(jvm.pid), "--json"]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert outcome.returncode == 0, outcome.stderr
        document = json.loads(outcome.stdout)
        owners = {owner["owner"]: owner["bytes"] for owner in document["owners"]}
        assert owners["mapped-files"] >= MAPPED
        assert owners["shared-libraries"] > MIB
        assert sum(owners.values()) + document["unattributed_bytes"] == document["rss_bytes"]
        assert any("has more rights than this user" in sentence for sentence in document["missing"])
        assert any("CAP_SYS_PTRACE" in sentence for sentence in document["missing"])
        assert jvm.answers()


def test_the_same_user_without_the_right_to_trace(
    jre: Callable[[int], Path], classes: Path, tmp_path: Path
) -> None:
    """Like kernel.yama.ptrace_scope 1: memory and stack pointers are closed, maps and the JVM open."""
    needs.namespaces("mount")
    closed = tmp_path / "closed"
    closed.touch(0)
    with footprint_jvm(jre(17), classes, "g1", wrapper=PLAIN) as jvm:
        mount = (
            f"for file in /proc/{jvm.pid}/mem /proc/{jvm.pid}/task/*/syscall; do "
            f'mount --bind {closed} "$file" || exit 9; done; exec "$@"'
        )
        command = ["unshare", "-m", "sh", "-c", mount, "sh", *PLAIN]
        command += [sys.executable, "-m", "offheap", "where", str(jvm.pid), "--json"]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if outcome.returncode == 9:
            needs.skip(f"mounts over files of /proc ({outcome.stderr.strip()})", needs.MOUNTS)
        assert outcome.returncode == 0, outcome.stderr
        document = json.loads(outcome.stdout)
        owners = {owner["owner"]: owner["bytes"] for owner in document["owners"]}
        assert owners["java-heap"] >= HEAP
        assert owners["metaspace"] > MIB
        assert document["malloc"] is None
        assert any("CAP_SYS_PTRACE" in sentence for sentence in document["missing"])
        assert any("--detail" in sentence for sentence in document["missing"])
        assert jvm.answers()
