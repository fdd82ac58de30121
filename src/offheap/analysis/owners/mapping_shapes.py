"""Ranges recognized by the shape of mappings alone: glibc and HotSpot always lay them out alike.

A shape counts only without a known exact range, and only if all of it fits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, pairwise

from offheap.analysis.owners.accounts import Owner
from offheap.analysis.owners.claims import Claims, Range
from offheap.jvm.texts.vm_info import MetaspaceUsage
from offheap.proc.smaps import SmapsEntry
from offheap.proc.threads import Thread

ARENA_BYTES = 64 << 20  # glibc's HEAP_MAX_SIZE on 64-bit machines
NODE_BYTES = 64 << 20  # a node of HotSpot's metaspace, JDK 16 and later
NODE_ALIGNMENT = 4 << 20
_UNRESERVED = ("jemalloc", "mimalloc")
_CLOSE = 1 << 20
_COMBINATIONS = 10_000
_LARGEST_GUARD = 1 << 20
_LARGEST_STACK = 1 << 30
# A kernel before 6.7 merges a stack with the mapping above it: then the size is a guess.
_LIKELY_STACK = 8 << 20
_ZGC_MARK_STACKS = 0x1500_0000_0000


@dataclass(frozen=True, slots=True)
class WritableExtent:
    """Addresses [start, end) with `writable` writable bytes."""

    start: int
    end: int
    writable: int


def is_anonymous(row: SmapsEntry) -> bool:
    """Private memory without a file and without a name, as from a plain mmap."""
    return not row.mapping.path and row.mapping.permissions.endswith("p")


def arenas(rows: Sequence[SmapsEntry], heads: Collection[int] = ()) -> list[Range]:
    """The heaps of glibc's arenas without the first, which is [heap]; `heads` comes from glibc_heap.heads.

    arena.c reserves 64 MiB at a multiple of 64 MiB with MAP_NORESERVE ("nr") and opens them from the
    start by mprotect, which keeps that flag; HotSpot commits by a new mmap without it.  glibc 2.43 does
    not set the flag, and under vm.overcommit_memory=2 the kernel ignores it: there only `heads` shows them.
    """
    return [
        Range(start, min(row.mapping.end, start + ARENA_BYTES), "malloc", "glibc arenas")
        for row, start in _aligned(rows)
        if "nr" in row.flags or start in heads
    ]


def unflagged(rows: Sequence[SmapsEntry]) -> list[int]:
    """Possible starts of glibc heaps without the flag."""
    return [start for row, start in _aligned(rows) if "nr" not in row.flags and row.memory.rss]


def _aligned(rows: Sequence[SmapsEntry]) -> Iterator[tuple[SmapsEntry, int]]:
    for row in rows:
        if is_anonymous(row) and row.mapping.permissions == "rw-p":
            first = -(-row.mapping.start // ARENA_BYTES) * ARENA_BYTES
            for start in range(first, row.mapping.end, ARENA_BYTES):
                yield row, start


def other_allocators(rows: Sequence[SmapsEntry]) -> list[Range]:
    """The mappings of jemalloc or mimalloc, in a process with its library.

    Both map everything with MAP_NORESERVE ("nr"; jemalloc unless vm.overcommit_memory is 2), and open what
    they use; HotSpot and libraries' own mmap hardly ever do both.
    """
    names = {row.mapping.name for row in rows if row.is_file}
    found = next((one for one in _UNRESERVED if any(f"lib{one}" in name for name in names)), None)
    if not found:
        return []
    return [
        Range(row.mapping.start, row.mapping.end, "malloc", found)
        for row in rows
        if is_anonymous(row) and row.mapping.permissions == "rw-p" and "nr" in row.flags
    ]


def stacks(rows: Sequence[SmapsEntry], threads: Iterable[Thread]) -> list[Range]:
    """The stacks with a stack pointer inside, by their threads' names."""
    starts = [row.mapping.start for row in rows]
    found = []
    for thread in threads:
        pointer = thread.stack_pointer
        if pointer is None:
            continue
        at = bisect_right(starts, pointer) - 1
        if at < 0 or pointer >= rows[at].mapping.end or not is_anonymous(rows[at]):
            continue  # the main thread's is [stack]
        mapping = rows[at].mapping
        end = mapping.end
        if mapping.end - mapping.start > _LARGEST_STACK or not _is_stack(rows, at):
            end = min(end, pointer + _LIKELY_STACK)
        found.append(Range(mapping.start, end, "thread-stacks", thread.name))
    return found


def other_stacks(rows: Sequence[SmapsEntry], known: Iterable[Range], name: str) -> list[Range]:
    """Mappings shaped like stacks: of threads always running, or ended (glibc keeps some for new threads).

    Linux 6.7 marks MAP_STACK mappings "nh"; before, only the sizes of known stacks identify them.
    """
    sizes = {found.end - found.start for found in known}
    return [
        Range(row.mapping.start, row.mapping.end, "thread-stacks", name)
        for at, row in enumerate(rows)
        if is_anonymous(row)
        and row.mapping.permissions == "rw-p"
        and _is_guard(rows, at - 1)
        and (_is_stack(rows, at) or row.mapping.end - row.mapping.start in sizes)
    ]


