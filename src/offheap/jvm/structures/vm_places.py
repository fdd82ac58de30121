"""Addresses of the JVM's heap, code, collector's tables and metaspace, found without asking the JVM.

The search starts at the fields that HotSpot exports for debuggers.  Objects beyond the exported fields are
recognised by their content, all of which must fit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence

from offheap.jvm.structures import collector_tables, metaspace_nodes, vm_structs
from offheap.jvm.structures.vm_structs import Structs
from offheap.jvm.texts.vm_info import JVMPart, JVMRange
from offheap.proc.maps import Mapping

_MOST_CODE_HEAPS = 16
_HIGHEST = 1 << 57


def places(pid: int, mappings: Sequence[Mapping]) -> list[JVMRange]:
    """The Java heap as reserved (not ZGC's), code heaps, the collector's tables, metaspace before JDK 16.

    [] when nothing is known.  PermissionError when this user may not read the memory.
    """
    structs = vm_structs.find(pid, mappings)
    if structs is None:
        return []
    found: list[JVMRange] = []
    with structs:
        heap = _some(_heap, structs)
        found += heap
        for part in (_code, _cards):
            found += _some(part, structs)
        if heap:
            size = heap[0].end - heap[0].start
            found += _some(lambda structs: collector_tables.find(structs, size), structs)
        found += _some(metaspace_nodes.find, structs)
    # The card table is also one of G1's tables: the name found first is the better one.
    once = {(place.start, place.end): place for place in reversed(found)}
    return [place for (start, end), place in once.items() if 0 < start < end <= _HIGHEST]


def _some(part: Callable[[Structs], Iterator[JVMRange]], structs: Structs) -> list[JVMRange]:
    """The places from one part; [] when its objects are not at the expected addresses."""
    try:
        return list(part(structs))
    except (OSError, struct.error, OverflowError):
        return []


def _heap(structs: Structs) -> Iterator[JVMRange]:
    heap = structs.static("Universe._collectedHeap")
    reserved = structs.at(heap, "CollectedHeap._reserved")
    start = structs.pointer(structs.at(reserved, "MemRegion._start"))
    words = structs.pointer(structs.at(reserved, "MemRegion._word_size"))
    yield from _place(start, start + words * 8, "heap", "Java heap")


def _code(structs: Structs) -> Iterator[JVMRange]:
    heaps = structs.static("CodeCache._heaps")
    length = "GrowableArrayBase._len"
    if not structs.knows(length):
        length = "GenericGrowableArray._len"
    count = structs.pointer(structs.at(heaps, length)) & 0xFFFF_FFFF
    data = structs.pointer(structs.at(heaps, "GrowableArray<int>._data"))
    for number in range(min(count, _MOST_CODE_HEAPS) if data else 0):
        heap = structs.pointer(data + number * 8)
        for field, name in (
            ("CodeHeap._memory", "code heap"),
            ("CodeHeap._segmap", "code heap's segment map"),
        ):
            space = structs.at(heap, field)
            start = structs.pointer(structs.at(space, "VirtualSpace._low_boundary"))
            end = structs.pointer(structs.at(space, "VirtualSpace._high_boundary"))
            yield from _place(start, end, "code", name)


def _cards(structs: Structs) -> Iterator[JVMRange]:
    barriers = structs.static("BarrierSet._barrier_set")
    table = structs.pointer(structs.at(barriers, "CardTableBarrierSet._card_table"))
    start = structs.pointer(structs.at(table, "CardTable._byte_map"))
    size = structs.pointer(structs.at(table, "CardTable._byte_map_size"))
    yield from _place(start, start + size, "gc", "card table")


def _place(start: int, end: int, part: JVMPart, name: str) -> Iterator[JVMRange]:
    if start and start < end:
        yield JVMRange(start, end, part, name)
