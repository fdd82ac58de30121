"""Perf maps, as `jcmd PID Compiler.perfmap` writes them.

A line has the address and the size, in hexadecimal (JDK 17 and later: with 0x), and the name: Linux'
tools/perf/Documentation/jit-interface.txt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from offheap.errors import UserError

_MOST_LINE = 4096  # bytes
_LINE = re.compile(r"(?:0x)?([0-9a-f]{1,16}) +(?:0x)?([0-9a-f]{1,16}) +(\S.*)")


def rows(path: Path, content: bytes) -> Iterator[tuple[int, int, str]]:
    """(start, size, name) of each line.  UserError for an invalid line."""
    lines = content.split(b"\n")
    # A JVM that is killed while it writes leaves an incomplete line.
    for number, line in enumerate(lines[:-1] if len(lines) > 1 else lines, 1):
        text = line[:_MOST_LINE].decode("utf-8", "replace").strip()
        if not text:
            continue
        match = _LINE.fullmatch(text)
        if not match:
            raise UserError(
                f"{path}, line {number} is not a line of a perf map",
                "give what `jcmd PID Compiler.perfmap` wrote",
            )
        yield int(match[1], 16), int(match[2], 16), match[3]
