"""The blocks that are live after a log of allocations and frees by address."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offheap.errors import UserError
from offheap.recording import allowance

_ROW = 20 + 40  # bytes of a live block while a batch is added: its columns, and the sorted copies of them
# Events that wait before they are sorted into the live blocks: 44 MB.  With more live blocks, as many events
# wait as there are live blocks, so that each event is sorted a few times at most.
_BATCH = 2_000_000

_Events = tuple[NDArray[np.bool_], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint32]]


class LiveBlocks:
    """Turns events into live blocks and totals of their sites, in memory for the live blocks and one batch.

    The figures are true after `finish`.

    pointers, sizes, sites  the live blocks
    allocated_blocks/bytes  by site, of all allocations
    unknown_frees           of addresses that no allocation had: the log began later
    replaced                allocations of an address that was live: its free is not in the log
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.pointers = np.zeros(0, np.uint64)
        self.sizes = np.zeros(0, np.uint64)
        self.sites = np.zeros(0, np.uint32)
        self.allocated_blocks = np.zeros(0)
        self.allocated_bytes = np.zeros(0)
        self.unknown_frees = 0
        self.replaced = 0
        self._waiting: list[_Events] = []
        self._events = 0

    def add(
        self,
        births: NDArray[np.bool_],
        pointers: NDArray[np.uint64],
        sizes: NDArray[np.uint64],
        sites: NDArray[np.uint32],
    ) -> None:
        """Events in their order: an allocation where `births`, else a free.  Address 0 is none."""
        some = pointers != 0
        self._waiting.append((births[some], pointers[some], sizes[some], sites[some]))
        self._events += len(self._waiting[-1][0])
        if self._events >= max(_BATCH, len(self.pointers)):
            self.finish()

    def finish(self) -> None:
        """Sorts the waiting events into the live blocks."""
        if not self._waiting:
            return
        births, pointers, sizes, sites = map(np.concatenate, zip(*self._waiting, strict=True))
        self._waiting, self._events = [], 0
        self._count(sizes[births], sites[births])
        held = len(self.pointers)
        pointers = np.concatenate((self.pointers, pointers))
        sizes = np.concatenate((self.sizes, sizes))
        sites = np.concatenate((self.sites, sites))
        births = np.concatenate((np.ones(held, bool), births))
        order = np.argsort(pointers, kind="stable")
        grouped, born = pointers[order], births[order]
        same = grouped[1:] == grouped[:-1]
        last = np.append(~same, True)[: len(grouped)]
        before = np.zeros(len(grouped), bool)  # whether the address was live before the event
        before[1:] = same & born[:-1]
        self.unknown_frees += int((~born & ~before).sum())
        self.replaced += int((born & before).sum())
        left = np.sort(order[last & born])
        self.pointers, self.sizes, self.sites = pointers[left], sizes[left], sites[left]
        if len(left) * _ROW > allowance.limit():
            raise UserError(
                f"{self._path} has more than {len(left):,} live blocks: more memory than is allowed",
                f"if it is yours, allow more: {allowance.VARIABLE}=4GiB",
            )

    def forget(self) -> None:
        """Drops the blocks; the totals of allocations stay."""
        self.pointers, self.sizes, self.sites = self.pointers[:0], self.sizes[:0], self.sites[:0]

    def _count(self, sizes: NDArray[np.uint64], sites: NDArray[np.uint32]) -> None:
        if not len(sites):
            return
        most = max(len(self.allocated_blocks), int(sites.max()) + 1)
        self.allocated_blocks = _padded(self.allocated_blocks, most) + np.bincount(sites, minlength=most)
        self.allocated_bytes = _padded(self.allocated_bytes, most) + np.bincount(sites, sizes, minlength=most)


def _padded(values: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    return np.pad(values, (0, length - len(values)))
