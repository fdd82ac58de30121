"""Metaspace's nodes before JDK 16, which may be many, of any size, and look like any other memory.

HotSpot does not export its two VirtualSpaceLists, of metaspace and of class space.  This module finds them
by content: a static variable of libjvm points to a list {first node, newest node, whether of class space,
reserved words, committed words, count of nodes}, and the nodes {next, whether of class space, start, bytes,
...} must match the list in number and length.
"""

from __future__ import annotations

from collections.abc import Iterator

from offheap.jvm.structures.vm_structs import Structs
from offheap.jvm.texts.vm_info import JVMRange
from offheap.proc.pagemap import PAGE

_FIRST_WITHOUT = 16  # JDK 16 has nodes of 64 MiB, which their shape identifies
_LIST_WORDS, _NODE_WORDS = 6, 4
_MOST_NODES = 1 << 16
_MOST_BYTES = 1 << 40


def find(structs: Structs) -> Iterator[JVMRange]:
    """Every node of both lists; nothing on JDK 16 and later."""
    if structs.version() >= _FIRST_WITHOUT:
        return
    for pointer in structs.pointers():
        try:
            yield from _nodes(structs, structs.words(pointer, _LIST_WORDS))
        except OSError:
            continue  # not a pointer to a list


def _nodes(structs: Structs, words: tuple[int, ...]) -> list[JVMRange]:
    """The nodes of a list; [] if it is no list, or is growing."""
    if len(words) < _LIST_WORDS:
        return []
    node, newest, _, reserved, committed, count = words
    if not (0 < count <= _MOST_NODES and 0 < committed <= reserved <= _MOST_BYTES // 8 and node and newest):
        return []
    found: list[JVMRange] = []
    seen_newest = False
    while node and len(found) < count:
        fields = structs.words(node, _NODE_WORDS)
        if len(fields) < _NODE_WORDS:
            return []
        following, _, start, size = fields
        if not (start and size) or start % PAGE or size % PAGE or size > _MOST_BYTES:
            return []
        # The flag is one byte; the other bytes of the word are undefined.
        of_classes = words[2] & 0xFF
        if fields[1] & 0xFF != of_classes:
            return []
        seen_newest = seen_newest or node == newest
        found.append(
            JVMRange(start, start + size, "class space", "class space")
            if of_classes
            else JVMRange(start, start + size, "metaspace", "metaspace")
        )
        node = following
    whole = sum(place.end - place.start for place in found) == reserved * 8
    return found if whole and not node and len(found) == count and seen_newest else []
