"""glibc malloc's arenas, walked chunk by chunk from outside (malloc/malloc.c, malloc/arena.c).

A chunk starts with the words {size of the chunk before, its own size | flags}; the next one follows.
Bit 0 of the next chunk's size says whether a chunk is in use, and stays set while a freed chunk waits in
a thread's cache or a fastbin: their links identify such chunks.  glibc 2.32 and later scramble a link
with its own address.

The process runs during the walk.  Each window of memory is walked right after its read, because an old
copy has errors: the header of a chunk that was merged and reused leads into program data.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from offheap.proc import maps
from offheap.proc.glibc import glibc_chunks
from offheap.proc.pagemap import PAGE, Pagemap

HEAP_BYTES = 64 << 20  # HEAP_MAX_SIZE on 64-bit machines
USED, FREE, CACHED, TOP = range(4)
# first, second: the first 16 bytes of the program's part, which glibc uses when the chunk is free.
CHUNK = np.dtype(
    [("address", "i8"), ("size", "i8"), ("state", "u1"), ("first", "u8"), ("second", "u8")], align=True
)
HEADER_BYTES = 16
_LEAST = 32
_WINDOW_BYTES = 4 << 20
_TRIES = 4
FEW_CHUNKS, ALL_CHUNKS = 600_000, 1 << 62  # the first are walked in a second
_PREVIOUS_IN_USE = 1
_FIRST_WORDS = struct.Struct("<QQ")
# sizeof(heap_info) before glibc 2.35 and since; sizeof(malloc_state) before 2.26, since, and from 2.43 on,
# which has no fastbins.
_HEAP_INFOS, _ARENAS = (32, 48, 64), (2192, 2200, 2112)


@dataclass(frozen=True, slots=True)
class Heap:
    """One stretch of an arena, the addresses [start, end).

    arena    address of the arena's state; 0 is the main arena, which grows by brk
    walked   the chunks below this address are known; `end` when all are
    chunks   CHUNK records in the order of addresses, without a gap
    present  for each page of [start, end) whether it is in memory
    cut      whether the walk ended before `end` because it had enough chunks
    """

    start: int
    end: int
    arena: int
    walked: int
    chunks: NDArray[np.void]
    present: NDArray[np.bool_]
    cut: bool = False

    def resident(self, start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bytes in memory of each [start, end) within this heap."""
        return self._resident_before(end) - self._resident_before(start)

    def _resident_before(self, address: NDArray[np.int64]) -> NDArray[np.int64]:
        before = np.concatenate([[0], np.cumsum(self.present, dtype=np.int64)]) * PAGE
        page, offset = np.divmod(np.clip(address, self.start, self.end) - self.start, PAGE)
        part = np.where(np.append(self.present, False)[page], offset, 0)
        result: NDArray[np.int64] = before[page] + part
        return result


@dataclass(frozen=True, slots=True)
class Block:
    """A chunk in its own mapping: its CHUNK record, and its bytes in memory."""

    start: int
    end: int
    resident: int
    first: int
    second: int


def walk(
    pid: int,
    main: Sequence[tuple[int, int]],
    others: Sequence[tuple[int, int]],
    *,
    scrambled: bool = True,
    most: int = ALL_CHUNKS,
) -> list[Heap]:
    """The heaps of every arena: `main` are the ranges that brk grows, `others` those at multiples of 64 MiB.

    `scrambled`: glibc is 2.32 or later; before, chunks in caches and fastbins count as in use.
    `most`: about the highest number of chunks to walk; each range gets a share by its length, from its start.
    Ranges that are no heap are not walked.  PermissionError when this user may not read the memory.
    The walk reads only pages in memory: the kernel would map any other page for a read.
    """
    heaps: list[Heap] = []
    with _Memory(pid) as memory:
        left = sum(end - start for start, end in (*main, *others))
        for number, (start, end) in enumerate((*main, *others)):
            share = most * (end - start) // max(left, 1)
            if number < len(main):
                grown = partial(_end_of_main, pid, start, end)
                heap = _walk(memory, start, grown, 0, (start,), share)
            else:
                arena, candidates = _entry(memory, start)
                grown = partial(_end_of_heap, memory, start, end)
                heap = _walk(memory, start, grown, arena, candidates, share)
            heaps.append(heap)
            most, left = max(most - len(heap.chunks), 0), left - (end - start)
    if scrambled:
        mark_cached(heaps)
    return heaps


