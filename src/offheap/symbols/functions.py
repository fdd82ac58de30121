"""The functions of an image by address, from its symbol tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from offheap.proc.images.elf import (
    INDEX_ABSOLUTE,
    INDEX_EXTENDED,
    INDEX_UNDEFINED,
    SECTION_EXECUTE,
    SYMBOL_FUNCTION,
    SYMBOL_IFUNC,
    SYMBOL_LOCAL,
    SYMBOL_NOTYPE,
    ElfImage,
    SymbolTable,
)
from offheap.symbols.names import plain

# Identical code folding can give thousands of empty functions one address.
_MOST_ALIASES = 256

_ROW = np.dtype(
    [("start", "<u8"), ("size", "<u8"), ("limit", "<u8"), ("name", "<u4"), ("table", "u1"), ("order", "u1")]
)


class FunctionTable:
    """Functions from several symbol tables of one image, say .symtab of its debug file and .dynsym.

    A function of known size ends there: code behind it belongs to no function.  A function of size 0
    (hand-written assembler: HotSpot's _Copy_* routines) reaches to the next one or the end of its section.
    `sparse`: the tables lack functions, so code after a function of size 0 may belong to another one.
    """

    def __init__(self, tables: Sequence[tuple[ElfImage, SymbolTable]], *, sparse: bool = False) -> None:
        self._tables = [table for _, table in tables]
        parts = [_functions(image, table, number) for number, (image, table) in enumerate(tables)]
        rows = np.concatenate(parts) if parts else np.empty(0, _ROW)
        if sparse:
            rows = rows[rows["size"] > 0]
        self._rows = rows[np.argsort(rows["start"], kind="stable")]
        self._starts, self._first = np.unique(self._rows["start"], return_index=True)
        self._ends, self._reach = self._extents()

    def __len__(self) -> int:
        return len(self._starts)

    def aliases(self, address: int) -> list[str]:
        """The raw (mangled) names of the function that holds the address, the best one first."""
        group = self._group(address)
        if group < 0:
            return []
        low = int(self._first[group])
        high = int(self._first[group + 1]) if group + 1 < len(self._first) else len(self._rows)
        rows: list[tuple[int, ...]] = self._rows[low : min(high, low + _MOST_ALIASES)].tolist()
        sized = any(size for _, size, *_ in rows)
        ranked = set()
        for start, size, _, offset, table, order in rows:
            if sized and size <= address - start:
                continue
            name = plain(self._tables[table].name(offset).decode("utf-8", "replace"))
            # A mapping symbol ($x, $d on ARM) marks a change between code and data, not a function.
            if name and not name.startswith("$"):
                ranked.add((order, *_rank(name)))
        return [name for *_, name in sorted(ranked)]

    def _extents(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        if not len(self._rows):
            return np.empty(0, np.uint64), np.empty(0, np.uint64)
        starts = self._starts
        ends = self._rows["start"] + self._rows["size"]
        ends[ends < self._rows["start"]] = np.iinfo(np.uint64).max  # start + size wrapped
        ends = np.maximum.reduceat(ends, self._first)
        reach = np.maximum.accumulate(ends)  # the furthest end of all functions up to here
        covered = np.concatenate([[np.uint64(0)], reach[:-1]]) > starts
        following = np.concatenate([starts[1:], [np.iinfo(np.uint64).max]]).astype(np.uint64)
        limits = np.maximum.reduceat(self._rows["limit"], self._first)
        sizeless = (ends == starts) & ~covered  # a covered one is a label within a function
        return np.where(sizeless, np.minimum(following, limits), ends), reach

    def _group(self, address: int) -> int:
        at = int(np.searchsorted(self._starts, np.uint64(address), side="right")) - 1
        if at < 0 or self._ends[at] > address:
            return at
        if self._reach[at] <= address:
            return -1
        # The address is past a function nested within another one (glibc's memmove family has such entries).
        return int(np.flatnonzero(self._ends[:at] > address)[-1])


def _rank(name: str) -> tuple[int, int, str]:
    # The common name first: malloc before __libc_malloc, memalign before aligned_alloc.
    underscores = 0 if name.startswith(("_Z", "_R")) else len(name) - len(name.lstrip("_"))
    return underscores, len(name), name


def _functions(image: ElfImage, table: SymbolTable, number: int) -> NDArray[np.void]:
    entries = table.entries
    sections = image.sections
    executable = np.array([bool(s.flags & SECTION_EXECUTE) for s in sections] + [False])
    section_ends = np.array([(s.address + s.size) % 2**64 for s in sections] + [2**64 - 1], np.uint64)
    index = np.minimum(entries["section"], len(sections))
    kind = entries["info"] & 15
    typed = (kind == SYMBOL_FUNCTION) | (kind == SYMBOL_IFUNC)
    keep = typed | ((kind == SYMBOL_NOTYPE) & executable[index])
    keep &= (entries["section"] != INDEX_UNDEFINED) & (entries["section"] != INDEX_ABSOLUTE)
    keep &= (entries["name"] != 0) & ((index < len(sections)) | (entries["section"] == INDEX_EXTENDED))
    entries, index, typed = entries[keep], index[keep], typed[keep]
    rows = np.empty(len(entries), _ROW)
    rows["start"], rows["size"], rows["name"] = entries["value"], entries["size"], entries["name"]
    rows["limit"] = section_ends[index]
    rows["table"] = number
    rows["order"] = 2 * ~typed + (entries["info"] >> 4 == SYMBOL_LOCAL)
    return rows
