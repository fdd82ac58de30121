"""Tables as Parquet: written in one step, and found again.

A file is written under a hidden name and renamed, so a reader and a query of `series/*.parquet` see whole
files only.  Not synchronised to the disk: fsync makes the recorded program wait for the same disk's journal.
A power failure may therefore leave empty parts; readers pass over them.

Recordings of earlier versions grew by a part a snapshot.  Their part `000065-000128.parquet` replaces the
parts 65 to 128; a reader that meets both takes the wider one.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from numpy.typing import NDArray

_PART = re.compile(r"(\d{6,9})(?:-(\d{6,9}))?\.parquet")


def connect() -> duckdb.DuckDBPyConnection:
    """A database in memory that stays small and never reaches for the network."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": 1,
            "memory_limit": "512MB",
            "temp_directory": "",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )
    # DuckDB 1.3 and 1.4 keep what they read by path and by the second of its last change.  Tables are read as
    # /proc/self/fd/N: two of one second, one after the other, would be taken for one.  1.2 has no such cache.
    with contextlib.suppress(duckdb.CatalogException):
        connection.execute("SET enable_external_file_cache = false")
    return connection


@dataclass(frozen=True, slots=True, order=True)
class ParquetPart:
    first: int
    last: int
    path: Path

    @property
    def span(self) -> int:
        return self.last - self.first + 1


def parts(folder: Path) -> list[ParquetPart]:
    """The parts that count, in order; empty ones and those that a wider one replaces do not."""
    found: list[ParquetPart] = []
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    for name in names:
        match = _PART.fullmatch(name)
        if match:
            first = int(match[1])
            last = int(match[2] or first)
            # A part may go between listing and opening, when a wider one has come.
            with contextlib.suppress(FileNotFoundError):
                if last >= first and (folder / name).stat().st_size > 0:
                    found.append(ParquetPart(first, last, folder / name))
    kept: list[ParquetPart] = []
    for part in sorted(found, key=lambda part: (part.first, -part.last)):
        if not kept or part.first > kept[-1].last:
            kept.append(part)
    return kept


def literal(path: Path) -> str:
    """A path as SQL text for read_parquet: quoted, and safe from being taken for a glob."""
    text = re.sub(r"([\[*?])", r"[\1]", str(path))
    return "'" + text.replace("'", "''") + "'"


def reason(error: duckdb.Error) -> str:
    """What DuckDB says first; of some damage it says nothing."""
    return next(iter(str(error).splitlines()), "") or "DuckDB gives no reason"


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