def heads(pid: int, starts: Iterable[int]) -> list[int]:
    """Those of `starts`, multiples of 64 MiB, at which a heap begins, by its first words.

    PermissionError when this user may not read the memory.
    """
    with _Memory(pid) as memory:
        in_memory = [start for start in starts if memory.present(start, start + PAGE).all()]
        return [start for start in in_memory if _is_head(memory, start)]


def blocks(pid: int, chunks: Iterable[tuple[int, int]]) -> list[Block]:
    """The content of the chunks from `glibc_chunks.find`, without chunks that are gone."""
    found = []
    with _Memory(pid) as memory:
        for start, end in chunks:
            try:
                words = os.pread(memory.file, 32, start)
            except OSError:
                continue
            # Another mapping may be there now, and would look like a library's block.
            if len(words) == 32 and glibc_chunks.chunk_size(words[:HEADER_BYTES]) == end - start:
                resident = memory.pagemap.present(start, end) * PAGE
                found.append(Block(start, end, resident, *_FIRST_WORDS.unpack_from(words, HEADER_BYTES)))
    return found


def mark_cached(heaps: Sequence[Heap]) -> None:
    """Tells chunks that wait in a thread's cache or in a fastbin from chunks in use, by their links.

    A link is the next chunk's address (in a cache, the address of the program's part) or 0, exclusive or
    the link's own address shifted right by 12.  The next chunk in the list has the same size.
    """
    if not heaps:
        return
    ordered = sorted(heaps, key=lambda heap: heap.start)
    addresses = np.concatenate([heap.chunks["address"] for heap in ordered])
    sizes = np.concatenate([heap.chunks["size"] for heap in ordered])
    if not len(addresses):
        return
    for heap in heaps:
        used = np.flatnonzero(heap.chunks["state"] == USED)
        chunks = heap.chunks[used]
        place = (chunks["address"] + HEADER_BYTES).astype(np.uint64)
        link = (chunks["first"] ^ (place >> np.uint64(12))).astype(np.int64)
        linked = link == 0
        # The first word of most blocks is no address: a search for each would take longer than the walk.
        near = np.flatnonzero((link >= addresses[0]) & (link <= addresses[-1] + HEADER_BYTES))
        for following in (link[near], link[near] - HEADER_BYTES):
            at = np.minimum(np.searchsorted(addresses, following), len(addresses) - 1)
            linked[near] |= (addresses[at] == following) & (sizes[at] == chunks["size"][near])
        heap.chunks["state"][used[linked]] = CACHED


