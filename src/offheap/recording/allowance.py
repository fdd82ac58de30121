"""How much memory a recording may take while it is read: its own claims are not trusted.

A few kilobytes can stand for billions of rows (a sparse file, a run length, a compressed page), so the reader
adds up what it is about to read.  The sum is bounded by a multiple of the file's size and by a total.

The total is that of a command: `diff` holds two recordings, and the second may take what the first has left.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from offheap.errors import UserError
from offheap.quantities import QuantityError, format_size, parse_size

VARIABLE = "OFFHEAP_READ_MEMORY"
DEFAULT = 1 << 30  # bytes in all
BASE = 64 << 20  # bytes that any recording may take, however small
# Bytes for each byte of Parquet.  An exact recording of a leak of equal blocks has 122,880 rows in a row
# group of 1.1 KB, 120 bytes each in memory: 13,500.
OF_TABLES = 16_000
OF_LIVE_FILE = 32  # bytes for each byte of a live file, which is not compressed
# Bytes for each byte that the user grants the probe: a live block takes 24 there, and 120 while it is read;
# stacks and their names come on top.
OF_PROBE = 6

# What reading takes beside the tables: the interpreter, DuckDB's buffers, symbols of a live file's modules.
_BESIDE = 1 << 30
# What an import takes beside the file: the interpreter and its libraries 160 MiB, and DuckDB, which writes
# the tables, up to 488.
BESIDE_IMPORT = 768 << 20

_probe_memory = 0


@dataclass
class OneReading:
    """One recording, as a command reads it beside `held` bytes of others; `taken` is complete at the end."""

    held: int = 0
    taken: int = 0


_reading: OneReading | None = None  # that of `ceiling`


def bear(probe_memory: int) -> None:
    """For a command that starts a probe of so many bytes: its reader may take OF_PROBE times as many."""
    global _probe_memory
    _probe_memory = probe_memory


def limit() -> int:
    """Bytes of OFFHEAP_READ_MEMORY, else of `bear`; UserError if the variable is not a size."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return max(DEFAULT, OF_PROBE * _probe_memory)
    try:
        return parse_size(text)
    except QuantityError:
        raise UserError(f"{VARIABLE} is {text!r}, not a size", "give one such as 4GiB") from None


class Allowance:
    """What one reading may still take; `size` bytes of file stand for at most `factor` times as many.

    A reading may have several, one after the other: when its files are replaced, it begins anew.
    """

    def __init__(self, path: Path, size: int, factor: int) -> None:
        self._path = path
        self._of_size = BASE + size * factor
        self._reading = _reading
        self._held = _reading.held if _reading else 0
        self._most = limit() - self._held
        self.taken = 0

    @property
    def exceeded(self) -> bool:
        return self.taken > min(self._of_size, self._most)

    def take(self, count: int, row_bytes: float, what: str) -> None:
        """UserError if `count` rows of so many bytes each exceed the memory that is left."""
        self.taken += round(count * row_bytes)
        if self._reading:
            self._reading.taken = max(self._reading.taken, self.taken)
        if self.taken > self._of_size:
            raise UserError(
                f"{self._path} is damaged: it has {count:,} {what}, which a file of its size does not hold",
                "copy it again, or record again",
            )
        if self.taken > self._most:
            raise UserError(
                f"{self._path} needs about {format_size(self.taken)} of memory to be read "
                f"({count:,} {what}), more than {format_size(max(0, self._most))}"
                + (f", as the other recording takes {format_size(self._held)}" if self._held else ""),
                f"if it is yours, allow more: {VARIABLE}={_larger(self._held + self.taken)}GiB",
            )

    def give(self, count: int, row_bytes: float) -> None:
        """Takes back what was taken for a part that is no longer held."""
        self.taken -= round(count * row_bytes)


def too_large(path: Path) -> UserError:
    """For an allocation that failed."""
    return UserError(
        f"{path} needs more than {format_size(limit())} of memory to be read",
        f"if it is yours, allow more: {VARIABLE}={_larger(2 * limit())}GiB",
    )


@contextlib.contextmanager
def ceiling(path: Path, held: int = 0, beside: int = _BESIDE) -> Iterator[OneReading]:
    """A ceiling for the whole process, as a last resort: allocations beyond fail, which is then a UserError.

    For a command that only reads: the limit is the process's, and a recorder in it could fail instead.  One
    thread at a time.  `held`: bytes of recordings that the command has read before and still holds;
    `beside`: those that it takes beside the reading.
    """
    global _reading
    _reading = OneReading(held)
    try:
        with _limited(path, held, beside):
            yield _reading
    finally:
        _reading = None


@contextlib.contextmanager
def _limited(path: Path, held: int, beside: int) -> Iterator[None]:
    try:
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = max(0, limit() - held) + beside + _data_bytes()
    except (OSError, ValueError):
        yield
        return
    lower = soft == resource.RLIM_INFINITY or soft > most
    try:
        if lower:
            resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
        yield
    except MemoryError:
        raise too_large(path) from None
    finally:
        if lower:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _larger(size: int) -> int:
    """GiB, rounded up."""
    return -(-size // (1 << 30))


def _data_bytes() -> int:
    """What RLIMIT_DATA counts already."""
    with open("/proc/self/status") as file:
        return next((int(line.split()[1]) << 10 for line in file if line.startswith("VmData:")), 0)
