"""glibc malloc's large blocks, each in a mapping of its own, found from outside by their headers.

malloc/malloc.c: a chunk from mmap starts on a page (unless it came from memalign) with the words
{0, size | 2}; size is a multiple of the page size.  The kernel merges neighbouring mappings, so
that one mapping may hold many of them, next to memory that is not malloc's at all.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable

from offheap.proc.pagemap import PAGE, Pagemap

_HEADER = struct.Struct("<QQ")
_IS_MMAPPED, _FLAGS = 2, 7
# 1 GiB of pages that are no header: a library's own arena, not worth a second of looking.
_MOST_PAGES = 1 << 18


def find(pid: int, ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The [start, end) of every such chunk in `ranges`, which are writable private mappings or parts of them.

    PermissionError when this user may not read the memory.  Only pages that are in memory are read:
    reading any other would make the kernel map one, and looking must not cost the process anything.
    """
    found: list[tuple[int, int]] = []
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        with Pagemap(pid) as pagemap:
            for start, end in ranges:
                found += _find(memory, pagemap, start, end)
    finally:
        os.close(memory)
    return found


def chunk_size(header: bytes) -> int:
    """The size that a mmapped chunk's first 16 bytes tell; 0 when they are no such header."""
    if len(header) != _HEADER.size:
        return 0
    before, size = _HEADER.unpack(header)
    if before or size & _FLAGS != _IS_MMAPPED or (size ^ _IS_MMAPPED) % PAGE:
        return 0
    return int(size ^ _IS_MMAPPED)


def _find(memory: int, pagemap: Pagemap, start: int, end: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    beyond = start
    for address in pagemap.pages(start, end, _MOST_PAGES).tolist():
        if address < beyond:
            continue
        try:
            size = chunk_size(os.pread(memory, _HEADER.size, address))
        except OSError:
            continue  # unmapped meanwhile
        if size and address + size <= end:
            beyond = address + size
            found.append((address, beyond))
    return found
