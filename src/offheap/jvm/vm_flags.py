"""A JVM's own flags (-XX:+...), read from outside: what it was told, wherever it was told so.

HotSpot keeps them in one array, JVMFlag::flags, which it exports for debuggers (jvmFlag.hpp).  The size of a
row is not exported with the fields: it is found as the distance at which every row has the address of a name.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

import numpy as np

from offheap.jvm import vm_structs
from offheap.proc import root
from offheap.proc.elf import ElfError, ElfImage
from offheap.proc.maps import Mapping

_MOST_FLAGS = 1 << 13  # JDK 21 has 1,400
_ROW_BYTES = range(16, 129, 8)
_SURE_ROWS = 100  # so many names in a row are no accident
_NAME = re.compile(rb"[A-Z]\w{2,99}\0")
_MOST_NAMES = 4 << 20  # bytes from the first to the last name


def is_set(pid: int, mappings: Sequence[Mapping], name: str) -> bool | None:
    """Whether a flag is on; None where the JVM does not tell, or its memory may not be read.

    Before the JVM has read its options, the flag's default.
    """
    image = next((m for m in mappings if m.name == "libjvm.so" and m.offset == 0), None)
    if image is None:
        return None
    try:
        structs = vm_structs.find(pid, mappings)
        if structs is None:
            return None
        with structs, ElfImage.of(root.open_mapped(pid, image)) as file:
            address = _address(structs, file, image.start - file.load_address, name.encode())
            return bool(structs.byte(address)) if address else None
    except (OSError, ElfError, struct.error, OverflowError, ValueError):
        return None


def _address(structs: vm_structs.Structs, file: ElfImage, bias: int, name: bytes) -> int:
    """Of the flag's value; 0 when there is none of that name."""
    start, count = structs.static("JVMFlag.flags"), structs.static("JVMFlag.numFlags")
    if not start or not _SURE_ROWS < count <= _MOST_FLAGS:
        return 0
    words = np.array(structs.words(start, count * _ROW_BYTES[-1] // 8), np.uint64)
    name_at, value_at = (structs.at(8, f"JVMFlag.{field}") - 8 for field in ("_name", "_addr"))
    if min(name_at, value_at) < 0 or name_at % 8 or value_at % 8:
        return 0
    for row_bytes in _ROW_BYTES:
        step = row_bytes // 8
        names = words[name_at // 8 :: step][: count - 1]  # the last row has none
        if max(name_at, value_at) >= row_bytes or len(names) < count - 1 or not names.all():
            continue
        low, high = int(names.min()), int(names.max())
        if high - low > _MOST_NAMES:
            continue
        text = file.at_address(low - bias, high - low + 256)
        places = (names - low).tolist()
        if not all(_NAME.match(text, at) for at in places[:_SURE_ROWS]):
            continue
        for at, value in zip(places, words[value_at // 8 :: step].tolist(), strict=False):
            if text.startswith(name + b"\0", at):
                return int(value)
    return 0
