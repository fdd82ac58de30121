"""Splits malloc's pages by the owners of their blocks; the parts sum to the pages exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from offheap.analysis.native_heap.results import BlockSize, NativeHeap
from offheap.analysis.owners.accounts import Holding, Owner, Part
from offheap.jvm.structures.direct_memory import DirectMemory
from offheap.jvm.texts.nmt import Report

# allocateDirect, Unsafe.allocateMemory and FFM arenas: Other, and Internal before JDK 11.
_DIRECT = "Other"
_BUFFERS = "buffers of ByteBuffer.allocateDirect"
_LEAST_COVERAGE = 0.9
_SIZES = 8


def split(
    holding: Holding, heap: NativeHeap | None, report: Report | None, direct: DirectMemory | None = None
) -> list[Holding]:
    """malloc's holding in parts; any other unchanged.

    `direct` has the JDK's counters: they show direct buffers if the blocks cannot be told apart.
    """
    if holding.owner != "malloc":
        return [holding]
    if heap and (heap.estimated or heap.coverage >= _LEAST_COVERAGE):
        return _found(holding, heap, None if heap.told_apart else direct)
    return _counted(holding, report) if report else _told(holding, direct)


def _told(holding: Holding, direct: DirectMemory | None) -> list[Holding]:
    """Direct buffers, as the JDK counts them, and the rest."""
    size = min(direct.reserved, holding.bytes) if direct else 0
    if not size:
        return [holding]
    left = _Left(holding.bytes - size)
    rest = left.take([(part.name, part.bytes, part.ranges) for part in holding.parts])
    buffers = Holding("direct-buffers", size, (Part(_BUFFERS, size, 0),), counted=True)
    return [buffers, *([Holding("malloc", sum(part.bytes for part in rest), rest)] if rest else [])]


class _Left:
    """Bytes of the holding that have no owner yet; the holding and the walk are from different moments."""

    def __init__(self, size: int) -> None:
        self.size = size

    def take(self, names: Sequence[tuple[str, int, int]]) -> tuple[Part, ...]:
        parts = []
        for name, size, ranges in sorted(names, key=lambda one: -one[1]):
            size = min(size, self.size)
            self.size -= size
            if size:
                parts.append(Part(name, size, ranges))
        return tuple(parts)


def _found(holding: Holding, heap: NativeHeap, counted: DirectMemory | None) -> list[Holding]:
    left = _Left(holding.bytes)
    # Blocks that cannot be told apart include the buffers.
    blocks = sum(s.resident for s in heap.sizes)
    buffers = min(counted.reserved, blocks, holding.bytes) if counted else 0
    left.size -= buffers
    found = _by_chunks(left, heap, buffers)
    if buffers:
        found.append(Holding("direct-buffers", buffers, (Part(_BUFFERS, buffers, 0),), counted=True))
    return found


def _by_chunks(left: _Left, heap: NativeHeap, buffers: int) -> list[Holding]:
    """`buffers`: bytes of direct buffers among the blocks of `heap.sizes`."""
    direct = [(t.name, t.use.resident, t.use.blocks) for t in heap.tags if t.name == _DIRECT]
    others = [(t.name, t.use.resident, t.use.blocks) for t in heap.tags if t.name != _DIRECT]
    whose = "libraries' blocks" if heap.told_apart else "blocks"
    remaining = _without(heap.sizes, buffers)
    sizes = [(f"{whose} in chunks of {s.size:,} bytes", s.resident, s.blocks) for s in remaining[:_SIZES]]
    smaller = remaining[_SIZES:]
    sizes.append(
        (f"{whose} of other sizes", sum(s.resident for s in smaller), sum(s.blocks for s in smaller))
    )
    free = [(arena.name, arena.free_resident, arena.heaps) for arena in heap.arenas]
    groups: list[tuple[Owner, list[tuple[str, int, int]]]] = [
        ("direct-buffers", direct),
        ("jvm-malloc", others),
        ("malloc", sizes),
        ("malloc-free", free),
    ]
    parts: dict[Owner, tuple[Part, ...]] = {owner: left.take(names) for owner, names in groups}
    if left.size:
        parts["malloc"] += (Part("malloc's own tables, and what changed meanwhile", left.size, 0),)
    return [Holding(owner, sum(part.bytes for part in some), some) for owner, some in parts.items() if some]


def _without(sizes: Sequence[BlockSize], buffers: int) -> list[BlockSize]:
    """The blocks less `buffers` bytes of direct buffers, which this assumes to be the largest blocks."""
    if not buffers:
        return list(sizes)
    left = []
    for one in sorted(sizes, key=lambda one: -one.size):
        taken = min(one.resident, buffers)
        buffers -= taken
        if taken < one.resident:
            share = 1 - taken / one.resident
            left.append(replace(one, resident=one.resident - taken, blocks=max(round(one.blocks * share), 1)))
        elif not taken:
            left.append(one)
    return sorted(left, key=lambda one: (-one.resident, one.size))


def _counted(holding: Holding, report: Report) -> list[Holding]:
    """The bytes that Native Memory Tracking counts, and the rest."""
    left = _Left(holding.bytes)
    groups: dict[Owner, list[tuple[str, int]]] = {"direct-buffers": [], "jvm-malloc": []}
    for name, category in report.categories.items():
        group: Owner = "direct-buffers" if name == _DIRECT else "jvm-malloc"
        groups[group].append((name, category.malloc + category.arena + category.overhead))
    counted = []
    for owner, sums in groups.items():
        parts = left.take([(name, size, 0) for name, size in sorted(sums, key=lambda pair: -pair[1])])
        if parts:
            counted.append(Holding(owner, sum(part.bytes for part in parts), parts, counted=True))
    if left.size:
        rest = Part("libraries' blocks, and what malloc keeps free", left.size, 0)
        counted.append(Holding("malloc", left.size, (rest,), counted=True))
    return counted
