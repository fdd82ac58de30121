"""A forked child of a recorded process is not in the parent's recording, and cannot stop it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.native.compiler import compile_c
from harness.paths import JAVA
from offheap import recording
from offheap.errors import UserError
from offheap.jvm.listener.attach import AttachedVM
from offheap.probe import control

SOURCES = JAVA

# A function that ctypes gets from dlsym before a start is not the probe's.
PROGRAM = """
import ctypes, os, sys
probe = ctypes.CDLL(sys.argv[1])
def libc():
    found = ctypes.CDLL(None)
    found.malloc.restype = found.mmap.restype = ctypes.c_void_p
    found.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return found
start = lambda name: probe.offheap_start(f"exact,file={sys.argv[2]}/{name}.live".encode())
def child(do):
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = do()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def run(script: str, library: Path, folder: Path) -> list[int]:
    outcome = subprocess.run(
        [sys.executable, "-c", PROGRAM + script, library, folder], capture_output=True, text=True, timeout=60
    )
    assert outcome.returncode == 0, outcome.stderr
    return [int(word) for word in outcome.stdout.split()]


def test_a_child_neither_stops_nor_starts(probe_library: Path, tmp_path: Path) -> None:
    script = (
        "answers = [start('parent'), child(probe.offheap_stop), child(lambda: start('child'))]\n"
        "print(*answers, probe.offheap_stop())"
    )
    assert run(script, probe_library, tmp_path) == [0, 106, 111, 0]
    assert [file.name for file in tmp_path.iterdir()] == ["parent.live"]


def test_a_child_of_one_that_was_recorded_before(probe_library: Path, tmp_path: Path) -> None:
    script = """
def record():
    begun = start('child')
    malloc = libc().malloc
    for _ in range(100): malloc(12345)
    return begun or probe.offheap_stop()
print(start('parent'), probe.offheap_stop(), child(record))
"""
    assert run(script, probe_library, tmp_path) == [0, 0, 0]
    assert int((recording.load(tmp_path / "child.live").live["size"] == 12345).sum()) == 100


def test_munmap_of_part_of_a_page(probe_library: Path, tmp_path: Path) -> None:
    script = """
begun = start('mappings')
mapping = libc()
map = lambda: mapping.mmap(None, ctypes.c_size_t(1 << 20), 3, 0x22, -1, ctypes.c_long(0))
gone = sum([mapping.munmap(one, (1 << 20) - 4095) for one in [map() for _ in range(50)]])
kept = map()
print(begun, gone, mapping.munmap(map(), (1 << 20) - 4096), probe.offheap_stop())
"""
    assert run(script, probe_library, tmp_path) == [0, 0, 0, 0]
    live = recording.load(tmp_path / "mappings.live").live
    left = sorted(int(size) for size in live["size"] if size in (1 << 20, 4096, 4095))
    assert left == [4096, 1 << 20]


@pytest.mark.parametrize("version", [11, 25])
def test_a_jvm_in_the_child_of_its_launcher(
    version: int, jre: Callable[[int], Path], jdk: Path, probe_library: Path, tmp_path: Path
) -> None:
    """Daemons start so: the JVM runs as without the probe, and says why it cannot be recorded."""
    subprocess.run(
        [jdk / "bin" / "javac", "--release", "11", "-nowarn", "-d", tmp_path, SOURCES / "Allocations.java"],
        check=True,
        capture_output=True,
        timeout=120,
    )
    include = jdk / "include"
    launcher = compile_c(
        [SOURCES / "embedder.c"],
        tmp_path / "launcher",
        flags=("-DFORKING", f"-I{include}", f"-I{include / 'linux'}"),
    )
    environment = {
        "LIBJVM": str(jre(version).parent.parent / "lib" / "server" / "libjvm.so"),
        "JAVA_TOOL_OPTIONS": "-Dwait=true",
        "LD_PRELOAD": str(probe_library),
        "OFFHEAP": f"exact,dir={tmp_path}",
    }
    process = subprocess.Popen(
        [launcher, tmp_path, "Allocations", "3"],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        assert process.stdin
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
        child = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
        vm = AttachedVM(child)
        answers = [control.ask(vm, str(probe_library), word) for word in ("status", "stop", "start")]
        assert answers == [106, 106, 111]
        with pytest.raises(UserError, match="was inherited by fork"):
            control.start(child)
        rest, complaints = process.communicate("\n\n\n", timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, complaints
    assert rest.splitlines()[-1] == "destroyed"
