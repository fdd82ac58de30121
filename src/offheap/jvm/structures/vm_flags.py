"""A JVM's own flags (-XX:+...), read from outside: their values from every source.

HotSpot keeps them in one array, JVMFlag::flags, which it exports for debuggers (jvmFlag.hpp).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from offheap.jvm.structures import vm_structs
from offheap.proc import root
from offheap.proc.images.elf import ElfError, ElfImage
from offheap.proc.maps import Mapping
from offheap.proc.time_limit import within

_SECONDS = 30.0  # the symbols of libjvm.so take half a second
_MOST_FLAGS = 1 << 13  # JDK 21 has 1,248
_MOST_ROW_BYTES = 128
_MOST_NAMES = 4 << 20  # bytes from the first to the last name


def is_set(pid: int, mappings: Sequence[Mapping], name: str) -> bool | None:
    """Whether a flag is on; None when the JVM does not export it, or without the right to read its memory.

    Before the JVM has read its options, the value is the flag's default.
    """
    image = next((m for m in mappings if m.name == "libjvm.so" and m.offset == 0), None)
    if image is None:
        return None
    try:
        # A file that never answers may back the memory.
        return within(_SECONDS, lambda: _read(pid, mappings, image, name))
    except (OSError, ElfError, struct.error, OverflowError, ValueError):
        return None


def _read(pid: int, mappings: Sequence[Mapping], image: Mapping, name: str) -> bool | None:
    structs = vm_structs.find(pid, mappings)
    if structs is None:
        return None
    with structs, ElfImage.of(root.open_mapped(pid, image)) as file:
        address = _address(structs, file, image.start - file.load_address, name.encode())
        value = structs.read(address, 1)
        return bool(value[0]) if value else None


def _address(structs: vm_structs.Structs, file: ElfImage, bias: int, name: bytes) -> int:
    """The address of the flag's value; 0 when no flag has that name."""
    start, count = structs.static("JVMFlag.flags"), structs.static("JVMFlag.numFlags")
    size, name_at, value_at = (
        structs.size_of("JVMFlag"),
        *map(structs.offset, ("JVMFlag._name", "JVMFlag._addr")),
    )
    if not 1 < count <= _MOST_FLAGS or not 0 < size <= _MOST_ROW_BYTES or name_at is None or value_at is None:
        return 0
    row = np.dtype(
        {"names": ["name", "value"], "formats": ["<u8"] * 2, "offsets": [name_at, value_at], "itemsize": size}
    )
    rows = np.frombuffer(structs.read(start, (count - 1) * size), row)  # the last row has no name
    low, high = int(rows["name"].min()), int(rows["name"].max())
    if not low or high - low > _MOST_NAMES:
        return 0
    # The names come from the file: reading an untouched page of the process would make it resident.
    text = file.at_address(low - bias, high - low + len(name) + 1)
    for at, value in zip((rows["name"] - low).tolist(), rows["value"].tolist(), strict=True):
        if text.startswith(name + b"\0", at):
            return int(value)
    return 0
