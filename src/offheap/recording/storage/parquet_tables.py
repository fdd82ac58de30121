"""Reads the Parquet tables of a recording; of what a file says of itself nothing is believed."""

from __future__ import annotations

import functools
import os
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from offheap.errors import UserError
from offheap.proc import opening
from offheap.recording.allowance import OF_TABLES, Allowance, too_large
from offheap.recording.build_recording import NumberedStacks
from offheap.recording.storage.layout import APPENDED, REPLACED
from offheap.recording.storage.parquet_parts import connect, literal, parts, reason

# Bytes in memory while a table is read, at the peak: as DuckDB has them, as numpy does, as rows.
_VALUE_BYTES = 24
_OBJECT_BYTES = 60  # more, where rows become Python's objects
_ITEM_BYTES = 100  # of a stack's frames
_TEXT_BYTES = 3
_MOST_PARTS = 512  # of a table: 130 million rows (finishing.py); an hour of an earlier version's has 112
_TRIES = 3

Columns = dict[str, NDArray[Any]]


class ParquetTables:
    """ValueError or UserError when they are damaged, UserError when they need too much memory."""

    def __init__(self, path: Path) -> None:
        self._connection = _database().cursor()
        self._path = path
        self.allowance = Allowance(path, _size(path), OF_TABLES)
        self._admitted: set[str] = set()

    def close(self) -> None:
        self._connection.close()

    def read(self, table: str, *, order: str = "") -> Columns:
        """All columns; of a table that is not there (yet), none has a row."""
        types = APPENDED.get(table) or REPLACED[table]
        selected = ", ".join(f'"{name}"::{kind} AS "{name}"' for name, kind in types.items())
        return self._query(table, f"SELECT {selected}", f"ORDER BY {order}" if order else "", list(types))

    def stacks(self) -> NumberedStacks:
        heads = self._query(
            "stacks",
            "SELECT stack::UINTEGER AS stack, kind::UTINYINT AS kind, len(frames::UINTEGER[]) AS depth",
            "",
            ["stack", "kind", "depth"],
        )
        flat = self._query("stacks", "SELECT unnest(frames::UINTEGER[]) AS frame", "", ["frame"])
        return NumberedStacks(
            heads["stack"].astype(np.int64),
            heads["kind"].astype(np.uint8),
            heads["depth"].astype(np.int64),
            flat["frame"].astype(np.int64),
        )

    def _admit(self, table: str, listed: str) -> None:
        """UserError when the table needs too much memory: asked before it is read, of the files' footers."""
        if table in self._admitted:
            return
        count, most_values, largest = self._connection.execute(
            "SELECT max(rows), max(items), max(largest) FROM (SELECT sum(row_group_num_rows) AS rows, "
            "sum(num_values) AS items, max(total_uncompressed_size) AS largest "
            f"FROM parquet_metadata([{listed}]) GROUP BY path_in_schema)"
        ).fetchall()[0]
        count, most_values = int(count or 0), int(most_values or 0)
        self.allowance.take(int(largest or 0), 1, f"bytes in a part of {table}")
        self.allowance.give(int(largest or 0), 1)
        types = APPENDED.get(table) or REPLACED[table]
        texts = [name for name, kind in types.items() if kind == "VARCHAR"]
        self.allowance.take(
            count, len(types) * (_VALUE_BYTES + _OBJECT_BYTES * bool(texts)), f"rows of {table}"
        )
        if any(kind.endswith("[]") for kind in types.values()):
            self.allowance.take(max(most_values, count), _ITEM_BYTES, f"frames in {table}")
        if texts:
            # A text that is there once may stand in every row.
            lengths = " + ".join(f'coalesce(strlen("{name}"::VARCHAR), 0)' for name in texts)
            (size,) = self._connection.execute(
                f"SELECT sum({lengths}) FROM read_parquet([{listed}])"
            ).fetchall()[0]
            self.allowance.take(int(size or 0), _TEXT_BYTES, f"bytes of names in {table}")
        self._admitted.add(table)

    def _files(self, table: str, opened: ExitStack) -> list[Path]:
        """The table's files, opened: by these names the recorder neither replaces nor removes them."""
        appended = [part.path for part in parts(self._path / table)] if table in APPENDED else []
        if len(appended) > _MOST_PARTS:
            raise damaged(self._path / table, f"it has {len(appended)} parts")
        found = []
        for path in appended or ([] if table in APPENDED else [self._file(table)]):
            try:
                file = opened.enter_context(opening.regular(path))
            except FileNotFoundError:
                if appended:
                    raise
                return []
            except OSError as error:
                raise UserError(f"{path} cannot be read: {error.strerror}", "check its permissions") from None
            if file.status.st_size:
                found.append(Path(f"/proc/self/fd/{file.descriptor}"))
        return found

    def _file(self, table: str) -> Path:
        return self._path / (table if table in APPENDED else f"{table}.parquet")

    def _query(self, table: str, select: str, order: str, names: list[str]) -> Columns:
        # The recorder may merge parts between our listing and our opening: list again.
        for attempt in range(_TRIES):
            with ExitStack() as opened:
                try:
                    files = self._files(table, opened)
                except FileNotFoundError:
                    if attempt < _TRIES - 1:
                        continue
                    raise damaged(self._file(table), "its parts keep changing") from None
                return self._read(table, files, select, order, names)
        raise AssertionError("unreachable")

    def _read(self, table: str, files: list[Path], select: str, order: str, names: list[str]) -> Columns:
        if not files:
            return {name: np.zeros(0) if name != "name" else np.zeros(0, object) for name in names}
        listed = ", ".join(literal(file) for file in files)
        try:
            self._admit(table, listed)
            result = self._connection.execute(f"{select} FROM read_parquet([{listed}]) {order}").fetchnumpy()
        except duckdb.Error as error:
            # Some damage, the sign of an offset say, makes DuckDB give up the database: it would refuse
            # every recording after this one.
            _database.cache_clear()
            if isinstance(error, duckdb.OutOfMemoryException):
                raise too_large(self._path) from None
            where = self._file(table)
            if table in APPENDED and len(files) == 1:
                where = Path(os.readlink(files[0]))
            why = reason(error).replace(str(files[0]), str(where))
            raise damaged(where, why) from None
        for name in names:
            if np.ma.is_masked(result[name]):
                raise ValueError(f"{table}.{name} has empty values")
        return {name: np.asarray(result[name]) for name in names}


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    """One for all that is read: it holds nothing, and to open one takes as long as to read a table or two."""
    return connect()


def _size(path: Path) -> int:
    """Bytes of all tables."""
    tables = [path / f"{table}.parquet" for table in REPLACED]
    tables += [part.path for table in APPENDED for part in parts(path / table)]
    size = 0
    for file in tables:
        with suppress(OSError):
            size += file.stat().st_size
    return size


def damaged(path: Path, why: str) -> UserError:
    return UserError(f"{path} is damaged: {why}", "copy it again, or record again")
