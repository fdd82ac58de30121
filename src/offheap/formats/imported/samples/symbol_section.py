"""A heap profile with its symbols in front: of `jeprof --raw` and of `offheap export --format jemalloc`.

    --- symbol
    binary=NAME
    0x0000000000001000 FUNCTION          or INLINED--FUNCTION, innermost first
    ---
    --- heap
    heap_v2/...                          the profile as it was

jeprof (`PrintSymbolizedProfile`) has a caller at its return address less 1, where it is looked up first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from offheap.formats.imported import source
from offheap.formats.imported.samples import names
from offheap.recording.model import Chain, Frame, Module

MAGIC = "--- symbol"
_HEAP = re.compile(r"^--- (?:heap|growth)\s*\n", re.MULTILINE)
_SYMBOL = re.compile(r"0x([0-9a-f]{1,16}) (.+)")
_INLINED = re.compile(r"--(?=[^-\s])")


class Symbols(NamedTuple):
    """names  by address; heap: the profile; line: the number of its first line, from 1"""

    names: dict[int, str]
    heap: str
    line: int


def split(path: Path, text: str) -> Symbols:
    """UserError with the line of a fault; a text without symbols is a profile as a whole."""
    if not text.startswith(MAGIC):
        return Symbols({}, text, 1)
    found = _HEAP.search(text)
    lines = text[: found.start() if found else len(text)].split("\n")
    if not found:
        raise source.fault(path, f"line {len(lines)}", "the file ends before its heap profile")
    known: dict[int, str] = {}
    for number, line in enumerate(lines[1:], 2):
        symbol = _SYMBOL.fullmatch(line.rstrip("\r"))
        if symbol:
            known[int(symbol[1], 16)] = symbol[2]
        elif line.strip() and not line.startswith(("binary=", "---")):
            raise source.fault(path, f"line {number}", "no `0xADDRESS FUNCTION`")
    return Symbols(known, text[found.end() :], len(lines) + 1)


class ListedNames:
    """Names of addresses as a file lists them; what it does not list is an address."""

    def __init__(self, symbols: dict[int, str], frames: dict[int, Chain]) -> None:
        self._symbols, self._frames = symbols, frames
        self.modules: list[Module] = []
        self.problems: dict[str, str] = {}

    def chains(self, addresses: Sequence[int]) -> dict[int, Chain]:
        return {address: self._chain(address) for address in addresses}

    def _chain(self, address: int) -> Chain:
        if frames := self._frames.get(address - 1):
            return frames
        name = self._symbols.get(address - 1) or self._symbols.get(address)
        if name is None:
            return (Frame(f"0x{address:x}", "unknown"),)
        *inlined, last = _INLINED.split(name)
        return (*(names.frame(one, inlined=True) for one in inlined), names.frame(last))
