"""/proc of real processes, and text that no kernel writes."""

from __future__ import annotations

import contextlib
import mmap
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import needs
from harness.waiting import wait_until
from offheap.proc import cgroup, maps, root, smaps, status, threads
from offheap.proc.images import executable


def test_own_status_agrees_with_the_system() -> None:
    before = signal.signal(signal.SIGUSR2, lambda *_: None)
    try:
        found = status.read(os.getpid())
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert (found.pid, found.uid, found.gid) == (os.getpid(), os.geteuid(), os.getegid())
    assert found.namespace_pid == os.getpid()
    assert found.alive
    assert found.catches(signal.SIGUSR2)
    assert not status.read(os.getpid()).catches(signal.SIGUSR2)
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
    assert found.rss_bytes == pytest.approx(resident, rel=0.3)
    assert 0 < found.uptime_seconds < 7 * 24 * 3600


def test_threads_are_counted() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    before = status.read(os.getpid()).threads
    thread.start()
    try:
        assert status.read(os.getpid()).threads == before + 1
    finally:
        done.set()
        thread.join()


def test_a_zombie_is_not_alive_and_a_reaped_process_is_none() -> None:
    process = subprocess.Popen(["true"])
    wait_until(lambda: not status.read(process.pid).alive)
    assert maps.read(process.pid) == []
    assert status.command_line(process.pid) == ()
    process.wait()
    with pytest.raises(ProcessLookupError):
        status.read(process.pid)
    with pytest.raises(ProcessLookupError):
        maps.read(process.pid)


