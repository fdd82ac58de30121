"""Fields of the JVM's own objects, read from outside without asking the JVM.

HotSpot exports gHotSpotVMStructs for debuggers: rows {type, field, type of the field, is static, offset,
address} that end with a row of zeros (src/hotspot/share/runtime/vmStructs.hpp; the stride is exported and
checked).  /proc/PID/mem gives the memory; offheap writes nothing and stops no thread.  The names
in the rows are constants of libjvm.so and come from its file: reading a page that the process has not
touched would make the page resident.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np

from offheap.proc import root
from offheap.proc.images.elf import SEGMENT_LOAD, SEGMENT_WRITE, ElfError, ElfImage
from offheap.proc.maps import Mapping
from offheap.proc.pagemap import PAGE, Pagemap

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
_TYPE_ROW = np.dtype(
    [
        ("type", "<u8"),
        ("super", "<u8"),
        ("flags", "<i4", 3),
        ("_", "<i4"),
        ("size", "<u8"),
    ]
)
_STATIC = "static "
_SIZE = "size of "
_TABLES = [f"gHotSpotVM{kind}{end}" for kind in ("Struct", "Type") for end in ("s", "EntryArrayStride")]
_MOST_SYMBOLS = 8 << 20  # bytes of libjvm's exported symbols, which are some 100,000
_MOST_PLACES = 16  # of one name among the strings: it may be the end of another name
_MOST_ROWS = 1 << 14
_MOST_NAMES = 16 << 20  # bytes from the first to the last name
_MOST_DATA_PAGES = 4096  # of libjvm's writable data, which has some 350
_HIGHEST = 1 << 57
# {type.field: offset} and {static type.field: address less libjvm's}; JDK 27 makes some static fields
# instance fields.  {size of type: bytes} likewise.
Fields = dict[str, int]


class Structs:
    """One JVM's fields, made by `find`.  A context manager.  OSError for addresses without memory."""

    def __init__(
        self,
        pid: int,
        memory: int,
        base: int,
        fields: Fields,
        data: tuple[int, int],
        mappings: Sequence[Mapping],
    ) -> None:
        self._pid = pid
        self._mappings = mappings
        self._memory = memory
        self._base = base
        self._fields = fields
        self._data = data

    def __enter__(self) -> Structs:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._memory)

    def knows(self, field: str) -> bool:
        """Whether this JVM has that field."""
        return field in self._fields

    def knows_static(self, field: str) -> bool:
        """Whether this JVM has that static field."""
        return _STATIC + field in self._fields

    def offset(self, field: str) -> int | None:
        """The offset of a field in its holder; None when unknown."""
        return self._fields.get(field)

    def static(self, field: str) -> int:
        """The pointer in a static field; 0 when this JVM does not have it."""
        offset = self._fields.get(_STATIC + field)
        return 0 if offset is None else self.pointer(self._base + offset)

    def at(self, holder: int, field: str) -> int:
        """The address of a field; 0 when the holder or the field is unknown."""
        offset = self._fields.get(field)
        return 0 if not holder or offset is None else holder + offset

    def size_of(self, type_name: str) -> int:
        """The size in bytes of one of HotSpot's own types; 0 when this JVM does not export it."""
        return self._fields.get(_SIZE + type_name, 0)

    def read(self, address: int, count: int) -> bytes:
        """Up to `count` bytes from an address on; none for an impossible address."""
        return os.pread(self._memory, count, address) if 0 < address < _HIGHEST and count > 0 else b""

    def pointer(self, address: int) -> int:
        """The word at an address; 0 for an impossible address."""
        words = self.words(address, 1)
        return words[0] if words else 0

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Up to `count` words from an address on; fewer at the end of the memory, none without memory."""
        raw = self.read(address, 8 * count)
        return struct.unpack(f"<{len(raw) // 8}Q", raw[: len(raw) // 8 * 8])

    def version(self) -> int:
        """The JVM's feature version; 0 when unknown."""
        return self.static("Abstract_VM_Version._vm_major_version") & 0xFFFF_FFFF

    def pointers(self) -> list[int]:
        """Values of libjvm's static variables that may be pointers to HotSpot's own objects.

        These variables are in private anonymous memory: a read of a never-written page maps the shared page
        of zeros and costs nothing.
        """
        own = [m for m in self._mappings if m.permissions == "rw-p" and m.path in ("", "[heap]")]
        starts = np.array([m.start for m in own], np.uint64)
        ends = np.array([0, *(m.end for m in own)], np.uint64)
        start, end = self._data
        with Pagemap(self._pid) as pagemap:  # a page that is not in memory was never written
            pages = pagemap.pages(start // PAGE * PAGE, end, _MOST_DATA_PAGES).tolist()
        found: set[int] = set()
        for page in pages:
            words = np.frombuffer(os.pread(self._memory, PAGE, page), np.uint64)
            inside = words < ends[np.searchsorted(starts, words, "right")]
            found.update(words[inside & (words % 8 == 0)].tolist())
        return sorted(found)


def find(pid: int, mappings: Sequence[Mapping]) -> Structs | None:
    """The fields of the JVM in this process; None if there is no JVM, or it exports no such table.

    PermissionError when this user may not read the memory.
    """
    image = next((m for m in mappings if m.name == "libjvm.so" and m.offset == 0), None)
    if image is None:
        return None
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        with ElfImage.of(root.open_mapped(pid, image)) as file:
            seen = os.fstat(file.fileno())
            # The owner can set the time of modification, but not the time of change.
            key = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
            if key not in _cache:
                _cache[key] = _read_fields(file, memory, image.start)
            found = _cache[key]
        if found is not None:
            fields, (start, end) = found
            data = (image.start + start, image.start + end)
            return Structs(pid, memory, image.start, fields, data, mappings)
    except (OSError, ElfError, struct.error, OverflowError, ValueError):
        pass
    os.close(memory)
    return None


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
        "CodeHeap._segmap",
        "VirtualSpace._low_boundary",
        "VirtualSpace._high_boundary",
        "BarrierSet._barrier_set",
        "CardTableBarrierSet._card_table",
        "CardTable._byte_map",
        "CardTable._byte_map_size",
        "G1CollectedHeap._hrm",
        "ParallelScavengeHeap._old_gen",
        "Abstract_VM_Version._vm_major_version",
        # vm_flags.py reads the JVM's options here.
        "JVMFlag.flags",
        "JVMFlag.numFlags",
        "JVMFlag._name",
        "JVMFlag._addr",
        # java_statics.py reads static fields of Java classes with these.
        "ClassLoaderDataGraph._head",
        "ClassLoaderData._the_null_class_loader_data",
        "ClassLoaderData._next",
        "ClassLoaderData._klasses",
        "Klass._name",
        "Klass._next_link",
        "Klass._java_mirror",
        "Symbol._length",
        "Symbol._body[0]",
        "InstanceKlass._constants",
        "InstanceKlass._fields",
        "InstanceKlass._java_fields_count",
        "InstanceKlass._fieldinfo_stream",
        "Array<int>._length",
        "Array<u1>._data",
        "Array<u2>._data",
        "Universe._narrow_oop._base",
        "Universe._narrow_oop._shift",
        "Universe._narrow_klass._base",
        "Universe._narrow_klass._shift",
        "CompressedOops._narrow_oop._base",
        "CompressedOops._narrow_oop._shift",
        "CompressedOops._base",
        "CompressedOops._shift",
        "CompressedKlassPointers._narrow_klass._base",
        "CompressedKlassPointers._narrow_klass._shift",
        "CompressedKlassPointers._base",
        "CompressedKlassPointers._shift",
        "ZGlobalsForVMStructs._instance_p",
        "ZGlobalsForVMStructs._ZPointerLoadGoodMask",
    }
)
_WANTED_SIZES = frozenset({"ConstantPool", "JVMFlag"})
# The fields, and the borders of libjvm's writable data relative to its start.
_Layout = tuple[Fields, tuple[int, int]]
_cache: dict[tuple[int, ...], _Layout | None] = {}


