"""Tables as Parquet parts in folders, written so that whoever kills the writer loses one part at most.

A part is written under a hidden name and renamed, so a reader and a query of
`series/*.parquet` see whole parts only.  Not synchronised to the disk: fsync makes the
recorded program wait for the same disk's journal.  A power failure may therefore leave
empty parts; readers pass over them.

Part `000065-000128.parquet` replaces those numbered 65 to 128.  They are removed
after it is there; a reader that meets both takes the wider one.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

Columns = Mapping[str, NDArray[Any]]

# So many parts of one size become one: an hour at one a second is then 56 + 56 files, not 3,600.
MERGED = 64
_PART = re.compile(r"(\d{6,9})(?:-(\d{6,9}))?\.parquet")


def connect() -> duckdb.DuckDBPyConnection:
    """A database in memory that stays small and never reaches for the network."""
    return duckdb.connect(
        ":memory:",
        config={
            "threads": 1,
            "memory_limit": "512MB",
            "temp_directory": "",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )


@dataclass(frozen=True, slots=True, order=True)
class Part:
    first: int
    last: int
    path: Path

    @property
    def span(self) -> int:
        return self.last - self.first + 1


def parts(folder: Path) -> list[Part]:
    """The parts that count, in order; empty ones and those that a wider one replaces do not."""
    found: list[Part] = []
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    for name in names:
        match = _PART.fullmatch(name)
        if match:
            first = int(match[1])
            last = int(match[2] or first)
            # A part may go between listing and looking, when a wider one has come.
            with contextlib.suppress(FileNotFoundError):
                if last >= first and (folder / name).stat().st_size > 0:
                    found.append(Part(first, last, folder / name))
    kept: list[Part] = []
    for part in sorted(found, key=lambda part: (part.first, -part.last)):
        if not kept or part.first > kept[-1].last:
            kept.append(part)
    return kept


def literal(path: Path) -> str:
    """A path as SQL text for read_parquet: quoted, and safe from being taken for a glob."""
    text = re.sub(r"([\[*?])", r"[\1]", str(path))
    return "'" + text.replace("'", "''") + "'"


def write_parquet(
    connection: duckdb.DuckDBPyConnection, path: Path, query: str, **tables: dict[str, NDArray[Any]]
) -> None:
    """The rows of a query over numpy tables, in place of `path` in one step."""
    hidden = path.with_name(f".{path.name}.writing")
    target = "'" + str(hidden).replace("'", "''") + "'"
    try:
        with _pandas_known_absent():
            for name, columns in tables.items():
                connection.register(name, columns)
            connection.execute(f"COPY ({query}) TO {target} (FORMAT parquet, COMPRESSION zstd)")
        # DuckDB goes by the umask.  The folder is its owner's alone, until somebody gives it away.
        hidden.chmod(0o600)
        hidden.replace(path)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise
    finally:
        for name in tables:
            connection.unregister(name)


@contextlib.contextmanager
def _pandas_known_absent() -> Iterator[None]:
    """DuckDB 1, the last for Python 3.10, imports pandas anew for every text of a numpy table.

    The text might be one of pandas' missing values.  Where pandas is not installed, each of these
    imports searches the whole path: 0.3 ms a name.
    """
    absent = "pandas" not in sys.modules and not _pandas_installed()
    if absent:
        sys.modules["pandas"] = None  # type: ignore[assignment]  # fails at once
    try:
        yield
    finally:
        if absent:
            sys.modules.pop("pandas", None)


@functools.cache
def _pandas_installed() -> bool:
    return importlib.util.find_spec("pandas") is not None


class PartWriter:
    """Appends parts to a folder and merges them when there are many."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
        self._connection = connection
        self._folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)
        self._parts: list[Part] = parts(folder)

    def append(self, query: str, **tables: dict[str, NDArray[Any]]) -> None:
        number = self._parts[-1].last + 1 if self._parts else 1
        path = self._folder / f"{number:06}.parquet"
        write_parquet(self._connection, path, query, **tables)
        self._parts.append(Part(number, number, path))
        while self._merge(MERGED):
            pass

    def finish(self) -> None:
        """Makes one part of all."""
        self._merge_all(self._parts)

    def _merge(self, least: int) -> bool:
        """Merges the trailing parts of one span, if there are enough of them."""
        span = self._parts[-1].span
        trailing: list[Part] = []
        for part in reversed(self._parts):
            if part.span != span:
                break
            trailing.insert(0, part)
        if len(trailing) < least:
            return False
        self._merge_all(trailing)
        return True

    def _merge_all(self, merged: Sequence[Part]) -> None:
        if len(merged) < 2:
            return
        merged = list(merged)
        first, last = merged[0].first, merged[-1].last
        path = self._folder / f"{first:06}-{last:06}.parquet"
        files = ", ".join(literal(part.path) for part in merged)
        write_parquet(self._connection, path, f"SELECT * FROM read_parquet([{files}])")
        self._parts = [part for part in self._parts if part not in merged]
        self._parts.append(Part(first, last, path))
        self._parts.sort()
        for part in merged:
            part.path.unlink(missing_ok=True)


def columns(rows: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """A structured array as the columns DuckDB reads: it wants them contiguous."""
    return {name: np.ascontiguousarray(rows[name]) for name in rows.dtype.names or ()}
