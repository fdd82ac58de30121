"""Programs that lack resources the probe wants: they run as without the probe, and losses are stated."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import needs
from harness.hostile.seccomp import WISHES, forbid
from harness.hostile.small_places import memory_cgroup
from harness.jvms.waiting_jvm import NOBODY
from harness.native.compiler import compile_c
from harness.paths import AGENTS
from offheap import recording

ALLOCATING = """
import ctypes, sys, threading
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
def leak(): [libc.malloc(5000) for _ in range(2000)]
threads = [threading.Thread(target=leak) for _ in range(3)]
[t.start() for t in threads]; [t.join() for t in threads]
print("lived")
"""


def allocate(
    library: Path, options: str, *, script: str = ALLOCATING, before: Callable[[], object] | None = None
) -> str:
    """Runs a Python program that leaves 6,000 blocks of 5,000 bytes; returns its stderr."""
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


def test_the_memory_limit_of_its_cgroup(probe_library: Path) -> None:
    """The kernel kills the leaking program, as it would without the probe; all records are readable."""
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
    with (
        memory_cgroup() as group,
        tempfile.TemporaryDirectory(dir="/dev/shm", prefix="offheap-test-") as folder,
    ):
        group.limit(96 << 20)
        outcome = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "LD_PRELOAD": str(probe_library), "OFFHEAP": f"exact,dir={folder}"},
            preexec_fn=group.enter,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert outcome.returncode == -signal.SIGKILL, outcome.stderr
        told = int(outcome.stdout.split()[-1])
        assert told > 5000
        assert told <= leaked(Path(folder)) <= told + 100


def test_no_address_space(probe_library: Path, tmp_path: Path) -> None:
    """Room for the program but not for the live file: nothing is recorded."""
    limit = 600 << 20
    before = lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))  # noqa: E731
    said = allocate(probe_library, f"exact,blocks=67108864,dir={tmp_path}", before=before)
    assert said == "offheap: there is no address space for the live file; nothing is recorded\n"
    assert not list(tmp_path.iterdir())


def test_address_space_for_the_live_file_and_little_more(probe_library: Path, tmp_path: Path) -> None:
    """If the live file's tables do not fit, the live file must not stay behind."""
    variables = {"LD_PRELOAD": str(probe_library), "OFFHEAP": f"stacks=1048576,dir={tmp_path}"}

    def run(limit: int) -> tuple[str, list[Path]]:
        outcome = subprocess.run(
            ["true"],  # takes no memory of its own
            env={**os.environ, **variables},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert outcome.returncode == 0, outcome.stderr
        return outcome.stderr, list(tmp_path.glob("*.live"))

    said, (whole,) = run(resource.RLIM_INFINITY)
    assert not said
    limit = whole.stat().st_size
    whole.unlink()
    refusals = 0
    # The step is smaller than the tables (8 MiB).
    while (answer := run(limit))[0]:
        assert answer == ("offheap: there is no address space for the live file; nothing is recorded\n", [])
        refusals += 1
        limit += 2 << 20
    assert 4 < refusals < 100


def test_address_space_that_runs_out(probe_library: Path, tmp_path: Path) -> None:
    """It runs out during the recording: malloc gives as much as without the probe, then NULL."""
    program = compile_c([AGENTS / "fill.c"], tmp_path / "fill", libraries=["pthread"])
    counts: list[int] = []
    for variables in ({}, {"LD_PRELOAD": str(probe_library), "OFFHEAP": f"exact,dir={tmp_path}"}):
        outcome = subprocess.run(
            [program],
            # Chance decides whether a second arena (64 MiB) fits.
            env={**os.environ, "GLIBC_TUNABLES": "glibc.malloc.arena_max=1", **variables},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (outcome.returncode, outcome.stderr) == (0, "")
        counts.append(int(outcome.stdout))
    without, told = counts
    assert leaked(tmp_path) == told
    assert told > 10_000
    assert abs(told - without) < 100


def test_no_file_descriptors(probe_library: Path, tmp_path: Path) -> None:
    """The probe finds stacks of threads and libraries by /proc/self/maps, which cannot be opened here."""
    script = "import os\ntry:\n  while True: os.dup(1)\nexcept OSError: pass\n" + ALLOCATING
    script = "import ctypes, threading\n" + script  # modules that take a descriptor themselves
    before = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))  # noqa: E731
    allocate(probe_library, f"exact,dir={tmp_path}", script=script, before=before)
    assert leaked(tmp_path) == 6000


# Without these two the probe could not notice a full disk, or keep a forked child out of the live file.
REFUSED = ("madvise", "fstatfs", "all")


@needs.on_x86_64  # system call numbers
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
    assert said == f"offheap: cannot create {place}: the file exists; nothing is recorded\n"
    assert precious.read_text() == "precious"
    assert place.is_symlink() or place.is_dir() or place.read_text() == "x"


def test_a_path_sends_no_control_characters_to_a_terminal(probe_library: Path, tmp_path: Path) -> None:
    said = allocate(probe_library, f"exact,file={tmp_path}/\x1b[31m/\n.live")
    assert said == f"offheap: cannot create {tmp_path}/?[31m/?.live: no such directory; nothing is recorded\n"


@pytest.mark.parametrize("name", ["a b", "ö\n\x1b[31m", "x" * 200])
def test_odd_folders(name: str, probe_library: Path, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    allocate(probe_library, f"exact,dir={folder}")
    assert leaked(folder) == 6000


def test_a_set_user_id_program_does_not_load_it(probe_library: Path, tmp_path: Path) -> None:
    """By a path, as in `offheap run`; the dynamic linker refuses it."""
    needs.root("to make a program set-user-ID")
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


# Libraries that glibc ships and no program needs.
SPARE = ("libpcprofile.so", "libmemusage.so")

# In a mount namespace of its own: the probe replaces a library in one of glibc's trusted folders, and has
# the mode bit that lets set-user-ID programs load it.
TRUSTED = """
set -e
mount -t tmpfs -o size=64m,mode=755 none "$1"
cp "$2" "$1/probe" && chmod 4755 "$1/probe" && mount --bind "$1/probe" "$3"
cp "$(command -v cat)" "$1/cat" && chmod "$4" "$1/cat"
mkdir -m 777 "$1/live"
setpriv --reuid=65534 --regid=65534 --clear-groups \\
    env LD_PRELOAD="${3##*/}" OFFHEAP="dir=$1/live" "$1/cat" /proc/self/maps /proc/self/status
echo files: $(ls "$1/live" | wc -l)
"""


# The first case shows that the probe records, the second that it is loaded and does not record.
@pytest.mark.parametrize(("mode", "user", "files"), [("755", 65534, 1), ("4755", 0, 0)])
def test_a_set_user_id_program_that_loads_it(mode: str, user: int, files: int, probe_library: Path) -> None:
    needs.namespaces("mount")
    with open("/proc/self/maps") as maps:
        folder = next(Path(line.split()[-1]).parent for line in maps if re.search(r"/libc[.-]", line))
    spare = next((folder / name for name in SPARE if (folder / name).exists()), None)
    if spare is None:
        needs.skip(f"one of {', '.join(SPARE)} in {folder}", needs.apt("libc6"))
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="offheap-set-user-id-") as place:
        outcome = subprocess.run(
            ["unshare", "--mount", "sh", "-c", TRUSTED, "sh", place, probe_library, spare, mode],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert f"/{spare.name}\n" in outcome.stdout
    assert re.search(rf"^Uid:\t65534\t{user}\t", outcome.stdout, re.MULTILINE)
    assert outcome.stdout.endswith(f"\nfiles: {files}\n")