class _Memory:
    """A process's memory; only present pages are read.  A context manager."""

    def __init__(self, pid: int) -> None:
        self.pagemap = Pagemap(pid)
        try:
            self.file = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self.pagemap.__exit__()
            raise

    def __enter__(self) -> _Memory:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self.file)
        self.pagemap.__exit__()

    def present(self, start: int, end: int) -> NDArray[np.bool_]:
        """For each page of [start, end) whether it is in memory."""
        pages = self.pagemap.pages(start, end, 1 << 40)
        result = np.zeros(-(-(end - start) // PAGE), np.bool_)
        result[(pages - start) // PAGE] = True
        return result

    def read(self, start: int, present: NDArray[np.bool_]) -> bytearray:
        """The pages from `start` on, zeros for pages that are not in memory or vanish during the read."""
        content = bytearray(len(present) * PAGE)
        view = memoryview(content)
        borders = np.flatnonzero(np.diff(np.concatenate([[False], present, [False]]).astype(np.int8)))
        for first, last in borders.reshape(-1, 2).tolist():
            try:
                os.preadv(self.file, [view[first * PAGE : last * PAGE]], start + first * PAGE)
            except OSError:
                continue
        return content

    def words(self, address: int, count: int) -> list[int]:
        try:
            raw = os.pread(self.file, count * 8, address)
        except OSError:
            return []
        return [int(word) for word in np.frombuffer(raw[: len(raw) // 8 * 8], np.uint64)]


def _entry(memory: _Memory, start: int) -> tuple[int, tuple[int, ...]]:
    """(arena, candidates for its first chunk) of the heap at `start`; no candidates if that is no heap."""
    arena, before, *_ = memory.words(start, 2) or (0, 0)
    if any(arena == start + info for info in _HEAP_INFOS) and not before:
        # The arena's first heap holds the arena's state, and is the only one without a heap before it.
        return arena, tuple(_align(arena + state) for state in _ARENAS)
    if arena <= 0 or arena % 16 or not before or before % HEAP_BYTES:
        return start, ()
    return arena, tuple(start + info for info in _HEAP_INFOS)


def _is_head(memory: _Memory, start: int) -> bool:
    arena, candidates = _entry(memory, start)
    words = memory.words(start, 4)
    return (
        bool(candidates)
        and arena % HEAP_BYTES in _HEAP_INFOS
        and len(words) == 4
        and 0 < words[2] <= words[3] <= HEAP_BYTES
        and words[2] % PAGE == words[3] % PAGE == 0
    )


def _end_of_heap(memory: _Memory, start: int, end: int) -> int:
    """The present end of the heap's memory; `end` if the heap does not state it."""
    words = memory.words(start, 4)
    if len(words) == 4 and 0 < words[2] <= words[3] <= HEAP_BYTES and words[2] % 16 == 0:
        return start + words[2]
    return end


def _end_of_main(pid: int, start: int, end: int) -> int:
    found = [mapping.end for mapping in maps.read(pid) if mapping.start == start]
    return found[0] if found else end


def _align(address: int) -> int:
    return -(-address // 16) * 16


def _walk(
    memory: _Memory, start: int, grown: Callable[[], int], arena: int, candidates: Iterable[int], most: int
) -> Heap:
    """Walks from the candidate that leads furthest; `grown` returns the present end of the heap."""
    end = grown()
    best = Heap(start, end, arena, start, np.zeros(0, CHUNK), memory.present(start, end))
    for candidate in candidates:
        heap = _chunks(memory, candidate, start, grown, arena, most)
        if heap.walked > best.walked:
            best = heap
        if heap.walked >= heap.end:
            break
    return best


def _chunks(memory: _Memory, first: int, start: int, grown: Callable[[], int], arena: int, most: int) -> Heap:
    """The heap from `first` on; a step to no valid chunk is tried again with newly read memory."""
    end = grown()
    present = memory.present(start, end)
    parts: list[NDArray[np.void]] = []
    flags: list[NDArray[np.uint8]] = []
    at, failed, count = first, 0, 0
    while at + HEADER_BYTES <= end and failed < _TRIES and count < most:
        page = (at - start) // PAGE
        window = memory.read(start + page * PAGE, present[page : page + _WINDOW_BYTES // PAGE])
        found, marks, reached = _window(window, start + page * PAGE, at, end, most - count)
        if reached == at:
            failed += 1
            end = grown()
            present = memory.present(start, end)
            continue
        failed = 0
        parts.append(found)
        flags.append(marks)
        count += len(found)
        at = reached
    if not parts:
        return Heap(start, end, arena, start, np.zeros(0, CHUNK), present)
    chunks, marks = np.concatenate(parts), np.concatenate(flags)
    # The next chunk says whether a chunk is in use; the last one is the top, or only marks the end.
    chunks["state"][:-1] = np.where(marks[1:] & _PREVIOUS_IN_USE, USED, FREE)
    done = at + HEADER_BYTES > end
    chunks["state"][-1] = TOP if done else USED
    walked = end if done else int(chunks["address"][-1])
    chunks = chunks[: None if done else -1]
    if not (chunks["size"] >= _LEAST).all():
        chunks = chunks[chunks["size"] >= _LEAST]
    return Heap(start, end, arena, walked, chunks, present, cut=not done and count >= most)


def _window(
    window: bytearray, base: int, first: int, end: int, most: int
) -> tuple[NDArray[np.void], NDArray[np.uint8], int]:
    """(records, flags, address of the next chunk) for the chunks from `first` on that start in the window."""
    words = memoryview(window).cast("Q")
    indices: list[int] = []
    append = indices.append
    at, last = (first - base) // 8, min(len(words), (end - base) // 8) - 3
    for _ in range(most):
        if at >= last:
            break
        size = words[at + 1] & ~7
        # Old tops end in a chunk of 16 bytes and one of 0 bytes.
        if size < 16 or size & 8 or base + at * 8 + size > end:
            break
        append(at)
        at += size >> 3
    rest = base + at * 8
    if at >= last and rest < end and rest + 32 > end:
        rest = end  # the two chunks that mark the end of an old top
    if not indices:
        return np.zeros(0, CHUNK), np.zeros(0, np.uint8), rest if rest == end else first
    where = np.array(indices, np.int64)
    content = np.frombuffer(window, np.uint64)
    found = np.zeros(len(where), CHUNK)
    head = content[where + 1]
    found["address"] = base + where * 8
    found["size"] = (head & ~np.uint64(7)).astype(np.int64)
    found["first"], found["second"] = content[where + 2], content[where + 3]
    return found, (head & np.uint64(7)).astype(np.uint8), rest