def test_a_name_made_to_confuse(tmp_path: Path) -> None:
    odd = tmp_path / "x) R 1 (y\tz"
    shutil.copy("/bin/sleep", odd)
    process = subprocess.Popen([odd, "60"])
    try:
        found = status.read(process.pid)
        assert found.uptime_seconds < 60
        assert found.state in "SRD"
        # Popen returns an instant before the new program's arguments are readable.
        while not (line := status.command_line(process.pid)) and process.poll() is None:
            time.sleep(0.01)
        assert line == (str(odd), "60")
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("end", ["\r", "\v", "\x1d", "\x85", "\u2028"])
def test_a_name_does_not_state_another_user(end: str) -> None:
    script = "import sys; open('/proc/self/comm', 'w').write(sys.argv[1]); print(flush=True); input()"
    name = f"{end}Uid:1 4711"
    process = subprocess.Popen(
        [sys.executable, "-c", script, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout
        assert process.stdout.readline() == b"\n"
        found = status.read(process.pid)
        assert (found.uid, found.name) == (os.geteuid(), name.strip())
        assert threads.names(process.pid)[process.pid] == name
    finally:
        process.communicate()


def test_environment_is_the_one_of_the_start() -> None:
    process = subprocess.Popen(["sleep", "60"], env={"A": "1=2", "TMPDIR": "/x"})
    try:
        # Before exec the environment equals that of this process.
        wait_until(lambda: status.environment(process.pid).get("A") == "1=2")
        assert status.environment(process.pid) == {"A": "1=2", "TMPDIR": "/x"}
    finally:
        process.kill()
        process.wait()


def test_maps_show_a_file_where_it_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "a\nb (deleted)"
    path.write_bytes(b"x" * 8192)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 4096, offset=4096) as mapped:
        (found,) = [m for m in maps.read(os.getpid()) if m.inode == os.fstat(file.fileno()).st_ino]
        assert found.offset == 4096
        assert found.end - found.start == 4096
        assert found.permissions == "rw-s"
        path.unlink()
        (found,) = [m for m in maps.read(os.getpid()) if m.inode == os.fstat(file.fileno()).st_ino]
        assert found.deleted
        assert found.path == str(path)
        assert len(mapped) == 4096


@pytest.mark.parametrize("end", ["\r", "\v", "\x85", "\u2028"])
def test_a_file_s_name_is_no_mapping(end: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{end}00001000-00002000 r-xp 00000000 00:00 0 libjvm.so{end}Rss: 99 kB"
    path.write_bytes(b"x" * 8192)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        # Each page by itself: the kernel decides whether a fault maps the page beside it.
        assert mapped[1] == mapped[5000] == ord("x")
        found = maps.read(os.getpid())
        (row,) = [row for row in smaps.read(os.getpid()) if row.mapping.path == str(path)]
        assert row.mapping in found
        assert row.memory.rss == 8192
        assert len(found) > 10
        assert not [one for one in found if one.start == 0x1000]


def test_a_group_s_name_is_no_group() -> None:
    assert cgroup.parse("0::/a\v0::/b\u20280::/c\n") == {2: "/a\v0::/b\u20280::/c"}


def test_a_mapped_file_that_its_path_does_not_lead_to(tmp_path: Path) -> None:
    """Like a file in a container, inspected from below chroot: the kernel's link leads to the file."""
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.write_bytes(b"mine")
    other.write_bytes(b"other")
    with mine.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        (mapping,) = [one for one in maps.read(os.getpid()) if one.path == str(mine)]
        needs.mounted(["mount", "--bind", str(other), str(mine)])
        try:
            assert mine.read_bytes() == b"other"
            with root.open_mapped(os.getpid(), mapping) as found:
                assert found.read_at(0, 10) == b"mine"
        finally:
            subprocess.run(["umount", str(mine)], check=True)
    with pytest.raises(OSError, match="another one than is mapped"):
        root.open_mapped(os.getpid(), replace(mapping, inode=mapping.inode + 1))


def test_a_mapped_file_is_found_by_its_inode() -> None:
    for mapping in maps.read(os.getpid()):
        if mapping.path.startswith("/") and not mapping.deleted and os.path.isfile(mapping.path):
            assert root.mapped_file(os.getpid(), mapping) == Path(mapping.path)
            assert root.as_seen(os.getpid(), mapping) == mapping.path
            break
    else:
        pytest.fail("no mapped file")


def test_other_mount_namespace_and_chroot_are_seen_through(tmp_path: Path) -> None:
    needs.namespaces("mount")
    mine = tmp_path / "here"
    mine.mkdir()
    (mine / "file").write_text("outside")
    script = f"mount -t tmpfs none {mine} && echo inside > {mine}/file && exec sleep 60"
    process = subprocess.Popen(["unshare", "-m", "sh", "-c", script])
    try:
        wait_until(lambda: status.read(process.pid).name == "sleep")
        assert not root.is_ours(process.pid, mine / "file")
        assert root.our_path(process.pid, mine / "file").read_text() == "inside\n"
        assert root.is_ours(process.pid, "/bin/sh")
    finally:
        process.kill()
        process.wait()


@given(st.text(), st.text())
def test_no_text_breaks_the_status_parser(text: str, stat: str) -> None:
    with contextlib.suppress(ValueError):
        status.parse(1, text, stat)


@given(st.data())
def test_no_damage_breaks_the_status_parser(data: st.DataObject) -> None:
    good = Path("/proc/self/status").read_text()
    stat = Path("/proc/self/stat").read_text()
    position = data.draw(st.integers(0, len(good) - 1))
    damaged = good[:position] + data.draw(st.text(max_size=4)) + good[position + 1 :]
    with contextlib.suppress(ValueError):
        status.parse(1, damaged, stat[: data.draw(st.integers(0, len(stat)))])


@given(st.lists(st.text()))
def test_no_text_breaks_the_maps_parser(lines: list[str]) -> None:
    for mapping in maps.parse(lines):
        assert mapping.start >= 0


@given(
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
    st.text("abc/ é()\\", max_size=20).map(str.strip),
    st.integers(0, 2**63),
)
def test_a_maps_line_reads_back(start: int, end: int, path: str, inode: int) -> None:
    (found,) = maps.parse([f"{start:08x}-{end:08x} rw-p 00001000 fd:01 {inode}      {path}\n"])
    assert (found.start, found.end, found.offset, found.inode) == (start, end, 4096, inode)
    assert found.path == path


def test_the_interpreter_is_an_executable_of_this_machine() -> None:
    kind = executable.read(Path("/proc/self/exe"))
    assert kind.bits == 64
    assert kind.machine == platform.machine().replace("_", "-")
    assert not kind.musl
    assert kind.interpreter.startswith("/lib")


def test_the_probe_has_no_loader(probe_library: Path) -> None:
    assert executable.read(probe_library).interpreter == ""


@given(data=st.data())
def test_no_damage_breaks_the_elf_reader(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    good = Path(sys.executable).read_bytes()[:4096]
    position = data.draw(st.integers(0, 1024))
    damaged = bytearray(good[: data.draw(st.integers(0, len(good)))])
    damaged[position : position + 8] = data.draw(st.binary(min_size=8, max_size=8))
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(damaged)
    try:
        kind = executable.read(path)
    except ValueError:
        return
    assert kind.bits in (32, 64)
