"""Files that a hostile process names: none blocks offheap, costs it gigabytes, or is opened unchecked."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from harness import needs, public_folders
from harness.command_line import offheap
from harness.hostile.process import NOBODY_UID, fake_jdk, hostile_process, measured, own
from harness.recordings.live_file_writer import LiveFileWriter, hook, native
from harness.warm_command import warm
from offheap.errors import UserError
from offheap.jemalloc import perf_maps, request
from offheap.jvm.counters import hsperfdata
from offheap.probe import control
from offheap.proc import opening, root, status
from offheap.proc.images.elf import ElfImage
from offheap.proc.maps import Mapping

# Far more than the commands take on a busy machine, so that only a hang fails.
SECONDS = 60.0


@pytest.fixture
def folder() -> Path:
    path = public_folders.make("hostile")
    path.chmod(0o777)
    return path


def run(*arguments: object, status: int = 0) -> str:
    outcome = warm(*map(str, arguments))
    assert outcome.returncode == status, outcome.stderr
    return outcome.stdout + outcome.stderr


def mapping(path: Path, inode: int, permissions: str = "rw-s") -> Mapping:
    """The line of /proc/PID/maps before another file took the name."""
    return Mapping(0x7F0000000000, 0x7F0000001000, permissions, 0, "00:01", inode, str(path), False)


# ---- FIFOs -----------------------------------------------------------------------------------------


def test_a_fifo_in_the_place_of_a_release_file(folder: Path) -> None:
    """A command that lists JVMs reads X/release beside a mapped X/lib/server/libjvm.so."""
    library = fake_jdk(folder / "X")
    os.mkfifo(folder / "X" / "release")
    with hostile_process(library) as process:
        found = json.loads(run("ps", "--json"))["jvms"]
        (its,) = [jvm for jvm in found if jvm["pid"] == process.pid]
        assert its["java_version"] is None
        assert "no JVM has" in run("attach", "no-such-main-class", status=2)
        document = json.loads(run("where", "--all", "--no-attach", "--json"))
        assert process.pid in {jvm["pid"] for jvm in document["jvms"]}


def _timed(code: str, *arguments: object) -> str:
    """Runs Python code that would hang in a plain open(); only SIGKILL ends such a hang."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    return outcome.stdout


def test_a_fifo_at_the_live_path(folder: Path) -> None:
    """The name leads to the live file when the memory map is read, and to a FIFO when it is opened."""
    os.mkfifo(folder / "a.live")
    code = (
        "import sys; from offheap.probe import control as probe; from offheap.proc.maps import Mapping\n"
        "pid, path = int(sys.argv[1]), sys.argv[2]\n"
        "maps = [Mapping(4096, 8192, p, 0, '00:01', 1, n, False) for p, n in"
        " (('r-xp', '/x/liboffheap.so'), ('rw-s', path))]\n"
        "print(probe.loaded(pid, maps).live_file)"
    )
    with hostile_process() as process:
        assert _timed(code, process.pid, folder / "a.live") == "None\n"


def test_a_fifo_in_the_place_of_hsperfdata(folder: Path) -> None:
    (folder / "hsperfdata_nobody").mkdir()
    with hostile_process() as process:
        fifo = folder / "hsperfdata_nobody" / str(process.pid)
        os.mkfifo(fifo)
        code = (
            "import sys; from offheap.jvm.counters import hsperfdata; from offheap.proc.maps import Mapping\n"
            "pid = int(sys.argv[1])\n"
            "maps = [Mapping(4096, 8192, 'rw-s', 0, '00:01', int(sys.argv[3]), sys.argv[2], False)]\n"
            "print(hsperfdata.read(pid, pid, maps))"
        )
        assert _timed(code, process.pid, fifo, fifo.stat().st_ino) == "None\n"
        assert hsperfdata.read(process.pid, process.pid, [mapping(fifo, 1)]) is None


def _unmount(place: Path) -> None:
    subprocess.run(["umount", "--lazy", place], check=True)


def test_fifos_over_the_names_that_an_attach_opens(folder: Path) -> None:
    """The kernel still tells the names of the mapped files, where FIFOs are mounted now."""
    needs.root("to mount a FIFO over a file")
    live_file, loaded, counters = folder / "a.live", folder / "liboffheap.so", folder / "hsperfdata_nobody"
    counters.mkdir()
    for file in (live_file, loaded):
        file.write_bytes(bytes(4096))
    own(live_file, loaded, counters)
    os.mkfifo(folder / "fifo")
    code = (
        f"with open(f'{counters}/{{os.getpid()}}', 'w+b') as file:\n"
        "    file.truncate(4096)\n"
        "    kept.append(mmap.mmap(file.fileno(), 0))\n"
    )
    with (
        hostile_process(fake_jdk(folder / "X"), live_file, loaded, code=code) as process,
        contextlib.ExitStack() as mounts,
    ):
        for file in (live_file, loaded, counters / str(process.pid)):
            needs.mounted(["mount", "--bind", folder / "fifo", file])
            mounts.callback(_unmount, file)
        assert stat.S_ISFIFO(live_file.stat().st_mode)
        its = measured(offheap("attach", str(process.pid)), SECONDS)
    assert its.status == 2
    assert its.stderr.startswith(f"offheap: PID {process.pid} takes no attach requests"), its.stderr
    assert its.stderr.count("\n") == 1


