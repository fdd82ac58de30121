"""glibc malloc's large blocks, each in a mapping of its own, found from outside by their headers.

malloc/malloc.c: a chunk from mmap starts on a page (unless it came from memalign) with the words
{0, size | 2}; size is that of the mapping, from glibc 2.43 on without these two words.  The kernel
merges neighbouring mappings, so that one mapping may hold many chunks, next to memory that is not
malloc's.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from offheap.proc.pagemap import PAGE, Pagemap

_HEADER = struct.Struct("<QQ")
_IS_MMAPPED, _FLAGS = 2, 7
# A limit for large memory without headers, such as a program's own arena: 256 MiB take a third of a second.
_MOST_READS = 1 << 16
_MOST_PAGES = 1 << 24  # of one range


def find(pid: int, ranges: Iterable[tuple[int, int]]) -> tuple[list[tuple[int, int]], bool]:
    """([start, end) of such chunks in `ranges`, whether the search is complete); smallest ranges first.

    The ranges are writable private mappings or parts of them.  PermissionError when this user may
    not read the memory.  The search reads only pages in memory: for any other page the kernel would
    map one, and the search must not cost the process memory.
    """
    found: list[tuple[int, int]] = []
    reads = _MOST_READS
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        with Pagemap(pid) as pagemap:
            for start, end in sorted(ranges, key=lambda one: one[1] - one[0]):
                chunks, reads = _find(memory, pagemap.pages(start, end, _MOST_PAGES), end, reads)
                found += chunks
                if reads <= 0:
                    break
    finally:
        os.close(memory)
    return sorted(found), reads > 0


def chunk_size(header: bytes) -> int:
    """The mapping's size in a mmapped chunk's first 16 bytes; 0 when they are no such header."""
    if len(header) != _HEADER.size:
        return 0
    before, size = _HEADER.unpack(header)
    if before or size & _FLAGS != _IS_MMAPPED:
        return 0
    size ^= _IS_MMAPPED
    mapped: int = size if size % PAGE == 0 else size + _HEADER.size
    return 0 if mapped % PAGE else mapped


def _find(memory: int, pages: NDArray[np.int64], end: int, reads: int) -> tuple[list[tuple[int, int]], int]:
    """The chunks among these pages, and how many of `reads` are left."""
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(pages) and reads > 0:
        address = int(pages[at])
        try:
            size = chunk_size(os.pread(memory, _HEADER.size, address))
        except OSError:
            size = 0  # the process has unmapped it
        if size and address + size <= end:
            found.append((address, address + size))
            at = int(np.searchsorted(pages, address + size))
        else:
            reads -= 1
            at += 1
    return found, reads
