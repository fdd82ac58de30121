"""Where the JVM's heap, code and card table are, read from outside without asking the JVM.

HotSpot exports gHotSpotVMStructs for debuggers: rows {type, field, type of the field, is static, offset,
address} that end with a row of zeros (src/hotspot/share/runtime/vmStructs.hpp; the stride is exported and
checked).  What it says is followed through /proc/PID/mem; nothing is written, nobody is stopped.  The names
in the rows are constants of libjvm.so, read from its file: reading a page of it that the process has not
touched would make it resident.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offheap.jvm.vm_info import Part, Place
from offheap.proc import root
from offheap.proc.elf import SEGMENT_LOAD, ElfError, ElfImage
from offheap.proc.maps import Mapping

_ROW = np.dtype(
    [
        ("type", "<u8"),
        ("field", "<u8"),
        ("field_type", "<u8"),
        ("static", "<i4"),
        ("_", "<i4"),
        ("offset", "<u8"),
        ("address", "<u8"),
    ]
)
_MOST_ROWS = 1 << 14
_MOST_NAMES = 16 << 20  # bytes from the first to the last name
_MOST_CODE_HEAPS = 16
_HIGHEST = 1 << 57
# {type.field}; the value: an offset, or the address of a static field less libjvm's.
Fields = dict[str, int]


def places(pid: int, mappings: Sequence[Mapping]) -> list[Place]:
    """The Java heap as reserved (not ZGC's), the code heaps, the card table; [] where it cannot be told.

    PermissionError when this user may not read the memory.
    """
    image = next((m for m in mappings if m.name == "libjvm.so" and m.offset == 0), None)
    if image is None:
        return []
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        path = root.mapped_file(pid, image)
        seen = os.stat(path)
        fields = _fields(path, seen.st_dev, seen.st_ino, seen.st_mtime_ns, memory, image.start)
        if fields is None:
            return []
        reader = _Reader(memory, image.start, fields)
        found = [place for part in (reader.heap, reader.code, reader.cards) for place in part()]
        return [place for place in found if 0 < place.start < place.end <= _HIGHEST]
    except (OSError, ElfError, struct.error, OverflowError):
        return []
    finally:
        os.close(memory)


class _Reader:
    def __init__(self, memory: int, base: int, fields: Fields) -> None:
        self._memory = memory
        self._base = base
        self._fields = fields

    def heap(self) -> list[Place]:
        heap = self._static("Universe._collectedHeap")
        reserved = self._at(heap, "CollectedHeap._reserved")
        start = self._pointer(self._at(reserved, "MemRegion._start"))
        words = self._pointer(self._at(reserved, "MemRegion._word_size"))
        return self._place(start, start + words * 8, "heap", "Java heap")

    def code(self) -> list[Place]:
        heaps = self._static("CodeCache._heaps")
        length = "GrowableArrayBase._len"
        if length not in self._fields:
            length = "GenericGrowableArray._len"
        count = self._pointer(self._at(heaps, length)) & 0xFFFF_FFFF
        data = self._pointer(self._at(heaps, "GrowableArray<int>._data"))
        found = []
        for number in range(min(count, _MOST_CODE_HEAPS) if data else 0):
            space = self._at(self._pointer(data + number * 8), "CodeHeap._memory")
            start = self._pointer(self._at(space, "VirtualSpace._low_boundary"))
            end = self._pointer(self._at(space, "VirtualSpace._high_boundary"))
            found += self._place(start, end, "code", "code heap")
        return found

    def cards(self) -> list[Place]:
        table = self._pointer(
            self._at(self._static("BarrierSet._barrier_set"), "CardTableBarrierSet._card_table")
        )
        start = self._pointer(self._at(table, "CardTable._byte_map"))
        size = self._pointer(self._at(table, "CardTable._byte_map_size"))
        return self._place(start, start + size, "gc", "card table")

    def _place(self, start: int, end: int, part: Part, name: str) -> list[Place]:
        return [Place(start, end, part, name)] if start and start < end else []

    def _static(self, field: str) -> int:
        """The pointer in a static field; 0 when this JVM does not have it."""
        offset = self._fields.get(field)
        return 0 if offset is None else self._pointer(self._base + offset)

    def _at(self, holder: int, field: str) -> int:
        """The address of a field; 0 when either is not known."""
        offset = self._fields.get(field)
        return 0 if not holder or offset is None else holder + offset

    def _pointer(self, address: int) -> int:
        if not 0 < address < _HIGHEST:
            return 0
        return int(struct.unpack("<Q", os.pread(self._memory, 8, address))[0])


_WANTED = frozenset(
    {
        "Universe._collectedHeap",
        "CollectedHeap._reserved",
        "MemRegion._start",
        "MemRegion._word_size",
        "CodeCache._heaps",
        "GrowableArrayBase._len",
        "GenericGrowableArray._len",
        "GrowableArray<int>._data",
        "CodeHeap._memory",
        "VirtualSpace._low_boundary",
        "VirtualSpace._high_boundary",
        "BarrierSet._barrier_set",
        "CardTableBarrierSet._card_table",
        "CardTable._byte_map",
        "CardTable._byte_map_size",
    }
)
_cache: dict[tuple[int, int, int], Fields | None] = {}


def _fields(path: Path, device: int, inode: int, modified: int, memory: int, base: int) -> Fields | None:
    """Of this libjvm.so, looked up once; None when it exports no such table."""
    key = (device, inode, modified)
    if key not in _cache:
        _cache[key] = _read_fields(path, memory, base)
    return _cache[key]


def _read_fields(path: Path, memory: int, base: int) -> Fields | None:
    with ElfImage.open(path) as image:
        symbols = _exported(image)
        loads = image.segments[image.segments["type"] == SEGMENT_LOAD]
        bias = base - image.load_address
    if not {"gHotSpotVMStructs", "gHotSpotVMStructEntryArrayStride"} <= symbols.keys():
        return None

    def word(address: int) -> int:
        return int(struct.unpack("<Q", os.pread(memory, 8, address))[0])

    if word(bias + symbols["gHotSpotVMStructEntryArrayStride"]) != _ROW.itemsize:
        return None
    start = word(bias + symbols["gHotSpotVMStructs"])
    raw = os.pread(memory, _MOST_ROWS * _ROW.itemsize, start)
    rows = np.frombuffer(raw[: len(raw) // _ROW.itemsize * _ROW.itemsize], _ROW)
    ends = np.flatnonzero(rows["type"] == 0)
    rows = rows[: int(ends[0]) if len(ends) else 0]
    if not len(rows):
        return None
    low = int(min(rows["type"].min(), rows["field"][rows["field"] > 0].min()))
    high = int(max(rows["type"].max(), rows["field"].max())) + 256
    names = _file_bytes(path, loads, low - bias, high - bias)
    found: Fields = {}
    for type_at, field_at, _, static, _, offset, address in rows.tolist():
        name = f"{_name(names, type_at - low)}.{_name(names, field_at - low)}"
        if name in _WANTED:
            found[name] = address - base if static else offset
    return found


def _exported(image: ElfImage) -> dict[str, int]:
    table = image.symbols(".dynsym")
    if table is None:
        return {}
    return {
        name: int(entry["value"])
        for entry in table.entries
        if (name := table.name(int(entry["name"])).decode("ascii", "replace")).startswith("gHotSpotVMStruct")
    }


def _file_bytes(path: Path, loads: NDArray[np.void], low: int, high: int) -> bytes:
    """What the file has at the ELF addresses [low, high), which one segment must hold."""
    for row in loads:
        start = int(row["address"])
        if start <= low < start + int(row["file_size"]) and high - low <= _MOST_NAMES:
            with path.open("rb") as file:
                return os.pread(file.fileno(), high - low, int(row["offset"]) + low - start)
    return b""


def _name(names: bytes, offset: int) -> str:
    end = names.find(b"\0", offset, offset + 256)
    return names[offset:end].decode("ascii", "replace") if 0 <= offset <= end else ""
