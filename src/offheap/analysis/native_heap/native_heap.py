"""Owners and sizes of malloc's blocks, and the memory that malloc keeps, from a walk of its chunks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.native_heap.remedies import remedies
from offheap.analysis.native_heap.results import Arena, BlockSize, NativeHeap, Tagged, Use
from offheap.jvm.structures import malloc_header
from offheap.jvm.texts.nmt import Report
from offheap.proc.glibc.glibc_heap import CACHED, FREE, TOP, USED, Block, Heap
from offheap.proc.pagemap import PAGE

_HEADER, _MMAPPED_HEADER = 8, 16  # bytes of a chunk's size that the program cannot use
_ENOUGH_CANARIES = 64  # a JVM has thousands of blocks
_FREE_CHUNK_HEADER = 48  # sizeof(struct malloc_chunk): malloc_trim keeps it and gives back whole pages after
_IN_USE = np.dtype(
    [
        ("size", "i8"),
        ("usable", "i8"),
        ("resident", "i8"),
        ("first", "u8"),
        ("second", "u8"),
        ("mmapped", "?"),
        ("weight", "f8"),
    ],
    align=True,
)


def native_heap(
    heaps: Sequence[Heap],
    blocks: Sequence[Block],
    report: Report | None,
    settings: Mapping[str, str] | None = None,
) -> NativeHeap:
    """The sums over all arenas and over the blocks in mappings of their own.

    A heap whose walk was cut short stands for its whole length.

    `settings` are the MALLOC_ variables and GLIBC_TUNABLES that the process started with.

    `report` names the JVM's tags; None when Native Memory Tracking is off, or did not answer.
    """
    used = np.concatenate([_in_use(heap) for heap in heaps] + [_mmapped(blocks)])
    tags = malloc_header.tags(used["size"], used["first"], used["second"])
    # Without tracking there are no headers, and a match is chance.
    told_apart = report is not None or _canaries(used, tags) >= _ENOUGH_CANARIES
    if not told_apart:
        tags = np.full(len(used), -1, np.int16)
    external = used[tags < 0]
    arenas = _arenas(heaps)
    return NativeHeap(
        external=_use(external),
        tags=_tagged(used, tags, report),
        sizes=_sizes(external),
        arenas=arenas,
        remedies=remedies(arenas, settings or {}),
        walked=sum(heap.walked - heap.start for heap in heaps) + sum(b.end - b.start for b in blocks),
        size=sum(heap.end - heap.start for heap in heaps) + sum(b.end - b.start for b in blocks),
        told_apart=told_apart,
        estimated=any(heap.cut for heap in heaps),
    )


def _canaries(used: NDArray[np.void], tags: NDArray[np.int16]) -> int:
    canaries = (used["second"] >> np.uint64(48)) == malloc_header.CANARY
    return int(np.count_nonzero((tags >= 0) & canaries))


def _in_use(heap: Heap) -> NDArray[np.void]:
    chunks = heap.chunks[heap.chunks["state"] == USED]
    found = np.zeros(len(chunks), _IN_USE)
    for name in ("size", "first", "second"):
        found[name] = chunks[name]
    found["usable"] = chunks["size"] - _HEADER
    found["weight"] = _weight(heap)
    found["resident"] = heap.resident(chunks["address"], chunks["address"] + chunks["size"])
    return found


def _weight(heap: Heap) -> float:
    """The number of chunks that each walked chunk stands for."""
    return (heap.end - heap.start) / (heap.walked - heap.start) if heap.cut and len(heap.chunks) else 1.0


def _mmapped(blocks: Sequence[Block]) -> NDArray[np.void]:
    return np.array(
        [
            (b.end - b.start, b.end - b.start - _MMAPPED_HEADER, b.resident, b.first, b.second, True, 1.0)
            for b in blocks
        ],
        _IN_USE,
    )


def _use(used: NDArray[np.void]) -> Use:
    weight = used["weight"]
    usable, resident = ((weight * used[name]).sum() for name in ("usable", "resident"))
    return Use(round(weight.sum()), round(usable), round(resident))


def _tagged(used: NDArray[np.void], tags: NDArray[np.int16], report: Report | None) -> tuple[Tagged, ...]:
    groups = {int(tag): used[tags == tag] for tag in np.unique(tags[tags >= 0])}
    asked = {tag: round((group["weight"] * group["first"]).sum()) for tag, group in groups.items()}
    walked = [(tag, round(group["weight"].sum()), asked[tag]) for tag, group in groups.items()]
    names = malloc_header.name_tags(walked, report) if report else {}
    found = [Tagged(names.get(tag, f"tag {tag}"), _use(group), asked[tag]) for tag, group in groups.items()]
    return tuple(sorted(found, key=lambda tagged: -tagged.asked))


def _sizes(used: NDArray[np.void]) -> tuple[BlockSize, ...]:
    found = []
    for mmapped in (False, True):
        group = used[used["mmapped"] == mmapped]
        sizes, which = np.unique(group["size"], return_inverse=True)
        counts = np.rint(np.bincount(which, group["weight"], len(sizes))).astype(np.int64)
        memory = np.bincount(which, group["resident"] * group["weight"], len(sizes))
        resident = np.rint(memory).astype(np.int64)
        header, step = (_MMAPPED_HEADER, PAGE) if mmapped else (_HEADER, 16)
        for size, count, held in zip(sizes.tolist(), counts.tolist(), resident.tolist(), strict=True):
            most = size - header
            least = max(most - step + 1, 0) if size > 32 else 0
            found.append(BlockSize(size, least, most, count, held))
    return tuple(sorted(found, key=lambda one: (-one.bytes, one.size)))


def _arenas(heaps: Sequence[Heap]) -> tuple[Arena, ...]:
    groups: defaultdict[int, list[Heap]] = defaultdict(list)
    for heap in heaps:
        if len(heap.chunks):
            groups[heap.arena].append(heap)
    found = [_arena(address, group) for address, group in groups.items()]
    return tuple(sorted(found, key=lambda arena: (-arena.free_resident, arena.address)))


def _arena(address: int, heaps: Sequence[Heap]) -> Arena:
    free = free_resident = top_resident = trimmable = 0.0
    for heap in heaps:
        chunks, weight = heap.chunks, _weight(heap)
        start, end = chunks["address"], chunks["address"] + chunks["size"]
        resident = heap.resident(start, end)
        kept = np.isin(chunks["state"], (FREE, CACHED, TOP))
        free += weight * int(chunks["size"][kept].sum())
        free_resident += weight * int(resident[kept].sum())
        tops = chunks["state"] == TOP
        top_resident += weight * int(resident[tops].sum())
        # malloc_trim handles the bins of every arena, but only the main arena's top.
        given = (chunks["state"] == FREE) | (tops & (address == 0))
        first = np.minimum(-(-(start + _FREE_CHUNK_HEADER) // PAGE) * PAGE, end)
        last = np.maximum(end // PAGE * PAGE, first)
        trimmable += weight * int(heap.resident(first, last)[given].sum())
    size = sum(heap.end - heap.start for heap in heaps)
    sums = (round(value) for value in (free, free_resident, top_resident, trimmable))
    return Arena(address, len(heaps), size, *sums)