# ---- opened files ----------------------------------------------------------------------------------


def _opened(watched: Path, command: Sequence[str]) -> bool:
    """Whether a command opens the file, by inotify(7)."""
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        assert library.inotify_add_watch(descriptor, os.fsencode(watched), 0x20) > 0  # IN_OPEN
        subprocess.run(command, capture_output=True, timeout=SECONDS, check=True)
        try:
            return bool(os.read(descriptor, 4096))
        except BlockingIOError:
            return False
    finally:
        os.close(descriptor)


def test_a_module_that_is_no_regular_file_is_not_opened(folder: Path) -> None:
    """Opening a device may have an effect: rewind a tape, arm a watchdog."""
    os.mkfifo(folder / "device.so")
    writer = LiveFileWriter()
    stack = writer.stack(hook("malloc"), native(writer.module(str(folder / "device.so"), b"\1" * 20), 0x100))
    writer.block(0x1000, 100, stack)
    live_file = writer.write(folder / "a.live")
    command = offheap("summary", live_file)
    assert _opened(live_file, command)
    assert not _opened(folder / "device.so", command)


def test_below_another_root_links_lead_nowhere_else(folder: Path) -> None:
    """An absolute link in a container stays within the container's root."""
    jail = folder / "jail"
    (jail / "etc").mkdir(parents=True)
    (jail / "etc" / "release").write_text("theirs")
    (folder / "etc").mkdir()
    (jail / "absolute").symlink_to("/etc/release")
    (jail / "upwards").symlink_to("../../../../etc/release")
    (jail / "magic").symlink_to("/proc/self/exe")
    needs.root("to change the root directory")
    code = f"os.chroot({str(jail)!r})"
    script = f"import os, sys; {code}; print('ready', flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        for name in ("absolute", "upwards", "etc/../absolute"):
            assert opening.head(root.through(process.pid, f"/{name}"), 100) == b"theirs"
        with pytest.raises(OSError):
            opening.head(root.through(process.pid, "/magic"), 100)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("old", [False, True], ids=["openat2", "older kernels"])
def test_what_the_helper_opens(old: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if old:
        # ENOSYS, as from a kernel before 5.6; a seccomp filter without the call returns EPERM.
        monkeypatch.setattr(opening, "_openat2", lambda *arguments: (-1, 38))
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "far").symlink_to(file)
    os.mkfifo(tmp_path / "fifo")
    for name in ("file", "link", "far", "../" + tmp_path.name + "/file"):
        assert opening.head(tmp_path / name, 3) == b"123"
        assert opening.head(f"/proc/self/root{tmp_path}/{name}", 9) == b"12345"
    with opening.regular(file, follow=False) as opened:
        assert opened.status.st_size == 5
    for place in (tmp_path, f"/proc/self/root{tmp_path}"):
        assert stat.S_ISREG(opening.status(f"{place}/far").st_mode)
        assert stat.S_ISLNK(opening.status(f"{place}/far", follow=False).st_mode)
        assert opening.space(place).f_blocks == os.statvfs(tmp_path).f_blocks
    with pytest.raises(NotADirectoryError):
        opening.space(file)
    refused = {"fifo": {}, "link": {"follow": False}, "file": {"most": 4}, ".": {}, "loop": {}, "file/x": {}}
    for name, options in refused.items():
        with pytest.raises(OSError):
            opening.regular(tmp_path / name, **options).close()  # type: ignore[arg-type]
    with pytest.raises(opening.Refused, match="belongs to another user"):
        opening.regular(file, owners={os.getuid() + 1})
    for magic in ("/proc/self/fd/0", "/proc/self/exe", "/proc/self/root/proc/self/exe"):
        with pytest.raises(OSError):
            opening.regular(magic)
    with pytest.raises(OSError, match="Invalid argument"):
        opening.head(f"{tmp_path}/file\0x", 3)
    assert opening.head("/proc/mounts", 100)
    with pytest.raises(opening.Refused):
        opening.regular("/dev/zero")


# ---- sizes -----------------------------------------------------------------------------------------


def sparse_libjvm(path: Path, size: int) -> None:
    """An ELF file whose exported symbols fill `size` bytes of holes: the disk stores none."""
    names = b"\0.dynsym\0.dynstr\0.shstrtab\0"
    strings = b"\0gHotSpotVMStructs\0"
    rows = size // 24
    table_at, strings_at, names_at, headers_at = 4096, 64, 256, 512
    end = table_at + rows * 24
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, 62, 1, 0, 1024, headers_at, 0, 64, 56, 1, 64, 4, 3
    )
    sections = [
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (names.index(b".dynsym"), 11, 2, 0, table_at, rows * 24, 2, 0, 8, 24),
        (names.index(b".dynstr"), 3, 2, 0, strings_at, len(strings), 0, 0, 1, 0),
        (names.index(b".shstrtab"), 3, 0, 0, names_at, len(names), 0, 0, 1, 0),
    ]
    with path.open("wb") as file:
        file.write(header)
        for at, data in (
            (strings_at, strings),
            (names_at, names),
            (headers_at, b"".join(struct.pack("<IIQQQQIIQQ", *row) for row in sections)),
            (1024, struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, end, end, 4096)),
        ):
            file.seek(at)
            file.write(data)
        file.truncate(end)


