"""`offheap mtrace PID`: its answer is what a call of mtrace() did in that process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import needs
from harness.command_line import quiet_environment, run_offheap
from harness.jvms.waiting_jvm import NOBODY

# Maps the file that it is given, as the dynamic linker maps a library, and has a block traced.
PROGRAM = """
#include <fcntl.h>
#include <mcheck.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
int main(int argc, char **argv) {
  if (argc > 1)
    mmap(0, 4096, PROT_READ, MAP_PRIVATE, open(argv[1], O_RDONLY), 0);
  mtrace();
  void *volatile kept = malloc(4000);
  muntrace();
  puts("kept");
  fflush(stdout);
  getchar();
  return !kept;
}
"""
# What libc.so.6 of Debian 11 prints, and has as text; glibc before 2.34 names its file by the version.
DEBIAN_11 = "GNU C Library (Debian GLIBC 2.31-13+deb11u11) stable release version 2.31.\n"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `dynamic` and `static`, the same program."""
    cc = needs.program("cc")
    folder = tmp_path_factory.mktemp("mtrace")
    (folder / "main.c").write_text(PROGRAM)
    for name, options in (("dynamic", ()), ("static", ("-static",))):
        subprocess.run([cc, *options, "-o", name, "main.c"], cwd=folder, check=True, timeout=120)
    return folder


@contextmanager
def running(*command: str | Path, **variables: str) -> Iterator[int]:
    """The PID of the program, which has called mtrace() and holds a block."""
    environment = {**quiet_environment(), **variables}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "kept\n"
            yield process.pid
        finally:
            process.communicate("\n", timeout=60)


def answer(pid: int) -> tuple[str, dict[str, object]]:
    """For people and in JSON."""
    value = json.loads(run_offheap("mtrace", pid, "--json").stdout)
    assert value["pid"] == pid
    return run_offheap("mtrace", pid).stdout, value


def test_a_program_under_libc_malloc_debug_has_a_log(programs: Path, tmp_path: Path) -> None:
    needs.shared_library("c_malloc_debug")
    log = tmp_path / "mtrace.log"
    with running(programs / "dynamic", LD_PRELOAD="libc_malloc_debug.so.0", MALLOC_TRACE=str(log)) as pid:
        said, value = answer(pid)
        assert "0xfa0" in log.read_text()
    assert (value["preloaded"], value["ignored"], value["log"]) == (True, False, str(log))
    assert f"and libc_malloc_debug: mtrace(), once called, writes to {log}" in said


def test_without_a_log_no_variable_is_named(programs: Path) -> None:
    needs.shared_library("c_malloc_debug")
    with running(programs / "dynamic", LD_PRELOAD="libc_malloc_debug.so.0") as pid:
        said, value = answer(pid)
    assert value["log"] is None
    assert "writes only if MALLOC_TRACE was set, which it is not" in said


def test_a_plain_program_is_answered_by_its_glibc(programs: Path, tmp_path: Path) -> None:
    """glibc 2.34 and later write no log; the commands instead are those for a program that is no JVM."""
    log = tmp_path / "mtrace.log"
    with running(programs / "dynamic", MALLOC_TRACE=str(log)) as pid:
        said, value = answer(pid)
        assert value["ignored"] is not log.exists()
    assert f"glibc {value['glibc']}" == os.confstr("CS_GNU_LIBC_VERSION")
    assert (value["preloaded"], value["log"]) == (False, str(log))
    assert ("does nothing unless libc_malloc_debug.so.0 was preloaded" in said) is value["ignored"]
    record = "offheap run --exact -o app.offheap -- COMMAND"
    assert value["instead"] == [record, "offheap export app.offheap --format mtrace-summary -o -"]
    assert record in said
    assert "from the start of the program" in said


def test_glibc_before_2_34_needs_no_preload(programs: Path, tmp_path: Path) -> None:
    """GIVEN a process whose only libc is a file of glibc 2.31's name and banner THEN mtrace() works in it."""
    library = tmp_path / "libc-2.31.so"
    library.write_text(DEBIAN_11)
    with running(programs / "static", library) as pid:
        said, value = answer(pid)
    assert (value["glibc"], value["ignored"], value["preloaded"]) == ("2.31", False, False)
    assert f"PID {pid} has glibc 2.31: mtrace(), once called, writes" in said


def test_a_static_program_has_no_known_glibc(programs: Path) -> None:
    with running(programs / "static") as pid:
        said, value = answer(pid)
    assert (value["glibc"], value["ignored"]) == (None, False)
    assert f"PID {pid} has no glibc that is known" in said


def test_no_such_process() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait(60)
    said = run_offheap("mtrace", process.pid, expect=2).stderr
    assert f"there is no process {process.pid}" in said
    assert len(said.splitlines()) == 1


def test_another_users_process(programs: Path) -> None:
    needs.root("to be two users")
    needs.readable_by(NOBODY, sys.executable, "-c", "import offheap")
    with running(programs / "dynamic") as pid:
        command = [*NOBODY, sys.executable, "-m", "offheap", "mtrace", str(pid)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"PID {pid} belongs to another user; run offheap as that user, or as root" in done.stderr
    assert len(done.stderr.splitlines()) == 1
