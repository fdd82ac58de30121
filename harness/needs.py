"""What a test needs of the machine and how to get it: the one place that words the reasons of skips.

Each reason reads "needs WHAT: REMEDY".  skip_summary.py adds the remedies up at the end of a run.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import pty
import re
import shutil
import subprocess
from collections.abc import Sequence
from ctypes.util import find_library
from pathlib import Path
from typing import NoReturn

import pytest

APT = "apt-get install "
ROOT = "run as root"
NAMESPACES = "run where root may make namespaces, which a chroot and most containers refuse"
MOUNTS = "run where root may mount file systems"
TRACING = "run as root, or set kernel.yama.ptrace_scope to 0"
JRES = "make jres"
X86_64 = "run on x86-64"
JDK = APT + "openjdk-17-jdk-headless, or set JAVA_HOME"
READABLE = "clone to a folder that every user may read"
WHOLE = "run the whole test file"
UPROBES = "run on a kernel that lets root trace by uprobes"
INTERNET = "run where the package registries of Maven and npm can be reached"

# Debian's package, where it is not named like the program or library.
PACKAGES = {
    "addr2line": "binutils",
    "as": "binutils",
    "cc": "gcc",
    "c++filt": "binutils",
    "flamegraph.pl": "libdevel-nytprof-perl",
    "g++": "g++",
    "go": "golang-go",
    "gcore": "gdb",
    "heaptrack_print": "heaptrack",
    "jdb": "openjdk-17-jdk-headless",
    "ld": "binutils",
    "libc_malloc_debug": "libc6",
    "mkfs.ext4": "e2fsprogs",
    "mount": "mount",
    "ms_print": "valgrind",
    "mtrace": "libc-devtools",
    "mvn": "maven",
    "nm": "binutils",
    "objcopy": "binutils",
    "objdump": "binutils",
    "perf": "linux-perf",
    "qemu-aarch64-static": "qemu-user-static",
    "readelf": "binutils",
    "strip": "binutils",
    "jeprof": "libjemalloc-dev",
    "libatomic": "libatomic1",
    "libjemalloc": "libjemalloc2",
    "libtcmalloc": "libgoogle-perftools4",
    "libmimalloc": "libmimalloc2.0",
}


Skipped = pytest.skip.Exception


def reason(what: str, remedy: str) -> str:
    return f"needs {what}: {remedy}"


def skip(what: str, remedy: str) -> NoReturn:
    # The report shows the place of the test, not this one.
    raise Skipped(reason(what, remedy), _use_item_location=True)


def unless(present: bool, what: str, remedy: str) -> pytest.MarkDecorator:
    """The mark of a test that runs only where `present`."""
    return pytest.mark.skipif(not present, reason=reason(what, remedy))


def apt(*names: str) -> str:
    """The remedy for missing programs and libraries."""
    return APT + " ".join(dict.fromkeys(PACKAGES.get(name, name) for name in names))


def program(name: str, why: str = "") -> str:
    """The path of a program."""
    path = shutil.which(name)
    if path is None:
        skip(f"{name} ({why})" if why else name, apt(name))
    return path


def remedied_program(name: str, remedy: str) -> str:
    """The path of a program that no package of Debian has."""
    path = shutil.which(name)
    if path is None:
        skip(name, remedy)
    return path


def shared_library(name: str) -> str:
    """The file name of a library, such as libjemalloc.so.2 for jemalloc."""
    found = find_library(name)
    if found is None:
        skip(f"lib{name}", apt(f"lib{name}"))
    return found


def module(name: str, remedy: str) -> None:
    if importlib.util.find_spec(name) is None:
        skip(f"Python's {name}", remedy)


def playwright() -> None:
    """Playwright's own Node starts. Minimal systems lack a library that it is linked with."""
    module("playwright", "pip install playwright")
    import playwright

    node = Path(playwright.__file__).parent / "driver" / "node"
    outcome = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60)
    missing = re.search(r"(lib[\w+-]+)\.so[.\d]*: cannot open shared object", outcome.stderr)
    if missing:
        skip(f"{missing[1]} for Playwright's Node", apt(missing[1]))
    assert outcome.returncode == 0, outcome.stderr


def terminal() -> tuple[int, int]:
    """A pseudo-terminal's two ends."""
    try:
        return pty.openpty()
    except OSError as error:
        skip(f"a pseudo-terminal ({error})", "mount devpts at /dev/pts")


def jre(version: int, present: object) -> None:
    if not present:
        skip(f"a JRE {version} in .jres", JRES)


def jdk(version: int) -> NoReturn:
    """Skips: no JDK (javac and jni.h) of that version or newer was found."""
    if version <= 17:
        skip(f"a JDK {version} or newer", JDK)
    skip(f"a JDK {version} or newer to compile with", f"set JAVA_HOME to a JDK {version} or newer")


def root(why: str) -> None:
    if os.geteuid() != 0:
        skip(f"root {why}", ROOT)


def namespaces(*kinds: str) -> None:
    """Namespaces of these kinds for root: "mount", "pid", each an option of unshare."""
    root("to make namespaces")
    program("unshare")
    refusal = _unshare(kinds)
    if refusal:
        skip(f"a namespace of its own ({refusal})", NAMESPACES)


@functools.cache
def _unshare(kinds: Sequence[str]) -> str:
    """The reason why unshare refuses, or ""."""
    # The tests mount a file system there.
    do = ["sh", "-c", 'mount -t tmpfs none /mnt && test "$(ls /mnt)" = ""'] if "mount" in kinds else ["true"]
    options = [f"--{kind}" for kind in kinds] + (["--fork"] if "pid" in kinds else [])
    if "pid" in kinds and "mount" in kinds:
        options.append("--mount-proc")
    outcome = subprocess.run(["unshare", *options, *do], capture_output=True, text=True, timeout=60)
    return _refusal(outcome)


def _refusal(outcome: subprocess.CompletedProcess[str]) -> str:
    lines = outcome.stderr.strip().splitlines() or [f"status {outcome.returncode}"]
    return lines[0] if outcome.returncode else ""


def mounted(command: Sequence[str | os.PathLike[str]]) -> None:
    """Mounts; `command` is mount's or mkfs's."""
    root("to mount a file system")
    program(os.fspath(command[0]))
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if outcome.returncode != 0:
        skip(f"a small file system ({_refusal(outcome)})", MOUNTS)


def readable_by(command: Sequence[str], path: Path | str, *arguments: str) -> None:
    """The user that `command` becomes may read this checkout, or run what follows."""
    outcome = subprocess.run([*command, path, *arguments], capture_output=True, text=True, timeout=60)
    if outcome.returncode != 0:
        skip("a checkout that another user may read", READABLE)


def _may_see_stacks(pid: int) -> bool:
    """Whether this user may see stack pointers and the memory, like a debugger."""
    try:
        Path(f"/proc/{pid}/syscall").read_bytes()
    except OSError:
        return False
    return True


on_x86_64 = unless(platform.machine() == "x86_64", "x86-64", X86_64)
tracing = unless(_may_see_stacks(os.getppid()), "the right to trace another process", TRACING)
as_root = unless(os.geteuid() == 0, "root", ROOT)
