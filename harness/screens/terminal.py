"""offheap on a terminal, as a person uses it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
import threading
import time
from dataclasses import dataclass

from harness import needs

OFFHEAP = [sys.executable, "-m", "offheap"]


@dataclass
class Terminal:
    """A command on a terminal of 80 by 24; `text` is its output so far."""

    arguments: list[str]

    def __enter__(self) -> Terminal:
        self.master, slave = needs.terminal()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TEXTUAL")}
        self.process = subprocess.Popen(
            [*OFFHEAP, *self.arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environment, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(slave)
        self._read = bytearray()
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)
        self._reader.join(30)
        os.close(self.master)

    @property
    def raw(self) -> str:
        """All output."""
        return self._read.decode(errors="replace")

    @property
    def text(self) -> str:
        """The output without escape sequences."""
        return re.sub(r"\x1b\[[0-9;?<>=$]*[A-Za-z]", "", self.raw)

    def see(self, what: str, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while what not in self.text:
            assert time.monotonic() < deadline, f"no {what!r} in:\n{self.text}"
            if self.process.poll() is not None:
                self._reader.join(30)  # its last output
                assert what in self.text, self.text
            time.sleep(0.05)

    def rest(self, what: str) -> str:
        """The output after the line with that, to the end of the command."""
        self.process.wait(30)
        self._reader.join(30)
        return self.text.rpartition(what)[2].partition("\n")[2].strip()

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def _collect(self) -> None:
        with contextlib.suppress(OSError):
            while piece := os.read(self.master, 65536):
                self._read += piece
