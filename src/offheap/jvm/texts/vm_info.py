"""Addresses of the JVM's memory, from `GC.heap_info`, `Compiler.codecache`, `VM.metaspace`, `VM.info`.

The format differs by release and collector; what a text does not contain is left out.
None of these commands needs Native Memory Tracking.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

JVMPart = Literal["heap", "code", "metaspace", "class space", "cds", "gc"]

_ADDRESS = r"0x([0-9a-f]{1,16})"
# Generations of Serial and Parallel and the heap of G1 are indented one column less than their spaces.
_HEAP = re.compile(
    rf"[ ]?(def new generation|tenured generation|PSYoungGen|ParOldGen|DefNew|Tenured|garbage-first heap)"
    rf" +total .*?\[{_ADDRESS}, ?(?:{_ADDRESS}, ?)?{_ADDRESS}\)",
    re.ASCII,
)
_HEAP_ADDRESS = re.compile(rf"Heap address: {_ADDRESS}, size: (\d+) MB", re.ASCII)
_CODE_HEAP = re.compile(r"CodeHeap '([^']{1,80})'|CodeCache:", re.ASCII)
_BOUNDS = re.compile(rf" *bounds \[{_ADDRESS}, {_ADDRESS}, {_ADDRESS}\]", re.ASCII)
_CLASS_SPACE_11 = re.compile(rf"Compressed class space size: (\d+) Address: {_ADDRESS}", re.ASCII)
_CLASS_SPACE = re.compile(rf"Compressed class space mapped at: {_ADDRESS}-{_ADDRESS}", re.ASCII)
_KLASS_RANGE = re.compile(rf"Klass Range: +\[{_ADDRESS} - {_ADDRESS}\)", re.ASCII)
_CDS = re.compile(rf"CDS archive\(s\) mapped at: \[{_ADDRESS}-{_ADDRESS}-{_ADDRESS}\)", re.ASCII)
_CARD_TABLE = re.compile(rf"Card table byte_map: \[{_ADDRESS},{_ADDRESS}\]", re.ASCII)
_BITS = re.compile(rf" *(?:(?:Prev|Next|Begin|End) )?Bits: *\[{_ADDRESS}, ?{_ADDRESS}\)", re.ASCII)
_USAGE = re.compile(
    r" *(Metaspace|class space) +used (\d+)K,(?: capacity \d+K,)? committed (\d+)K, reserved (\d+)K", re.ASCII
)
_HIGHEST = 1 << 57


@dataclass(frozen=True, slots=True)
class JVMRange:
    """Addresses [start, end) and their use by the JVM."""

    start: int
    end: int
    part: JVMPart
    name: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes of metaspace, class space included, or of class space alone."""

    used: int
    committed: int
    reserved: int


@dataclass(frozen=True, slots=True)
class MetaspaceUsage:
    metaspace: Usage
    class_space: Usage | None  # None without compressed class pointers

    @property
    def non_class(self) -> Usage:
        """The usage outside of class space."""
        if self.class_space is None:
            return self.metaspace
        whole, part = self.metaspace, self.class_space
        return Usage(whole.used - part.used, whole.committed - part.committed, whole.reserved - part.reserved)


def places(text: str) -> list[JVMRange]:
    """Every range in the output of one or several of those commands, in the order of the text."""
    found: list[JVMRange] = []
    code_heap = ""
    for line in text.split("\n"):
        if match := _CODE_HEAP.match(line):
            code_heap = match[1] or "code cache"
        elif match := _BOUNDS.fullmatch(line.rstrip()):
            _add(found, match[1], match[3], "code", code_heap or "code cache")
        elif match := _HEAP.match(line):
            _add(found, match[2], match[4], "heap", match[1])
        elif match := _HEAP_ADDRESS.match(line):
            start = int(match[1], 16)
            _add(found, match[1], hex(start + (int(match[2][:9]) << 20)), "heap", "heap")
        elif match := _CLASS_SPACE_11.match(line):
            start = int(match[2], 16)
            _add(found, match[2], hex(start + int(match[1][:18])), "class space", "class space")
        elif match := _CLASS_SPACE.match(line) or _KLASS_RANGE.match(line):
            _add(found, match[1], match[2], "class space", "class space")
        elif match := _CDS.match(line):
            _add(found, match[1], match[3], "cds", "CDS archives")
        elif match := _CARD_TABLE.match(line):
            _add(found, match[1], match[2], "gc", "card table")
        elif match := _BITS.match(line):
            _add(found, match[1], match[2], "gc", "mark bitmap")
    return found


def metaspace_usage(text: str) -> MetaspaceUsage | None:
    """From GC.heap_info, or VM.info; None when the text has no usage (JDK 25 with some collectors)."""
    found: dict[str, Usage] = {}
    for line in text.split("\n"):
        if match := _USAGE.match(line):
            # VM.info also lists the usage at earlier collections: the first entry is the current usage.
            used, committed, reserved = (int(match[group][:15]) << 10 for group in (2, 3, 4))
            found.setdefault(match[1], Usage(used, committed, reserved))
    if "Metaspace" not in found:
        return None
    return MetaspaceUsage(found["Metaspace"], found.get("class space"))


def _add(found: list[JVMRange], start: str, end: str, part: JVMPart, name: str) -> None:
    place = JVMRange(int(start, 16), int(end, 16), part, name)
    if 0 < place.start < place.end <= _HIGHEST and place not in found:
        found.append(place)
