"""The kind of an ELF file: word size, machine, dynamic loader (System V ABI, ELF header)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from offheap.proc import opening

_PT_INTERP = 3
_MACHINES = {3: "x86", 40: "arm", 62: "x86-64", 183: "aarch64", 243: "riscv"}


@dataclass(frozen=True, slots=True)
class Executable:
    """bits is 32 or 64; interpreter is the dynamic loader's path, "" when there is none."""

    bits: int
    machine: str
    interpreter: str

    @property
    def musl(self) -> bool:
        """Whether musl's loader starts the file."""
        return self.interpreter.rpartition("/")[2].startswith("ld-musl-")


def read(path: Path) -> Executable:
    """Reads an ELF header and its program headers; ValueError when the file has none."""
    with opening.own_link(str(path)) as file:
        head = file.read_at(0, 64)
        if len(head) < 52 or head[:4] != b"\x7fELF" or head[4] not in (1, 2) or head[5] not in (1, 2):
            raise ValueError(f"{path} is not an ELF file")
        wide, order = head[4] == 2, "<" if head[5] == 1 else ">"
        if wide and len(head) < 64:
            raise ValueError(f"{path} is a cut ELF file")
        (machine,) = struct.unpack_from(order + "H", head, 18)
        (table,) = struct.unpack_from(order + ("Q" if wide else "I"), head, 32 if wide else 28)
        row_bytes, rows = struct.unpack_from(order + "HH", head, 54 if wide else 42)
        interpreter = ""
        if row_bytes >= (56 if wide else 32) and table < 1 << 40:
            raw = file.read_at(table, row_bytes * min(rows, 256))
            for start in range(0, len(raw) - row_bytes + 1, row_bytes):
                if struct.unpack_from(order + "I", raw, start)[0] != _PT_INTERP:
                    continue
                offset, length = struct.unpack_from(order + ("8xQ16xQ" if wide else "4xI8xI"), raw, start)
                if offset < 1 << 40:
                    name = file.read_at(offset, min(length, 4096)).split(b"\0")[0]
                    interpreter = name.decode(errors="replace")
                break
    return Executable(64 if wide else 32, _MACHINES.get(machine, f"machine {machine}"), interpreter)
