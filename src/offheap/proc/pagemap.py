"""/proc/PID/pagemap: which pages of an address range are in memory (kernel: admin-guide/mm/pagemap.rst)."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

PAGE = mmap.PAGESIZE
_ENTRY_BYTES = 8
_PRESENT = 63  # bit
_PAGES_AT_ONCE = 1 << 18  # 2 MiB of entries: 1 GiB of addresses


class Pagemap:
    """A process's page table, as far as everybody may see it.  A context manager.

    PermissionError for another user's process, ProcessLookupError for none.
    """

    def __init__(self, pid: int) -> None:
        try:
            self._file = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise ProcessLookupError(f"no process {pid}") from None

    def __enter__(self) -> Pagemap:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._file)

    def present(self, start: int, end: int) -> int:
        """Pages of [start, end) that are in memory.

        It counts the shared page of zeros too, which RSS does not: good for shares, not for sums.
        """
        return sum(int(np.count_nonzero(part)) for _, part in self._parts(start, end))

    def pages(self, start: int, end: int, limit: int) -> NDArray[np.int64]:
        """Addresses of the first `limit` pages of [start, end) that are in memory, in order."""
        found: list[NDArray[np.int64]] = []
        for address, part in self._parts(start, end):
            found.append(address + np.flatnonzero(part).astype(np.int64) * PAGE)
            limit -= len(found[-1])
            if limit <= 0:
                break
        addresses = np.concatenate(found) if found else np.empty(0, np.int64)
        return addresses[: len(addresses) + min(limit, 0)]

    def _parts(self, start: int, end: int) -> Iterator[tuple[int, NDArray[np.bool_]]]:
        while start < end:
            count = min(_PAGES_AT_ONCE, -(-(end - start) // PAGE))
            raw = os.pread(self._file, count * _ENTRY_BYTES, start // PAGE * _ENTRY_BYTES)
            entries = np.frombuffer(raw[: len(raw) // _ENTRY_BYTES * _ENTRY_BYTES], np.uint64)
            if not len(entries):  # past the end of the address space, or the process has ended
                return
            yield start, (entries >> np.uint64(_PRESENT)).astype(np.bool_)
            start += len(entries) * PAGE
