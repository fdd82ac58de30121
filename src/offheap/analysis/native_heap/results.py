"""The results of a walk through malloc's memory, which reports render."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Use:
    """Blocks in use: their number, the bytes that malloc returned (up to 24 more per block than the program
    asked for), and the bytes in memory of blocks and headers."""

    blocks: int
    bytes: int
    resident: int


@dataclass(frozen=True, slots=True)
class Tagged:
    """Blocks of the JVM under one tag of Native Memory Tracking; `asked` is the bytes the JVM asked for."""

    name: str
    use: Use
    asked: int


@dataclass(frozen=True, slots=True)
class BlockSize:
    """Blocks of one chunk size; malloc was asked for `least` to `most` bytes. `resident` as in Use."""

    size: int
    least: int
    most: int
    blocks: int
    resident: int

    @property
    def bytes(self) -> int:
        return self.size * self.blocks


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """Several chunk sizes: their number and their sums."""

    count: int
    blocks: int
    bytes: int
    resident: int


@dataclass(frozen=True, slots=True)
class Arena:
    """One arena of glibc; bytes.  Free is all memory that no program has: free chunks, caches and the top.

    address         of its state; 0 is the main arena
    size            that malloc has opened, in `heaps` stretches
    free_resident   of `free`, in memory: the memory that glibc keeps
    top_resident    of `free_resident`, at the end of the arena, above its last block
    trimmable       of `free_resident`, on whole pages that malloc_trim gives back
    """

    address: int
    heaps: int
    size: int
    free: int
    free_resident: int
    top_resident: int
    trimmable: int

    @property
    def name(self) -> str:
        return f"arena at {self.address:#x}" if self.address else "main arena"


@dataclass(frozen=True, slots=True)
class Remedy:
    """A way to give memory back: `bytes` now, or at most that with `at_most`; `why` is the evidence."""

    name: str
    bytes: int
    at_most: bool
    why: str


@dataclass(frozen=True, slots=True)
class NativeHeap:
    """glibc's malloc from inside.

    external    blocks that are not the JVM's; all blocks if `told_apart` is False
    sizes       of `external`, the largest sums first
    walked      bytes of arenas whose chunks were walked, of the `size` bytes of all arenas
    remedies    ways to give back free memory
    told_apart  whether Native Memory Tracking's headers identify the JVM's blocks
    estimated   whether there were too many blocks to walk: then every figure but `walked` and `size` is an
                estimate, from the walked share of each arena
    """

    external: Use
    tags: tuple[Tagged, ...]
    sizes: tuple[BlockSize, ...]
    arenas: tuple[Arena, ...]
    remedies: tuple[Remedy, ...]
    walked: int
    size: int
    told_apart: bool
    estimated: bool = False

    @property
    def coverage(self) -> float:
        return self.walked / self.size if self.size else 1.0

    def smaller_sums(self, first: int) -> BlockSizes:
        """All of `sizes` but the first ones, which hold most."""
        left = self.sizes[first:]
        return BlockSizes(
            len(left),
            sum(size.blocks for size in left),
            sum(size.bytes for size in left),
            sum(size.resident for size in left),
        )

    @property
    def free_resident(self) -> int:
        return sum(arena.free_resident for arena in self.arenas)

    @property
    def trimmable(self) -> int:
        return sum(arena.trimmable for arena in self.arenas)


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A process before and after malloc_trim; `how` is the way of the call, which took `seconds`.

    The heaps are None without the right to read the process's memory.
    """

    pid: int
    name: str
    how: str
    seconds: float
    rss_before: int
    rss_after: int
    before: NativeHeap | None
    after: NativeHeap | None
