"""Turns the journal of a finished recording into Parquet (docs/recording-format.md).

The journal counts as long as it exists, so a recorder that is killed in between loses nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import duckdb
import numpy as np

from offheap.recording.storage.journal import Columns, JournalTables
from offheap.recording.storage.layout import APPENDED, REPLACED
from offheap.recording.storage.parquet_parts import connect, reason, write_parquet

# Rows of a part: 20,000 of the widest table take 1.8 MB, and three times as much while they are written.  A
# reader opens all parts at once, 512 at most, so the parts of a long recording have more rows.
_PART_ROWS, _MOST_PART_ROWS = 20_000, 500_000
_PARTS_OF_A_SIZE = 64

_STACKS_QUERY = """
    SELECT h.stack, h.kind, coalesce(f.frames, []) AS frames
    FROM heads h
    LEFT JOIN (
        SELECT stack, list(frame ORDER BY position) AS frames FROM members GROUP BY stack
    ) f USING (stack)
    ORDER BY h.stack
"""


def write_tables(recording: Path) -> None:
    """Writes every table as Parquet, beside the journal.

    OSError or RuntimeError when it cannot, of the disk or of DuckDB: then none is left.
    """
    journal = JournalTables(recording, own=True)
    try:
        connection = connect()
    except duckdb.Error as error:
        raise RuntimeError(reason(error)) from error
    try:
        for table, types in APPENDED.items():
            folder = recording / table
            folder.mkdir(mode=0o700, exist_ok=True)
            with _disk_errors(folder):
                if table == "stacks":
                    write_parquet(
                        connection, folder / "000001.parquet", _STACKS_QUERY, **_stack_tables(journal)
                    )
                    continue
                for number, rows in enumerate(_parts(journal, table), start=1):
                    write_parquet(connection, folder / f"{number:06}.parquet", _selection(types), data=rows)
        for table, types in REPLACED.items():
            path = recording / f"{table}.parquet"
            with _disk_errors(path):
                write_parquet(connection, path, _selection(types), data=journal.read(table))
    except BaseException as error:
        for table in APPENDED:
            shutil.rmtree(recording / table, ignore_errors=True)
        for table in REPLACED:
            (recording / f"{table}.parquet").unlink(missing_ok=True)
        if isinstance(error, duckdb.Error):
            raise RuntimeError(reason(error)) from error
        raise
    finally:
        connection.close()


def _parts(journal: JournalTables, table: str) -> Iterator[Columns]:
    """The table's rows, in parts that fit into little memory."""
    held: list[Columns] = []
    rows = parts = 0
    for block in journal.blocks(table):
        held.append(block)
        rows += len(next(iter(block.values())))
        if rows >= _rows_of_part(parts):
            yield _joined(held)
            held, rows, parts = [], 0, parts + 1
    if rows:
        yield _joined(held)


def _rows_of_part(number: int) -> int:
    """At least so many rows has a part that others follow; `number` counts from 0."""
    return min(_PART_ROWS << number // _PARTS_OF_A_SIZE, _MOST_PART_ROWS)


def _joined(blocks: list[Columns]) -> Columns:
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def _stack_tables(journal: JournalTables) -> dict[str, Columns]:
    stacks = journal.stacks()
    depths = stacks.depths
    within = np.arange(len(stacks.frames)) - np.repeat(np.cumsum(depths) - depths, depths)
    members = {"stack": np.repeat(stacks.numbers, depths), "frame": stacks.frames, "position": within}
    members = {name: values.astype(np.uint32) for name, values in members.items()}
    return {"heads": {"stack": stacks.numbers.astype(np.uint32), "kind": stacks.kinds}, "members": members}


@contextlib.contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    """DuckDB reports a write that failed as its own IOException: an OSError again, with its errno."""
    try:
        yield
    except duckdb.IOException as error:
        text = str(error)
        full = "No space left" in text or "quota" in text.lower()
        if full:  # DuckDB's text is a line of JSON
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        raise OSError(errno.EIO, reason(error), str(path)) from error


def _selection(types: Mapping[str, str]) -> str:
    return (
        "SELECT " + ", ".join(f'"{name}"::{kind} AS "{name}"' for name, kind in types.items()) + " FROM data"
    )
