"""The recording on disk: a directory of Parquet tables and meta.json (docs/recording-format.md)."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from offheap.errors import UserError
from offheap.recording.assembly import Stacks
from offheap.recording.layout import APPENDED, META, REPLACED, SCHEMA
from offheap.recording.model import NOT_STORED, Chain, Info, Module
from offheap.recording.parts import PartWriter, columns, connect, write_parquet

Rows = NDArray[Any]
Columns = dict[str, NDArray[Any]]

_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC

_STACKS_QUERY = """
    SELECT h.stack, h.kind, coalesce(f.frames, []) AS frames
    FROM heads h
    LEFT JOIN (
        SELECT stack, list(frame ORDER BY position) AS frames FROM members GROUP BY stack
    ) f USING (stack)
    ORDER BY h.stack
"""


class RecordingWriter:
    """Writes a recording, table by table.

    OSError when it cannot: ENOSPC when the disk is full.  What was written before stays readable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(mode=0o700)
        self._connection = connect()
        self._parts = {table: PartWriter(self._connection, path / table) for table in APPENDED}
        self._replaced_before: dict[str, object] = {}

    def append_rows(self, table: str, rows: Rows) -> None:
        """Rows of `process` or `series`."""
        if len(rows):
            self._append(table, _selection(APPENDED[table]), data=columns(rows))

    def append_look(self, time: float, owners: Mapping[str, float], gauges: Mapping[str, float]) -> None:
        """One look at who holds the RSS: rows of `gauges`, then of `owners`."""
        for table, named, key, value in (
            ("gauges", gauges, "gauge", "value"),
            ("owners", owners, "owner", "bytes"),
        ):
            if named:
                data: Columns = {
                    "time": np.full(len(named), time),
                    key: _texts(list(named)),
                    value: np.array(list(named.values()), np.float64),
                }
                self._append(table, _selection(APPENDED[table]), data=data)

    def append_collections(self, rows: Sequence[tuple[str, float, float, int]]) -> None:
        """Kind, beginning, end, number; one of no collection says from when on they are counted."""
        if rows:
            kinds, begun, ended, counts = zip(*rows, strict=True)
            data: Columns = {
                "time": np.array(begun, np.float64),
                "ended": np.array(ended, np.float64),
                "kind": _texts(kinds),
                "count": np.array(counts, np.uint32),
            }
            self._append("collections", _selection(APPENDED["collections"]), data=data)

    def append_stacks(self, stacks: Stacks) -> None:
        if not len(stacks.numbers):
            return
        depths = stacks.depths
        within = np.arange(int(depths.sum())) - np.repeat(np.cumsum(depths) - depths, depths)
        self._append(
            "stacks",
            _STACKS_QUERY,
            heads={"stack": stacks.numbers.astype(np.uint32), "kind": stacks.kinds},
            members={
                "stack": np.repeat(stacks.numbers, depths).astype(np.uint32),
                "frame": stacks.frames.astype(np.uint32),
                "position": within,
            },
        )

    def append_frames(self, chains: Mapping[int, Chain], raws: Mapping[int, int]) -> None:
        """Names of frames: one row a function, several under one number where the compiler inlined."""
        rows = [
            (number, position, frame)
            for number, chain in chains.items()
            for position, frame in enumerate(chain)
        ]
        if not rows:
            return
        frames = [frame for _, _, frame in rows]
        data: Columns = {
            "frame": np.array([number for number, _, _ in rows], np.uint32),
            "position": np.array([position for _, position, _ in rows], np.uint16),
            "line": np.array([min(frame.line, 2**32 - 1) for frame in frames], np.uint32),
            "inlined": np.array([frame.inlined for frame in frames], np.bool_),
            "raw": np.array([raws[number] for number, _, _ in rows], np.uint64),
        }
        for name in ("name", "kind", "module", "file"):
            data[name] = _texts([getattr(frame, name) for frame in frames])
        self._append("frames", _selection(APPENDED["frames"]), data=data)

    def replace_live(self, live: Rows) -> None:
        self._replace("live", columns(live))

    def replace_threads(self, names: Sequence[str]) -> None:
        if self._replaced_before.get("threads") != list(names):
            self._replace("threads", {"thread": np.arange(len(names)), "name": _texts(names)})
            self._replaced_before["threads"] = list(names)

    def replace_modules(self, modules: Sequence[Module]) -> None:
        if self._replaced_before.get("modules") == list(modules):
            return
        self._replace(
            "modules",
            {
                "module": np.arange(len(modules)),
                "path": _texts([module.path for module in modules]),
                "build_id": _texts([module.build_id for module in modules]),
                "start_address": np.array([module.start for module in modules], np.uint64),
                "end_address": np.array([module.end for module in modules], np.uint64),
                "bias": np.array([module.bias for module in modules], np.uint64),
            },
        )
        self._replaced_before["modules"] = list(modules)

    def replace_info(self, info: Info) -> None:
        """meta.json: what there is to know about the recording as a whole."""
        # What is not known is left out: JSON has no infinity.
        known = {k: v for k, v in dataclasses.asdict(info).items() if k not in NOT_STORED and v != math.inf}
        meta = {"schema": SCHEMA, **known}
        hidden = self.path / f".{META}.writing"
        text = json.dumps(meta, indent=1, ensure_ascii=False)
        try:
            with open(os.open(hidden, _NEW, 0o600), "wb") as file:
                file.write(text.encode("utf-8", "replace") + b"\n")
            hidden.replace(self.path / META)
        except OSError:
            hidden.unlink(missing_ok=True)
            raise

    def finish(self) -> None:
        """Makes one part of each table's many."""
        for table, writer in self._parts.items():
            with _disk_errors(self.path / table):
                writer.finish()

    def close(self) -> None:
        self._connection.close()

    def _append(self, table: str, query: str, **tables: Columns) -> None:
        with _disk_errors(self.path / table):
            self._parts[table].append(query, **tables)

    def _replace(self, table: str, data: Columns) -> None:
        path = self.path / f"{table}.parquet"
        with _disk_errors(path):
            write_parquet(self._connection, path, _selection(REPLACED[table]), data=data)


@contextlib.contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    """DuckDB reports a write that failed as its own IOException: an OSError again, with its errno."""
    try:
        yield
    except duckdb.IOException as error:
        text = str(error)
        full = "No space left" in text or "quota" in text.lower()
        raise OSError(errno.ENOSPC if full else errno.EIO, text.splitlines()[0], str(path)) from error


def _selection(types: Mapping[str, str]) -> str:
    return (
        "SELECT " + ", ".join(f'"{name}"::{kind} AS "{name}"' for name, kind in types.items()) + " FROM data"
    )


def _texts(values: Sequence[str]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    for i, value in enumerate(values):
        # A path of the file system may hold bytes that are no text at all (surrogateescape).
        array[i] = value.encode("utf-8", "replace").decode()
    return array


def writer(path: Path) -> RecordingWriter:
    """Makes the directory of a new recording.  UserError when it exists or cannot be made."""
    try:
        return RecordingWriter(path)
    except FileExistsError:
        raise UserError(f"{path} exists already", "choose another name with -o, or remove it") from None
    except OSError as error:
        raise UserError(f"cannot create {path}: {error.strerror}", "choose another place with -o") from None
