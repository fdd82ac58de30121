"""/proc/PID/pagemap: which pages of an address range are in memory (kernel: admin-guide/mm/pagemap.rst)."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PAGE = mmap.PAGESIZE
_ENTRY_BYTES = 8
_PRESENT, _FILE_OR_SHARED, _EXCLUSIVE = 63, 61, 56  # bits
_SURE = np.uint64(1 << _FILE_OR_SHARED | 1 << _EXCLUSIVE)
_PAGES_AT_ONCE = 1 << 18  # 2 MiB of entries: 1 GiB of addresses


@dataclass(frozen=True, slots=True)
class Present:
    """Pages in memory: those that RSS counts, and those that may be the shared page of zeros.

    The kernel maps the page of zeros for a read of memory that was never written, and RSS does not count it.
    It has neither bit 61 nor 56; pages that a forked child still shares with its parent also have neither,
    but RSS counts them.
    """

    counted: int
    doubtful: int


class Pagemap:
    """The part of a process's page table that needs no privileges.  A context manager.

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

        The count includes the shared page of zeros, which RSS does not.
        """
        return sum(int(np.count_nonzero(_present(part))) for _, part in self._parts(start, end))

    def split(self, start: int, end: int) -> Present:
        """The pages of `present`, split by whether RSS counts them."""
        counted = doubtful = 0
        for _, part in self._parts(start, end):
            present = _present(part)
            sure = present & ((part & _SURE) != 0)
            counted += int(np.count_nonzero(sure))
            doubtful += int(np.count_nonzero(present & ~sure))
        return Present(counted, doubtful)

    def pages(self, start: int, end: int, limit: int) -> NDArray[np.int64]:
        """Addresses of the first `limit` pages of [start, end) that are in memory, in order."""
        found: list[NDArray[np.int64]] = []
        for address, part in self._parts(start, end):
            found.append(address + np.flatnonzero(_present(part)).astype(np.int64) * PAGE)
            limit -= len(found[-1])
            if limit <= 0:
                break
        addresses = np.concatenate(found) if found else np.empty(0, np.int64)
        return addresses[: len(addresses) + min(limit, 0)]

    def _parts(self, start: int, end: int) -> Iterator[tuple[int, NDArray[np.uint64]]]:
        while start < end:
            count = min(_PAGES_AT_ONCE, -(-(end - start) // PAGE))
            raw = os.pread(self._file, count * _ENTRY_BYTES, start // PAGE * _ENTRY_BYTES)
            entries = np.frombuffer(raw[: len(raw) // _ENTRY_BYTES * _ENTRY_BYTES], np.uint64)
            if not len(entries):  # past the end of the address space, or the process has ended
                return
            yield start, entries
            start += len(entries) * PAGE


def _present(entries: NDArray[np.uint64]) -> NDArray[np.bool_]:
    present: NDArray[np.bool_] = (entries >> np.uint64(_PRESENT)).astype(np.bool_)
    return present
