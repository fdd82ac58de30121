"""HotSpot's performance data file, /tmp/hsperfdata_USER/PID: readable without asking the JVM anything.

The layout is that of jdk/internal/perf's PerfDataBuffer, version 2.0: a 32-byte prologue
{magic 0xcafec0c0 big-endian, byte order, major, minor, accessible, used, overflow, time stamp,
entry offset, entries}, then entries {length, name offset, vector length, type, flags, units,
variability, data offset}.  This module reads the longs ('J') and the strings ('B' vectors).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from offheap.proc import maps, opening, root
from offheap.proc.opening import RegularFile

_MAGIC = b"\xca\xfe\xc0\xc0"
_PROLOGUE_BYTES = 32
_ENTRY_BYTES = 20
# The file is PerfDataMemorySize long, by default 32 KiB: a huge file is no such file.
_MAX_BYTES = 16 << 20

Value = int | str


@dataclass(frozen=True, slots=True)
class PerfData:
    """The named values of one JVM: longs as int, strings as str.

    places  offset of each value in the file, for repeated reads of a few of them
    order   byte order, as `struct` writes it
    """

    values: dict[str, Value]
    places: dict[str, int] = field(default_factory=dict)
    order: str = "<"

    def text(self, name: str) -> str:
        """A string value, "" when there is none."""
        value = self.values.get(name, "")
        return value if isinstance(value, str) else str(value)

    @property
    def java_version(self) -> str:
        return self.text("java.property.java.version")

    @property
    def java_command(self) -> str:
        """The main class or jar and its arguments, joined by spaces."""
        return self.text("sun.rt.javaCommand")

    @property
    def vm_arguments(self) -> str:
        return self.text("java.rt.vmArgs")

    @property
    def attachable(self) -> bool | None:
        """False under -XX:+DisableAttachMechanism; None when the JVM does not say."""
        # One character per capability; the first is the attach mechanism.
        capabilities = self.text("sun.rt.jvmCapabilities")
        return capabilities[0] == "1" if capabilities else None


def parse(raw: bytes) -> PerfData:
    """ValueError when `raw` is no such file; an entry that does not fit ends the list."""
    if len(raw) < _PROLOGUE_BYTES or raw[:4] != _MAGIC:
        raise ValueError("no hsperfdata file")
    order = "<" if raw[4] == 1 else ">"
    if raw[5] != 2:
        raise ValueError(f"hsperfdata version {raw[5]}, not 2")
    offset, entries = struct.unpack_from(order + "II", raw, 24)
    values: dict[str, Value] = {}
    places: dict[str, int] = {}
    for _ in range(entries):
        if offset + _ENTRY_BYTES > len(raw):
            break
        length, name_at, vector, kind, _flags, _units, _variability, data_at = struct.unpack_from(
            order + "IIIBBBBI", raw, offset
        )
        # HotSpot adds entries during this read: a length of 0 is an unfinished entry.
        if length < _ENTRY_BYTES or offset + length > len(raw):
            break
        entry = raw[offset : offset + length]
        name = entry[name_at:data_at].split(b"\0")[0].decode("utf-8", "replace")
        if kind == ord("J") and vector == 0 and data_at + 8 <= length:
            values[name] = struct.unpack_from(order + "q", entry, data_at)[0]
            places[name] = offset + data_at
        elif kind == ord("B") and vector:
            values[name] = entry[data_at : data_at + vector].split(b"\0")[0].decode("utf-8", "replace")
            places[name] = offset + data_at
        offset += length
    return PerfData(values, places, order)


def read(pid: int, namespace_pid: int, mappings: list[maps.Mapping]) -> PerfData | None:
    """What the JVM publishes; None under -XX:-UsePerfData, or without the right to read it."""
    try:
        source = open_source(pid, namespace_pid, mappings)
        if source is None:
            return None
        with source:
            return parse(source.read())
    except (OSError, ValueError):
        return None


class PerfDataSource:
    """A JVM's performance data, open for reading: the file, or the memory that it is mapped to."""

    def __init__(self, file: RegularFile, start: int, size: int) -> None:
        self._file, self._start, self._size = file, start, size

    def read(self, place: int = 0, size: int | None = None) -> bytes:
        """`size` bytes from offset `place` of the file, or all bytes from there.

        TimeoutError when they do not come.  On an overlay, as in most containers, the limit of time costs a
        tenth of a millisecond: few reads of many bytes are cheaper than many reads.
        """
        return self._file.read_at(self._start + place, self._size if size is None else size)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> PerfDataSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_source(pid: int, namespace_pid: int, mappings: list[maps.Mapping]) -> PerfDataSource | None:
    """None when the JVM publishes nothing; OSError without the right to read it.

    The file comes from the process's own writable mappings: a file with the right name alone may be an
    earlier process's, and jstat and jps map the files of other JVMs read-only.
    """
    for mapping in mappings:
        if "/hsperfdata_" not in mapping.path or "w" not in mapping.permissions:
            continue
        if mapping.name != str(namespace_pid):
            continue
        if mapping.deleted:
            # Cleaners of /tmp, and other JVMs, remove the file; the JVM still counts.  A read of its memory
            # needs the right to trace the process.
            size = min(mapping.end - mapping.start, _MAX_BYTES)
            return PerfDataSource(opening.memory(pid), mapping.start, size)
        return PerfDataSource(root.open_mapped(pid, mapping), 0, _MAX_BYTES)
    return None