def class_space(rows: Sequence[SmapsEntry], claims: Claims, usage: MetaspaceUsage) -> list[Range]:
    """The place with the length and the committed bytes of class space."""
    wanted = usage.class_space
    if wanted is None or not wanted.committed:
        return []
    places = _places(rows, claims, wanted.reserved)
    return _closest(places, 1, wanted.committed, "class-space", "class space")


def metaspace(rows: Sequence[SmapsEntry], claims: Claims, usage: MetaspaceUsage) -> list[Range]:
    """Metaspace's nodes: as many places as the JVM has reserved nodes, with its committed bytes in sum.

    Before JDK 16 a node may have any size; then it is found only if it is the only one.
    """
    wanted = usage.non_class
    count, odd = divmod(wanted.reserved, NODE_BYTES)
    if count and not odd:
        places = _places(rows, claims, NODE_BYTES, NODE_ALIGNMENT)
        found = _closest(places, count, wanted.committed, "metaspace", "metaspace")
        if found:
            return found
    places = _places(rows, claims, wanted.reserved)
    return _closest(places, 1, wanted.committed, "metaspace", "metaspace")


def mark_stacks(rows: Sequence[SmapsEntry]) -> list[Range]:
    """ZGC's mark stacks on JDK 11, at a fixed address that NMT does not track."""
    if not any(row.mapping.path.startswith("/memfd:java_heap") for row in rows):
        return []
    return [
        Range(row.mapping.start, row.mapping.end, "gc", "ZGC mark stacks")
        for row in rows
        if row.mapping.start == _ZGC_MARK_STACKS and is_anonymous(row)
    ]


def _closest(
    places: list[WritableExtent], count: int, committed: int, owner: Owner, name: str
) -> list[Range]:
    """The `count` places whose writable bytes are closest to the JVM's figure; none if they are not close.

    They differ in a JVM that loads classes between the two readings.
    """
    best: tuple[WritableExtent, ...] = ()
    least = max(_CLOSE, committed // 50) + 1
    for chosen in islice(combinations(places, count), _COMBINATIONS):
        apart = abs(sum(place.writable for place in chosen) - committed)
        overlap = any(low.end > high.start for low, high in pairwise(chosen))
        if apart < least and not overlap:
            best, least = chosen, apart
    return [Range(place.start, place.end, owner, name) for place in best]


def _places(
    rows: Sequence[SmapsEntry], claims: Claims, length: int, align: int | None = None
) -> list[WritableExtent]:
    """Unclaimed places of `length` that begin with writable memory and end with reserved memory, in order.

    With `align` they start at its multiples, else at a mapping's start or `length` before a mapping's end.
    """
    found = set()
    for at, row in enumerate(rows):
        if row.mapping.permissions != "rw-p" or not is_anonymous(row) or "nr" in row.flags:
            continue
        # The kernel may have merged it with memory before it: a heap whose end is known, blocks of malloc.
        for start, end, holder in claims.cut(row.mapping.start, row.mapping.end):
            if holder is not None:
                continue
            if align:
                candidates: Iterable[int] = range(-(-start // align) * align, end, align)
            else:
                candidates = [start, *(r.mapping.end - length for r in rows[at + 1 : at + 2])]
            for place in candidates:
                if not start <= place < end:
                    continue
                writable = _writable(rows, at, place, place + length)
                if writable and not any(claim for _, _, claim in claims.cut(place, place + length)):
                    found.add(WritableExtent(place, place + length, writable))
    return sorted(found, key=lambda place: place.start)


def _writable(rows: Sequence[SmapsEntry], at: int, start: int, end: int) -> int:
    """Writable bytes of [start, end); 0 unless the range is anonymous, private, and in part only reserved."""
    writable, reserved, here = 0, 0, start
    for row in rows[at:]:
        mapping = row.mapping
        if here >= end:
            break
        if (
            mapping.start > here
            or mapping.end <= here
            or not is_anonymous(row)
            or mapping.permissions not in ("rw-p", "---p")
        ):
            return 0
        size = min(mapping.end, end) - here
        if mapping.permissions == "rw-p":
            if "nr" in row.flags:
                return 0
            writable += size
        else:
            reserved += size
        here += size
    return writable if here >= end and reserved else 0


def _is_guard(rows: Sequence[SmapsEntry], at: int) -> bool:
    """Whether the mapping below is a guard: small, closed, and adjacent."""
    if at < 0 or at + 1 >= len(rows):
        return False
    mapping = rows[at].mapping
    return (
        is_anonymous(rows[at])
        and mapping.permissions == "---p"
        and mapping.end == rows[at + 1].mapping.start
        and mapping.end - mapping.start <= _LARGEST_GUARD
    )


def _is_stack(rows: Sequence[SmapsEntry], at: int) -> bool:
    return "nh" in rows[at].flags
