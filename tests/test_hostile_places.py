"""Where the probe lacks what it would like to have: the program runs as without it, losses are stated."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import soak
from offheap import recording
from seccomp import forbid
from waiting_jvm import NOBODY

PRINTED = """\
ready
threads 200
loaders 100
virtual 400
nulls 4000
overflows 20
children 8
redefinitions 8
"""
ALLOCATING = """
import ctypes, sys, threading
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
def leak(): [libc.malloc(5000) for _ in range(2000)]
threads = [threading.Thread(target=leak) for _ in range(3)]
[t.start() for t in threads]; [t.join() for t in threads]
print("lived")
"""


@pytest.fixture(scope="module")
def jar(jdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return soak.compile_stress(jdk, tmp_path_factory.mktemp("hostile"))


def stress(
    java: Path, jar: Path, library: Path, options: str, before: Callable[[], object] = lambda: None
) -> None:
    """Runs the stress program under the probe; `before` is called between the JVM's start and the stress."""
    process = subprocess.Popen(
        [java, "-Xmx192m", "-XX:+UseSerialGC", f"-javaagent:{jar}", "-cp", jar, "Stress", "50", "return"],
        env={**os.environ, "LD_PRELOAD": str(library), "OFFHEAP": options},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        first = process.stdout.readline()
        before()
        rest, complaints = process.communicate("\n", timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, complaints
    assert first + rest == PRINTED


def allocate(
    library: Path, options: str, *, script: str = ALLOCATING, before: Callable[[], object] | None = None
) -> str:
    """Runs a Python program that leaves 6,000 blocks of 5,000 bytes; returns what stands on stderr."""
    outcome = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "LD_PRELOAD": str(library), "OFFHEAP": options},
        preexec_fn=before,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (outcome.returncode, outcome.stdout) == (0, "lived\n"), outcome.stderr
    return outcome.stderr


def leaked(folder: Path) -> int:
    (file,) = folder.glob("*.live")
    return int((recording.load(file).live["size"] == 5000).sum())


def test_full_tables(jre: Callable[[int], Path], jar: Path, probe_library: Path, tmp_path: Path) -> None:
    stress(jre(21), jar, probe_library, f"exact,blocks=1024,stacks=256,dir={tmp_path}")
    (file,) = tmp_path.glob("*.live")
    lost = recording.load(file).info.lost
    assert lost["lost_blocks"] > 1000
    assert lost["lost_stacks"] > 100


@pytest.fixture
def small_tmpfs(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("needs root to mount a small tmpfs")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_file_system_that_fills_up(
    jre: Callable[[int], Path], jar: Path, probe_library: Path, small_tmpfs: Path
) -> None:
    """The live file gets its pages as it needs them: where none are left, a write would be SIGBUS."""

    def fill() -> None:
        with open(small_tmpfs / "filler", "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(bytes(4096))
            except OSError:
                pass

    stress(jre(17), jar, probe_library, f"interval=64,stacks=16384,dir={small_tmpfs}", fill)
    (file,) = small_tmpfs.glob("*.live")
    lost = recording.load(file).info.lost
    assert lost.get("lost_stacks", 0) > 0, lost


@pytest.fixture
def small_cgroup(tmp_path: Path) -> Iterator[Path]:
    """cgroup.procs of a group that may have 96 MiB and no swap; of version 1 or 2."""
    trees = {"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"}
    name = f"offheap-test-{os.getpid()}"
    for tree, limit in trees.items():
        group = Path(tree) / name
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            for file in (limit, "memory.memsw.limit_in_bytes", "memory.swap.max"):
                if (group / file).exists():
                    (group / file).write_text("0" if "swap.max" in file else str(96 << 20))
            if (group / limit).exists():
                yield group / "cgroup.procs"
                return
        finally:
            group.rmdir()
    pytest.skip("no memory cgroup can be made here")


def test_the_memory_limit_of_its_cgroup(probe_library: Path, small_cgroup: Path) -> None:
    """The kernel kills what leaks, as it would without the probe; all that was recorded can be read."""
    script = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
count = 0
while True:
    for _ in range(100): ctypes.memset(libc.malloc(5000), 1, 5000)
    count += 100
    print(count, flush=True)
"""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="offheap-test-") as folder:
        outcome = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "LD_PRELOAD": str(probe_library), "OFFHEAP": f"exact,dir={folder}"},
            preexec_fn=lambda: small_cgroup.write_text(str(os.getpid())),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert outcome.returncode == -signal.SIGKILL, outcome.stderr
        told = int(outcome.stdout.split()[-1])
        assert told > 5000
        assert told <= leaked(Path(folder)) <= told + 100


def test_no_address_space(probe_library: Path, tmp_path: Path) -> None:
    """Room for the program and not for the live file: nothing is recorded."""
    limit = 600 << 20
    before = lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))  # noqa: E731
    said = allocate(probe_library, f"exact,blocks=67108864,dir={tmp_path}", before=before)
    assert said == "offheap: there is no address space for the live file; nothing is recorded\n"
    assert not list(tmp_path.iterdir())


def test_no_file_descriptors(probe_library: Path, tmp_path: Path) -> None:
    """/proc/self/maps cannot be opened any more, by which stacks of threads and of libraries are found."""
    script = "import os\ntry:\n  while True: os.dup(1)\nexcept OSError: pass\n" + ALLOCATING
    script = "import ctypes, threading\n" + script  # what takes a descriptor itself
    before = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))  # noqa: E731
    allocate(probe_library, f"exact,dir={tmp_path}", script=script, before=before)
    assert leaked(tmp_path) == 6000


# What the probe asks of the kernel beyond what every program does; seccomp(2) numbers of x86-64.
WISHES = {
    "madvise": 28,
    "fstatfs": 138,
    "prctl": 157,
    "fallocate": 285,
    "process_vm_readv": 310,
    "membarrier": 324,
    "rseq": 334,
}

# Without them it could not tell a full disk, or keep a forked child out of its parent's live file.
REFUSED = ("madvise", "fstatfs", "all")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="system call numbers are x86-64's")
@pytest.mark.parametrize("wish", [*WISHES, "all"])
def test_seccomp(wish: str, probe_library: Path, tmp_path: Path) -> None:
    numbers = list(WISHES.values()) if wish == "all" else [WISHES[wish]]
    said = allocate(probe_library, f"exact,dir={tmp_path}", before=lambda: forbid(numbers))
    if wish in REFUSED:
        assert not list(tmp_path.iterdir())
        assert "; nothing is recorded\n" in said
    else:
        assert leaked(tmp_path) == 6000
        assert not said


@pytest.mark.parametrize("kind", ["link", "file", "folder"])
def test_what_is_planted_in_the_place_of_the_live_file(
    kind: str, probe_library: Path, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    place = tmp_path / "a.live"
    if kind == "link":
        place.symlink_to(precious)
    elif kind == "file":
        place.write_text("x")
    else:
        place.mkdir()
    said = allocate(probe_library, f"exact,file={place}")
    assert said == "offheap: the live file cannot be made; nothing is recorded\n"
    assert precious.read_text() == "precious"
    assert place.is_symlink() or place.is_dir() or place.read_text() == "x"


@pytest.mark.parametrize("name", ["a b", "ö\n\x1b[31m", "x" * 200])
def test_odd_folders(name: str, probe_library: Path, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    allocate(probe_library, f"exact,dir={folder}")
    assert leaked(folder) == 6000


def test_a_set_user_id_program_records_nothing(probe_library: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to make a program set-user-ID")
    tmp_path.chmod(0o777)
    program = Path(shutil.copy(shutil.which("env") or "/usr/bin/env", "/var/tmp/offheap-set-user-id"))
    try:
        program.chmod(0o4755)
        live = Path("/var/tmp/offheap-set-user-id-live")
        live.mkdir(mode=0o777, exist_ok=True)
        live.chmod(0o777)
        outcome = subprocess.run(
            [*NOBODY, program, "echo", "lived"],
            env={
                "PATH": os.environ["PATH"],
                "LD_PRELOAD": str(probe_library),
                "OFFHEAP": f"exact,search=1,dir={live}",
            },
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert outcome.stdout == "lived\n", outcome.stderr
        assert not [file for file in live.iterdir() if file.stat().st_uid == 0]
    finally:
        program.unlink()
        shutil.rmtree("/var/tmp/offheap-set-user-id-live", ignore_errors=True)