def _read_fields(image: ElfImage, memory: int, base: int) -> _Layout | None:
    """None when this libjvm.so exports no such table."""
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
    names = image.at_address(low - bias, high - low) if high - low <= _MOST_NAMES else b""
    found: Fields = {}
    for type_at, field_at, _, static, _, offset, address in rows.tolist():
        name = f"{_name(names, type_at - low)}.{_name(names, field_at - low)}"
        if name in _WANTED:
            found[_STATIC + name if static else name] = address - base if static else offset
    found.update(_read_sizes(memory, symbols, bias, lambda at: _name(names, at - low)))
    writable = loads[loads["flags"] & SEGMENT_WRITE != 0]
    start = int(writable["address"].min()) if len(writable) else 0
    end = max((int(row["address"]) + int(row["memory_size"]) for row in writable), default=0)
    return found, (start + bias - base, end + bias - base)


def _read_sizes(memory: int, symbols: dict[str, int], bias: int, name_at: Callable[[int], str]) -> Fields:
    """gHotSpotVMTypes, whose rows are {type, its super type, three flags, size}; {} without that table."""
    at = [symbols.get(f"gHotSpotVMType{end}") for end in ("s", "EntryArrayStride")]
    table, stride = (os.pread(memory, 8, bias + one) if one else b"" for one in at)
    if len(table) < 8 or len(stride) < 8 or int.from_bytes(stride, "little") != _TYPE_ROW.itemsize:
        return {}
    raw = os.pread(memory, _MOST_ROWS * _TYPE_ROW.itemsize, int.from_bytes(table, "little"))
    rows = np.frombuffer(raw[: len(raw) // _TYPE_ROW.itemsize * _TYPE_ROW.itemsize], _TYPE_ROW)
    ends = np.flatnonzero(rows["type"] == 0)
    rows = rows[: int(ends[0]) if len(ends) else 0]
    pairs = zip(rows["type"].tolist(), rows["size"].tolist(), strict=True)
    return {_SIZE + name: size for at, size in pairs if (name := name_at(at)) in _WANTED_SIZES}


def _exported(image: ElfImage) -> dict[str, int]:
    """The addresses of those table symbols that exist."""
    table = image.symbols(".dynsym", _MOST_SYMBOLS)
    found: dict[str, int] = {}
    if table is None:
        return found
    for name in _TABLES:
        # A search among the strings avoids a loop over symbols, of which a hostile file may have millions.
        places = islice(re.finditer(re.escape(name.encode()) + b"\0", table.strings), _MOST_PLACES)
        rows = table.entries[np.isin(table.entries["name"], [place.start() for place in places])]
        if len(rows):
            found[name] = int(rows[0]["value"])
    return found


def _name(names: bytes, offset: int) -> str:
    end = names.find(b"\0", offset, offset + 256)
    return names[offset:end].decode("ascii", "replace") if 0 <= offset <= end else ""
