"""Names of code that was generated at run time, by address: from a perf map or a jitdump."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from offheap.errors import UserError
from offheap.proc import opening
from offheap.symbols.generated import jitdump, perf_map

_MOST_BYTES = 256 << 20  # a code cache of 240 MB makes a map of 10 MB, or a jitdump of 250 MB
# HotSpot writes a method as `type class.method(parameters)`; some versions put `[C2] ` in front.
_METHOD = re.compile(r"(?:\[[^\]]*\] )?(?:[^ (]+ )?([^ (]+)\.([^ (.]+)\(.*\)")
# perf's libperf-jvmti.so: `Ljava/util/zip/Inflater;init(Z)J`.
_DESCRIPTOR = re.compile(r"L([^;()\s]+);([^;()\s]+)\(.*")


@dataclass(frozen=True, slots=True)
class Code:
    """java  whether the name is a method's, `CLASS.METHOD`, else a stub's or a blob's"""

    name: str
    java: bool


class GeneratedCode:
    """UserError when the file cannot be read, or a part of it is damaged."""

    def __init__(self, path: Path) -> None:
        content = _content(path)
        read = jitdump.rows if content.startswith(jitdump.MAGICS) else perf_map.rows
        self._rows: list[CodeRange] = sorted(
            (CodeRange(*row) for row in read(path, content)), key=lambda row: row.start
        )
        self._starts = [row.start for row in self._rows]

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
        if match := _METHOD.fullmatch(name):
            return Code(f"{match[1]}.{match[2]}", True)
        if match := _DESCRIPTOR.fullmatch(name):
            return Code(f"{match[1].replace('/', '.')}.{match[2]}", True)
        return Code(name, False)


class CodeRange(NamedTuple):
    """`size` bytes of code from the address `start`."""

    start: int
    size: int
    name: str


def _content(path: Path) -> bytes:
    try:
        with opening.regular(path, most=_MOST_BYTES) as file, file.stream() as stream:
            return stream.read(_MOST_BYTES)
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror or error}", "give what `jcmd PID Compiler.perfmap` wrote"
        ) from None
