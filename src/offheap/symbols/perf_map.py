"""Names of code that was generated at run time: a perf map, as `jcmd PID Compiler.perfmap` writes it.

A line has the address and the size, in hexadecimal (JDK 17 and later: with 0x), and the name: Linux'
tools/perf/Documentation/jit-interface.txt.
"""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from pathlib import Path

from offheap.errors import UserError
from offheap.proc import opening

_MOST_BYTES = 256 << 20  # a JVM's code cache of 240 MB makes 10 MB of map
_MOST_LINE = 4096  # bytes
_LINE = re.compile(r"(?:0x)?([0-9a-f]{1,16}) +(?:0x)?([0-9a-f]{1,16}) +(\S.*)")
# HotSpot writes a method as `type class.method(parameters)`; some versions put `[C2] ` in front.
_METHOD = re.compile(r"(?:\[[^\]]*\] )?(?:[^ (]+ )?([^ (]+\.[^ (]+)\(.*\)")


@dataclass(frozen=True, slots=True)
class Code:
    """java  whether the name is a method's, `CLASS.METHOD`, else a stub's or a blob's"""

    name: str
    java: bool


class PerfMap:
    """UserError when the file cannot be read, or a line of it is none."""

    def __init__(self, path: Path) -> None:
        self._rows: list[tuple[int, int, str]] = []
        for number, line in enumerate(_lines(path), 1):
            text = line[:_MOST_LINE].decode("utf-8", "replace").strip()
            if not text:
                continue
            match = _LINE.fullmatch(text)
            if not match:
                raise UserError(
                    f"{path}, line {number} is none of a perf map",
                    "give what `jcmd PID Compiler.perfmap` wrote",
                )
            self._rows.append((int(match[1], 16), int(match[2], 16), match[3]))
        self._rows.sort(key=lambda row: row[0])
        self._starts = [start for start, _, _ in self._rows]

    def __len__(self) -> int:
        return len(self._rows)

    def at(self, address: int) -> Code | None:
        """The code that holds an address."""
        number = bisect.bisect_right(self._starts, address) - 1
        if number < 0:
            return None
        start, size, name = self._rows[number]
        if address >= start + size:
            return None
        method = _METHOD.fullmatch(name)
        return Code(method[1], True) if method else Code(name, False)


def _lines(path: Path) -> list[bytes]:
    try:
        with opening.regular(path, most=_MOST_BYTES) as file, file.stream() as stream:
            # A JVM that is killed while it writes leaves half a line.
            data = stream.read(_MOST_BYTES)
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror or error}", "give what `jcmd PID Compiler.perfmap` wrote"
        ) from None
    lines = data.split(b"\n")
    return lines[:-1] if len(lines) > 1 else lines
