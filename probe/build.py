"""Compiles the C below probe/ into liboffheap.so with zig, which brings clang, a linker and glibc stubs.

    python probe/build.py                       build what changed into src/offheap/_lib
    python probe/build.py --machine aarch64 -o build/aarch64/liboffheap.so

The packaging hook, an editable install (which rebuilds when the C has changed) and the tests use
it, so that all run the same library.  Tests and examples call `compile_native` to build native
code on a machine without a C compiler.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

PROBE = Path(__file__).resolve().parent
LIBRARY = PROBE.parent / "src" / "offheap" / "_lib" / "liboffheap.so"
MACHINES = ("x86_64", "aarch64")
# The oldest glibc of manylinux2014.
GLIBC = "2.17"
TIME_LIMIT_SECONDS = 600

FLAGS = (
    "-std=c17",
    "-O2",
    # Recording one block calls a dozen small functions in as many files: the calls take 10 ns.
    "-flto",
    # .symtab stays, so that a crash report names the probe's functions; lines would double the size.
    "-g0",
    "-shared",
    # HotSpot unloads a library whose Agent_OnAttach fails, while another thread may run one of its events.
    "-Wl,-z,nodelete",
    "-fPIC",
    "-fvisibility=hidden",
    # Profilers, debuggers and the probe's own unwinder must be able to walk through the probe.
    "-fno-omit-frame-pointer",
    # Except through the hooks' fast paths, which call nothing.
    "-momit-leaf-frame-pointer",
    "-fasynchronous-unwind-tables",
    # The default model of a shared library calls __tls_get_addr, which allocates: inside malloc.
    "-ftls-model=initial-exec",
    "-fno-plt",
    # zig turns UBSan traps on for C; a trap would end a production JVM.
    "-fno-sanitize=undefined",
    "-fstack-protector-strong",
    "-Wall",
    "-Wextra",
    "-Werror=implicit-function-declaration",
    # Lazy binding would resolve a symbol, and so allocate, in the middle of a hook.
    "-Wl,-z,now",
    "-Wl,-z,relro",
    # An undefined symbol would stop the host at start-up, before main().
    "-Wl,-z,defs",
    "-Wl,-z,noexecstack",
    "-Wl,--build-id=sha1",
    "-Wl,-soname,liboffheap.so",
    "-lpthread",
    "-ldl",
)


class BuildError(Exception):
    """The compiler is missing or fails; the message is for a person."""


def sources() -> list[Path]:
    return sorted(PROBE / name for name in _files() if name.endswith(".c"))


def _files() -> list[str]:
    """Sources and headers below probe/, except those of the tests."""
    found = (path.relative_to(PROBE) for path in PROBE.rglob("*.[ch]"))
    return sorted(path.as_posix() for path in found if path.parts[0] != "tests")


def fingerprint(machine: str) -> str:
    """A hash of all inputs of the library: sources, headers and this file's flags."""
    digest = hashlib.sha256(f"{machine} {_version()}".encode())
    for name in [*_files(), Path(__file__).name]:
        digest.update(name.encode() + b"\0" + (PROBE / name).read_bytes())
    return digest.hexdigest()


def build(output: Path = LIBRARY, machine: str | None = None, flags: Sequence[str] = FLAGS) -> Path | None:
    """Builds the library and the stamp that identifies its inputs; None while there is no C file."""
    machine = machine or platform.machine()
    if machine not in MACHINES:
        raise BuildError(f"the probe runs on {' and '.join(MACHINES)}, not on {machine}")
    if not sources():
        return None
    output.parent.mkdir(parents=True, exist_ok=True)
    made_from = fingerprint(machine)
    # Builds beside the final place, then renames: a JVM that maps the old library keeps the old inode.
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".build-") as folder:
        library = Path(folder) / output.name
        version = f'-DPROBE_VERSION="{_version()}"'
        headers = f"-I{PROBE}"
        arguments = [*map(str, sources()), *flags, version, headers, "-o", str(library)]
        compile_native(arguments, machine=machine)
        os.replace(library, output)
    _stamp(output).write_text(made_from + "\n")
    return output


def build_if_changed(
    output: Path = LIBRARY, machine: str | None = None, flags: Sequence[str] = FLAGS
) -> Path | None:
    """Builds only if an input has changed since the last build; safe to call from many processes."""
    machine = machine or platform.machine()
    if _is_current(output, machine):
        return output
    output.parent.mkdir(parents=True, exist_ok=True)
    with open(output.parent / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return output if _is_current(output, machine) else build(output, machine, flags)


def compile_native(
    arguments: Sequence[str], *, machine: str | None = None, language: str = "c", glibc: str = GLIBC
) -> None:
    """Runs `zig cc` (language "c++": `zig c++`) for Linux with glibc; raises BuildError with zig's output.

    `machine` is x86_64 or aarch64, this machine's by default; `glibc` the oldest version to run on.
    """
    target = f"{machine or platform.machine()}-linux-gnu.{glibc}"
    compiler = "cc" if language == "c" else "c++"
    command = [sys.executable, "-m", "ziglang", compiler, "-target", target, *arguments]
    with _zig_caches() as environment:
        try:
            outcome = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=TIME_LIMIT_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise BuildError(f"zig did not finish within {TIME_LIMIT_SECONDS} s") from error
    if outcome.returncode != 0:
        if "No module named ziglang" in outcome.stdout:
            raise BuildError(f"no compiler: `{sys.executable} -m pip install ziglang` brings one")
        raise BuildError(f"zig failed with status {outcome.returncode}:\n{outcome.stdout}")
    if outcome.stdout.strip():
        print(outcome.stdout, file=sys.stderr, end="")


@contextlib.contextmanager
def _zig_caches() -> Iterator[dict[str, str]]:
    """The environment for zig, with existing cache folders: zig hangs when it cannot make them."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    with contextlib.ExitStack() as stack:
        cache = home / "offheap" / "zig"
        try:
            cache.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=cache).close()
        except OSError:
            cache = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="offheap-zig-")))
        folders = {"ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}
        yield {**folders, **os.environ}


def _version() -> str:
    text = (PROBE.parent / "src" / "offheap" / "__init__.py").read_text()
    match = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    if not match:
        raise BuildError("src/offheap/__init__.py has no __version__")
    return match.group(1)


def _stamp(library: Path) -> Path:
    return library.with_suffix(".sources")


def _is_current(library: Path, machine: str) -> bool:
    try:
        return library.exists() and _stamp(library).read_text().strip() == fingerprint(machine)
    except OSError:
        return False


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compile the C sources below probe/ into liboffheap.so.")
    parser.add_argument("-o", "--output", type=Path, default=LIBRARY)
    parser.add_argument("--machine", choices=MACHINES, default=platform.machine())
    parser.add_argument("--force", action="store_true", help="build even if nothing changed")
    parser.add_argument("--strict", action="store_true", help="build anew, a warning is an error")
    args = parser.parse_args(argv)
    try:
        if args.strict:
            library = build(args.output, args.machine, [*FLAGS, "-Werror"])
        elif args.force:
            library = build(args.output, args.machine)
        else:
            library = build_if_changed(args.output, args.machine)
    except BuildError as error:
        print(f"probe/build.py: {error}", file=sys.stderr)
        return 1
    print(library or "probe/build.py: no C file yet, nothing built")
    return 0


if __name__ == "__main__":
    sys.exit(main())