def test_a_sparse_libjvm(folder: Path) -> None:
    library = fake_jdk(folder / "X")
    sparse_libjvm(library, 1900 << 20)
    own(library)
    with ElfImage.open(library) as image:
        assert image.section(".dynsym")
    with hostile_process(library) as process:
        its = measured(offheap("where", str(process.pid), "--no-attach"), SECONDS)
    assert its.status == 0, its.stderr
    assert its.peak_bytes < 400 << 20
    assert its.seconds < SECONDS / 2


def test_many_large_modules_do_not_add_up(tmp_path: Path) -> None:
    """A recording may name one large file by a thousand names."""
    sparse_libjvm(tmp_path / "libjvm.so", 40 << 20)
    code = (
        "import sys; from offheap.symbols import Symbolizer\n"
        "symbolizer = Symbolizer(debug_directories=(), dwarf=False)\n"
        "for n in range(30): symbolizer.resolve(sys.argv[1] + '/.' * n + '/libjvm.so', '', [0x1000])\n"
        "print(set(symbolizer.problems.values()))"
    )
    its = measured([sys.executable, "-c", code, str(tmp_path)], SECONDS)
    assert "the symbols of all modules exceed 384 MiB" in its.stdout, its.stderr
    assert its.peak_bytes < 1200 << 20


def test_a_dump_that_grows_while_it_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size is checked when it is opened; the files of /proc have more than the size that they state."""
    monkeypatch.setattr(request, "MOST_BYTES", 1000)
    grown, output = Path("/proc/self/smaps"), tmp_path / "jeprof.1.0.m0.heap"
    assert grown.stat().st_size == 0
    with pytest.raises(UserError, match=f"{grown}: grows beyond 1000 bytes"):
        request._copy(grown, status.read(os.getpid()), output)
    assert not output.exists()
    fits = Path("/proc/self/comm")
    request._copy(fits, status.read(os.getpid()), output)
    assert output.read_bytes() == fits.read_bytes()


# ---- a file system that never answers --------------------------------------------------------------


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[Path]:
    """A FUSE file system whose server reads no request: any lookup in it blocks for ever."""
    needs.root("to mount a file system")
    place = tmp_path / "silent"
    place.mkdir()
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        needs.skip(f"/dev/fuse ({error.strerror})", needs.MOUNTS)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    library = ctypes.CDLL(None, use_errno=True)
    if library.mount(b"silent", os.fsencode(place), b"fuse", 0, options) != 0:
        os.close(device)
        needs.skip(f"a FUSE file system ({os.strerror(ctypes.get_errno())})", needs.MOUNTS)
    try:
        yield place
    finally:
        os.close(device)  # ends every waiting process
        library.umount2(os.fsencode(place), 2)


def test_a_file_system_that_never_answers(silent: Path, folder: Path) -> None:
    library = fake_jdk(folder / "X")
    (folder / "X" / "release").symlink_to(silent / "release")
    with hostile_process(library) as process:
        began = time.monotonic()
        found = json.loads(run("ps", "--json"))["jvms"]
        assert process.pid in {jvm["pid"] for jvm in found}
        assert time.monotonic() - began < SECONDS / 2
    with pytest.raises(TimeoutError, match="did not answer within"):
        opening.regular(silent / "x")


def test_a_perf_map_in_a_folder_that_never_answers(silent: Path) -> None:
    """JDK 17 and 21 write /tmp/perf-PID.map; offheap removes it only if it was not there before."""
    with pytest.raises(UserError, match=r"perf map of PID 7, .*did not answer within"):
        perf_maps._exists(7, silent / "perf-7.map")


def test_another_users_file_is_no_live_file(folder: Path) -> None:
    """A process may map any user's file; its own live file belongs to its own user."""
    needs.root("to have another user's process")
    writer = LiveFileWriter()
    live_file = writer.write(folder / "offheap-1-0123456789abcdef.live")
    library = folder / "liboffheap.so"
    library.write_bytes(b"a name\n")
    with hostile_process() as process:
        maps = [mapping(library, library.stat().st_ino, "r-xp"), mapping(live_file, live_file.stat().st_ino)]
        os.chown(live_file, NOBODY_UID, NOBODY_UID)
        loaded = control.loaded(process.pid, maps)
        assert loaded
        assert loaded.live_file == live_file
        os.chown(live_file, 12345, 12345)
        loaded = control.loaded(process.pid, maps)
        assert loaded
        assert loaded.live_file is None
