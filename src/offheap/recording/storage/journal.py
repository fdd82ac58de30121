"""The tables of a recording while it is written: blocks of rows, appended to one file a table.

The index of a Parquet file stands at its end, so a table that grows would be one file a snapshot, and DuckDB,
which writes these, takes 60 MB of memory.  The recorder runs beside a JVM that may be near its memory limit.
The recorder therefore appends blocks, and makes Parquet of them once the recording is over (finishing.py).
Whoever reads a recording whose recorder still runs, or was killed, reads the blocks.

    journal/TABLE.blocks      blocks in turn; the table is all their rows

        0           4           8                   16                  24
        | "ohb1"    | rows      | bytes, inflated   | bytes, deflated   | zlib stream ...
          4 bytes     u32         u64                 u64

Inflated, a block is its columns in the order of layout.py, each without a gap after the one before:

    numbers    rows values
    texts      rows lengths in bytes (u32), then the UTF-8 of all

Numbers are little-endian.  An incomplete block at the end of a file does not count: the recorder is writing
it, or was killed meanwhile.  zlib's checksum covers the others.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.proc import opening
from offheap.recording.allowance import OF_TABLES, Allowance
from offheap.recording.build_recording import NumberedStacks
from offheap.recording.storage.layout import APPENDED, JOURNALED, REPLACED

Columns = dict[str, NDArray[Any]]

FOLDER = "journal"
_DONE = ".journal-done"  # the folder's name while it is removed

_HEAD = struct.Struct("<4sIQQ")
_MAGIC = b"ohb1"
# The fastest: a recorder has little CPU time, and the journal is gone when the recording ends.
_LEVEL = 1
# Deflate makes at most 1,032 bytes of one (zlib's documentation); a block's head and ends come to less.
_MOST_INFLATED = 1_040
_NUMBERS: dict[str, np.dtype[Any]] = {
    "DOUBLE": np.dtype("<f8"),
    "UBIGINT": np.dtype("<u8"),
    "UINTEGER": np.dtype("<u4"),
    "USMALLINT": np.dtype("<u2"),
    "UTINYINT": np.dtype("u1"),
    "BOOLEAN": np.dtype("u1"),
}
_LENGTH: np.dtype[Any] = np.dtype("<u4")
# Bytes of memory: a text as Python has it beside its bytes; a number while it is inflated, cut and joined.
_TEXT_BYTES, _COPIES = 100, 3

_PIECE = 1 << 20  # bytes that are read at once

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


Values = NDArray[Any] | Sequence[str]


def types(table: str) -> dict[str, str]:
    """Column -> DuckDB type."""
    return {**APPENDED, **REPLACED, **JOURNALED}[table]


class Journal:
    """Appends to the tables of a folder that it makes.  OSError when it cannot.

    compressed  False: blocks are stored as they are, for whoever ends the recording at once
    """

    def __init__(self, recording: Path, *, compressed: bool = True) -> None:
        self._level = _LEVEL if compressed else 0
        self.folder = recording / FOLDER
        self.folder.mkdir(mode=0o700)
        self._files: dict[str, int] = {}

    def append(self, table: str, columns: Mapping[str, Values]) -> None:
        """Rows of a table: texts as a sequence of str."""
        if table not in self._files:
            path = self.folder / f"{table}.blocks"
            self._files[table] = os.open(path, _FLAGS | os.O_APPEND, 0o600)
        _write(self._files[table], _block(table, columns, self._level))

    def replace(self, table: str, columns: Mapping[str, Values]) -> None:
        """All rows of a table, in place of those that were there, in one step."""
        path = self.folder / f"{table}.blocks"
        hidden = self.folder / f".{table}.writing"
        try:
            descriptor = os.open(hidden, _FLAGS | os.O_TRUNC, 0o600)
            try:
                _write(descriptor, _block(table, columns, self._level))
            finally:
                os.close(descriptor)
            hidden.replace(path)
        except BaseException:
            hidden.unlink(missing_ok=True)
            raise

    def close(self) -> None:
        while self._files:
            os.close(self._files.popitem()[1])

    def remove(self) -> None:
        """Removes the folder: a reader finds all of it or nothing."""
        self.close()
        done = self.folder.with_name(_DONE)
        self.folder.rename(done)
        for name in os.listdir(done):
            (done / name).unlink()
        done.rmdir()


def in_writing(recording: Path) -> bool:
    """Whether its tables are in a journal: its recorder runs, or was killed."""
    try:
        return stat.S_ISDIR(opening.status(recording / FOLDER).st_mode)
    except OSError:
        return False


class JournalTables:
    """Reads the tables of a recording that has a journal.

    ValueError when they are damaged, UserError when they need too much memory, FileNotFoundError once the
    journal is gone.  `own`: the reader has written it, and no limit of memory applies.
    """

    def __init__(self, recording: Path, *, own: bool = False) -> None:
        self._folder = recording / FOLDER
        self.allowance = None if own else Allowance(recording, self._size(), OF_TABLES)

    def close(self) -> None:
        """Keeps nothing open."""

    def read(self, table: str, *, order: str = "") -> Columns:
        """All columns, by the values of one; of a table that is not there (yet), none has a row."""
        parts = list(self.blocks(table))
        columns: Columns = {}
        for name, kind in types(table).items():
            found = [part[name] for part in parts]
            empty = np.zeros(0, _NUMBERS.get(kind, np.dtype(object)))
            columns[name] = np.concatenate(found) if len(found) > 1 else found[0] if found else empty
        if order:
            at = np.argsort(columns[order], kind="stable")
            columns = {name: values[at] for name, values in columns.items()}
        return columns

    def stacks(self) -> NumberedStacks:
        heads = self.read("heads")
        depths = heads["depth"].astype(np.int64)
        frames = self.read("members")["frame"].astype(np.int64)
        if int(depths.sum()) > len(frames):
            raise ValueError("stacks have more frames than there are")
        numbers, kinds = heads["stack"].astype(np.int64), heads["kind"].astype(np.uint8)
        return NumberedStacks(numbers, kinds, depths, frames[: int(depths.sum())])

    def blocks(self, table: str) -> Iterator[Columns]:
        """The rows as they were appended."""
        try:
            file = opening.regular(self._folder / f"{table}.blocks")
        except FileNotFoundError:
            opening.status(self._folder)  # FileNotFoundError where the journal is gone
            return
        with file:
            at, size = 0, file.status.st_size
            while at + _HEAD.size <= size:
                magic, rows, inflated, deflated = _HEAD.unpack(file.read_at(at, _HEAD.size))
                if magic != _MAGIC or inflated > _MOST_INFLATED * (deflated + 1):
                    raise ValueError(f"{table} at byte {at}: no block")
                at += _HEAD.size
                if at + deflated > size:
                    break
                if self.allowance:
                    self.allowance.take(inflated, _COPIES, f"bytes of {table}")
                    self.allowance.take(rows * _texts(table), _TEXT_BYTES, f"texts of {table}")
                try:
                    columns = _columns(table, rows, _inflate(file, at, inflated, deflated))
                except (ValueError, zlib.error) as error:
                    raise ValueError(f"{table} at byte {at}: {error}") from None
                at += deflated
                yield columns

    def _size(self) -> int:
        """Bytes of all tables."""
        size = 0
        for table in (*APPENDED, *REPLACED, *JOURNALED):
            with contextlib.suppress(OSError):
                size += opening.status(self._folder / f"{table}.blocks").st_size
        return size


def _texts(table: str) -> int:
    """How many columns of texts it has."""
    return list(types(table).values()).count("VARCHAR")


def _block(table: str, columns: Mapping[str, Values], level: int) -> list[bytes]:
    """The head and the body of a block."""
    rows = inflated = 0
    deflate = zlib.compressobj(level)
    body = []
    for name, kind in types(table).items():
        values = columns[name]
        rows = len(values)
        # Column by column: a copy of a live set of ten million blocks takes 340 MB.
        for piece in _bytes(values, kind):
            inflated += memoryview(piece).nbytes
            body.append(deflate.compress(piece))
    body.append(deflate.flush())
    return [_HEAD.pack(_MAGIC, rows, inflated, sum(map(len, body))), *body]


def _bytes(values: Values, kind: str) -> list[memoryview | bytes]:
    """A column as a block has it."""
    if kind in _NUMBERS:
        return [np.ascontiguousarray(values, _NUMBERS[kind]).data]
    # A path of the file system may hold bytes that are no text at all (surrogateescape).
    texts = [str(text).encode("utf-8", "replace") for text in values]
    return [np.array([len(text) for text in texts], _LENGTH).data, b"".join(texts)]


def _write(descriptor: int, pieces: Sequence[bytes]) -> None:
    """Appends them all, or raises OSError: where the disk is full, an incomplete block is left."""
    left = memoryview(b"".join(pieces))
    while left:
        left = left[os.write(descriptor, left) :]


def _inflate(file: opening.RegularFile, at: int, inflated: int, deflated: int) -> bytes:
    stream = zlib.decompressobj()
    pieces, left = [], inflated
    for first in range(at, at + deflated, _PIECE):
        piece = file.read_at(first, min(_PIECE, at + deflated - first))
        # One byte more than there may be, so that what is too long shows.
        pieces.append(stream.decompress(piece, left + 1))
        left -= len(pieces[-1])
        if left < 0 or stream.unconsumed_tail:
            break
    if left or not stream.eof:
        raise ValueError("a block has another length than it says")
    return b"".join(pieces)


def _columns(table: str, rows: int, data: bytes) -> Columns:
    columns: Columns = {}
    at = 0
    for name, kind in types(table).items():
        number = _NUMBERS.get(kind, _LENGTH)
        # ValueError where the data end before.  Aligned, because DuckDB reads them as they are.
        values = np.require(np.frombuffer(data, number, rows, at), requirements="A")
        at += values.nbytes
        if kind == "VARCHAR":
            ends = at + np.cumsum(values, dtype=np.int64)
            if rows and ends[-1] > len(data):
                raise ValueError("texts are longer than their block")
            texts = np.empty(rows, object)
            for row, (end, length) in enumerate(zip(ends.tolist(), values.tolist(), strict=True)):
                texts[row] = data[end - length : end].decode("utf-8", "replace")
            columns[name] = texts
            at = int(ends[-1]) if rows else at
        else:
            columns[name] = values
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes too many")
    return columns
