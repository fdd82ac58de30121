"""A process of another user that lays traps for its readers."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

NOBODY_UID = 65534

# It imports what it needs before it becomes another user, who may not read this checkout.
_CODE = """
import fcntl, mmap, os, socket, sys, time
uid, files, code, before = int(sys.argv[1]), sys.argv[2].split(":"), sys.argv[3], sys.argv[4]
kept = []
for name in filter(None, files):
    with open(name, "r+b") as file:
        kept.append(mmap.mmap(file.fileno(), 0))
exec(before)
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(uid); os.setuid(uid)
exec(code)
print("ready", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def hostile_process(
    *files: Path, code: str = "", before: str = "", pass_fds: Sequence[int] = ()
) -> Iterator[subprocess.Popen[str]]:
    """Maps `files`, runs `code`, and waits; as nobody where the test runs as root, else as its user.

    `before` runs before the process becomes nobody.
    """
    arguments = [str(NOBODY_UID), ":".join(map(str, files)), code, before]
    process = subprocess.Popen(
        [sys.executable, "-c", _CODE, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=pass_fds,
    )
    try:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def own(*paths: Path) -> None:
    """Makes the hostile process's user their owner."""
    if os.geteuid() == 0:
        for path in paths:
            os.chown(path, NOBODY_UID, NOBODY_UID, follow_symlinks=False)


def fake_jdk(folder: Path, library: bytes = b"no library, but a name\n" * 400) -> Path:
    """Makes lib/server/libjvm.so in the folder, owned by the hostile process's user, and returns it."""
    server = folder / "lib" / "server"
    server.mkdir(parents=True)
    path = server / "libjvm.so"
    path.write_bytes(library)
    own(folder, folder / "lib", server, path)
    return path


@dataclass(frozen=True)
class Measured:
    status: int
    seconds: float
    peak_bytes: int
    stdout: str
    stderr: str


# The peak of a process includes the time before its execve(2), so a large test run must not start it itself.
_MEASURE = """
import json, os, resource, subprocess, sys, time
began = time.monotonic()
limit, command = float(sys.argv[1]), sys.argv[2:]
done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=limit)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
print(json.dumps([done.returncode, time.monotonic() - began, peak, done.stdout, done.stderr]))
"""


def measured(command: Sequence[str], timeout: float) -> Measured:
    """Runs a command, which must end in time."""
    outcome = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(timeout), *command],
        capture_output=True,
        text=True,
        timeout=timeout + 30,
        check=True,
    )
    return Measured(*json.loads(outcome.stdout))
