"""A real file system (FUSE) whose server answers up to a point, and reads no request after it.

The requests that it leaves wait in the kernel's queue, so a signal ends the callers.  A caller whose request
the server has read would live until the server ends.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import needs, paths
from harness.hostile import silent_server


@dataclass(frozen=True)
class SilentMount:
    """`place` is its root directory."""

    place: Path
    _server: subprocess.Popen[str]

    def silence(self, after: int) -> None:
        """The server reads nothing after its next answer to a request `after`, or AT_ONCE."""
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.write(f"{after}\n")
        self._server.stdin.flush()
        assert self._server.stdout.readline() == "told\n"

    def end(self) -> None:
        """Ends the server, and with it every waiting call."""
        self._server.kill()
        self._server.wait()


@contextlib.contextmanager
def silent_mount(
    place: Path,
    names: Sequence[str] = (),
    *,
    owner: int = 0,
    after: int = silent_server.NEVER,
    flushed: bool = False,
) -> Iterator[SilentMount]:
    """Mounts a folder of files of `owner`, full of zeros, at `place`; the name "PID" is any number.

    after    as of SilentMount.silence
    flushed  each close(2) of a file waits for the server, too
    """
    needs.root("to mount a file system")
    place.mkdir(parents=True, exist_ok=True)
    arguments = [os.fspath(place), ",".join(names), str(owner), str(after), str(flushed)]
    server = subprocess.Popen(
        [sys.executable, "-m", "harness.hostile.silent_server", *arguments],
        cwd=paths.ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout
    assert server.stderr
    try:
        if server.stdout.readline() != "ready\n":
            needs.skip(f"a FUSE file system ({server.stderr.read().splitlines()[-1]})", needs.MOUNTS)
        yield SilentMount(place, server)
    finally:
        server.kill()
        server.communicate()
        subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)
