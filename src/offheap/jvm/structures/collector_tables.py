"""The tables that G1 and Parallel keep beside the Java heap: mark bitmaps, block offsets, card counts.

Each is a share of the heap's reserve: a bit for each word (1/64), or a byte for each card of 512 bytes.
HotSpot exports none of them.  This module finds them in HotSpot's own objects, whose words must fit: two
page-aligned borders, as far apart as such a table is long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from offheap.jvm.structures.vm_structs import Structs
from offheap.jvm.texts.vm_info import JVMRange
from offheap.proc.pagemap import PAGE

_HUGE_PAGE = 2 << 20
_MARKS = "mark bitmap"
_MANAGER_WORDS, _MAPPER_WORDS, _GENERATION_WORDS = 40, 6, 24
# A PSVirtualSpace has, after its vtable: alignment, borders of the reserved part, of the committed part.
_SPACE_WORDS = 5
_PAGE_SIZE_WORDS = 1  # JDK 26 has the page size behind the alignment, and the page size passes as one


def find(structs: Structs, heap: int) -> Iterator[JVMRange]:
    """The tables of a heap of `heap` reserved bytes; nothing for collectors without tables."""
    own = structs.static("Universe._collectedHeap")
    generation = structs.static("ParallelScavengeHeap._old_gen")
    if generation:
        yield from _parallel(structs, generation, heap)
    elif manager := structs.at(own, "G1CollectedHeap._hrm"):
        # A JVM exports the offset under every collector, but only G1 has tables there.
        tables = list(_g1(structs, manager, heap))
        if any(place.name == _MARKS for place in tables):
            yield from tables
        elif generation := structs.pointer(structs.at(own, "ParallelScavengeHeap._old_gen")):
            tables = list(_parallel(structs, generation, heap))  # JDK 27: a field of the heap
            if any(place.name == _MARKS for place in tables):
                yield from tables


def _g1(structs: Structs, manager: int, heap: int) -> Iterator[JVMRange]:
    """The HeapRegionManager's words are pointers to G1RegionToSpaceMappers with the borders of a reserve."""
    sizes = {heap // 64: _MARKS, heap // 512: "block offsets, card counts"}
    for pointer in structs.words(manager, _MANAGER_WORDS):
        for low, high in pairwise(_words(structs, pointer, _MAPPER_WORDS)):
            if name := _table(low, high, sizes):
                yield JVMRange(low, high, "gc", name)


def _parallel(structs: Structs, generation: int, heap: int) -> Iterator[JVMRange]:
    """PSParallelCompact's static variables point to PSVirtualSpaces; the old generation has its own."""
    # Begin and end bits in one reserve; since JDK 24 one bitmap.
    sizes = {heap // 32: _MARKS, heap // 64: _MARKS, heap // 512: "block offsets"}
    for pointer in structs.pointers():
        for low, high in _spaces(_words(structs, pointer + 8, _SPACE_WORDS + _PAGE_SIZE_WORDS)):
            if name := _table(low, high, sizes):
                yield JVMRange(low, high, "gc", name)
    # ObjectStartArray is part of the generation; since JDK 24 a separate object that begins with a pointer.
    arrays = structs.words(generation, _GENERATION_WORDS)
    for pointer in (generation, *(first for array in arrays for first in _words(structs, array, 1))):
        for low, high in _spaces(_words(structs, pointer, _GENERATION_WORDS)):
            if _is_paged(low, high) and high - low <= heap // 512 + PAGE:
                yield JVMRange(low, high, "gc", "object starts")


def _words(structs: Structs, pointer: int, count: int) -> tuple[int, ...]:
    """() when the word is no pointer."""
    try:
        return structs.words(pointer, count)
    except OSError:
        return ()


def _spaces(words: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The borders of each PSVirtualSpace that these words may contain."""
    for at in range(len(words) - _SPACE_WORDS + 1):
        alignment, low, high, open_low, open_high = words[at : at + _SPACE_WORDS]
        if alignment >= PAGE and not alignment & alignment - 1 and low <= open_low <= open_high <= high:
            yield low, high


def _table(low: int, high: int, sizes: dict[int, str]) -> str:
    """The name of the table of one of these sizes, or ""."""
    if _is_paged(low, high):
        for size, name in sizes.items():
            if high - low in (-(-size // PAGE) * PAGE, -(-size // _HUGE_PAGE) * _HUGE_PAGE):
                return name
    return ""


def _is_paged(low: int, high: int) -> bool:
    return 0 < low < high and not low % PAGE and not high % PAGE
