"""Stubs of the procedure linkage table: `malloc@plt`.

The stubs have no symbols.  Each jumps through a GOT slot, and the slot's relocation names the
function; the jumps are decoded, because linkers differ in the order and the size of stubs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np

from offheap.proc.images.elf import ElfImage, ElfSection

_SLOT_TYPES = {"x86_64": (6, 7), "aarch64": (1025, 1026)}  # R_*_GLOB_DAT, R_*_JUMP_SLOT
_STUB = 16  # bytes, if the section does not state it
_MOST_BYTES = 64 << 20  # of stubs, or of relocations
_MOST_SECTIONS = 8  # .plt, .plt.got, .plt.sec and the like
_JUMP = re.compile(rb"\xff\x25(....)", re.DOTALL)  # x86-64: jmp *displacement(%rip)


def plt_stubs(image: ElfImage) -> dict[range, bytes]:
    """Address ranges of the stubs and the raw names of the functions they jump to."""
    decode = _DECODERS.get(image.machine)
    sections = [section for section in image.sections if section.name.startswith(".plt")][:_MOST_SECTIONS]
    symbols = image.symbols(".dynsym")
    if decode is None or symbols is None or not sections:
        return {}
    slots: dict[int, bytes] = {}
    for name in (".rela.dyn", ".rela.plt"):
        rows = image.relocations(name, _MOST_BYTES)
        rows = rows[np.isin(rows["type"], _SLOT_TYPES[image.machine])]
        rows = rows[rows["symbol"] < len(symbols.entries)]
        names = symbols.entries["name"][rows["symbol"]].tolist()
        slots.update(zip(rows["offset"].tolist(), map(symbols.name, names), strict=True))
    return {
        stub: slots[slot] for section in sections for stub, slot in decode(image, section) if slot in slots
    }


def _x86_64(image: ElfImage, section: ElfSection) -> Iterator[tuple[range, int]]:
    size = section.entry_size or _STUB
    for jump in _JUMP.finditer(image.data(section, _MOST_BYTES)):
        slot = section.address + jump.end() + int.from_bytes(jump[1], "little", signed=True)
        start = section.address + jump.start() // size * size
        yield range(start, start + size), slot


def _aarch64(image: ElfImage, section: ElfSection) -> Iterator[tuple[range, int]]:
    # adrp x16, page; ldr x17, [x16, offset]; add x16, ...; br x17 -- behind `bti c` in some images.
    data = image.data(section, _MOST_BYTES)
    words = np.frombuffer(data, "<u4", count=len(data) // 4)
    pages = (words[:-1] & 0x9F00001F) == 0x90000010
    loads = (words[1:] & 0xFFC003FF) == 0xF9400211
    for index in np.flatnonzero(pages & loads).tolist():
        page, load = int(words[index]), int(words[index + 1])
        start = section.address + 4 * index
        distance = (page >> 29 & 3) | (page >> 5 & 0x7FFFF) << 2
        distance -= (distance & 1 << 20) << 1  # 21 bits, signed
        slot = (start & ~0xFFF) + (distance << 12) + (load >> 10 & 0xFFF) * 8
        yield range(start, start + _STUB), slot


_DECODERS: dict[str, Callable[[ElfImage, ElfSection], Iterator[tuple[range, int]]]] = {
    "x86_64": _x86_64,
    "aarch64": _aarch64,
}
