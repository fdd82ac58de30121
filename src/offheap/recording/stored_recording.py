"""Reads a recording directory (docs/recording-format.md) back, whatever state its writer left it in."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints

import duckdb
import numpy as np
from numpy.typing import NDArray

from offheap.errors import UserError
from offheap.proc import opening
from offheap.recording.allowance import OF_TABLES, Allowance, too_large
from offheap.recording.assembly import Named, Stacks, assemble, looks
from offheap.recording.info import masked
from offheap.recording.layout import APPENDED, COUNTED, META, REPLACED, SCHEMA
from offheap.recording.model import (
    LIVE,
    NOT_STORED,
    PROCESS,
    SERIES,
    Budget,
    Chain,
    CollectionKind,
    Collections,
    Frame,
    Info,
    Kind,
    Module,
    Recording,
)
from offheap.recording.parts import connect, literal, parts

# Keys of meta.json that older recordings lack.
_LATER = {"live_time", "budget", "memory_limit", "process_age", "after_collection", "arguments_kept"}

# Bytes in memory while a table is read, at the peak: as DuckDB has them, as numpy does, as rows.
_VALUE_BYTES = 24
_OBJECT_BYTES = 60  # more, where rows become Python's objects
_ITEM_BYTES = 100  # of a stack's frames
_TEXT_BYTES = 3
_MOST_META = 16 << 20  # bytes of meta.json
_MOST_PARTS = 512  # of a table: an hour's are 112 before the recorder ends
_TRIES = 3

Columns = dict[str, NDArray[Any]]


def load(path: Path) -> Recording:
    """Raises UserError when it is no recording, a newer one, or damaged."""
    info = _info(path)
    with _database().cursor() as connection:
        tables = _Tables(connection, path)
        try:
            stacks = tables.stacks()
            chains = tables.chains()
            live = _structured(tables.read("live"), LIVE)
            series = _structured(tables.read("series"), SERIES)
            process = _structured(tables.read("process"), PROCESS)
            threads = [str(name) for name in tables.read("threads", order="thread")["name"]]
            modules = tables.modules()
            for rows in (series, process):
                if len(rows) and not (np.isfinite(rows["time"]).all() and (np.diff(rows["time"]) >= 0).all()):
                    raise ValueError("times out of order")
            if len(live) and not ((live["probability"] > 0) & (live["probability"] <= 1)).all():
                raise ValueError("probabilities outside of 0 to 1")
            if len(process) and float(process["time"][-1]) > info.duration_seconds:
                # Killed between writing the row and writing meta.json.
                info = dataclasses.replace(info, duration_seconds=float(process["time"][-1]))
            recording = assemble(info, stacks, chains.items(), threads, modules, live, series, process)
            return dataclasses.replace(
                recording,
                owners=looks(tables.named("owners"), tables.named("gauges")),
                collections=tables.collections(),
            )
        except MemoryError:
            raise too_large(path) from None
        except (ValueError, OverflowError, UnicodeError) as error:
            raise damaged(path, str(error)) from None


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    """One for all that is read: it holds nothing, and to open one takes as long as to read a table or two."""
    return connect()


class _Tables:
    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._allowance = Allowance(path, _size(path), OF_TABLES)
        self._admitted: set[str] = set()

    def read(self, table: str, *, order: str = "") -> Columns:
        """All columns; of a table that is not there (yet), none has a row."""
        types = APPENDED.get(table) or REPLACED[table]
        selected = ", ".join(f'"{name}"::{kind} AS "{name}"' for name, kind in types.items())
        return self._query(table, f"SELECT {selected}", f"ORDER BY {order}" if order else "", list(types))

    def named(self, table: str) -> Named:
        """The rows of `owners` or `gauges`: times, names, values."""
        data = self.read(table, order="time")
        times, names, values = (data[column] for column in APPENDED[table])
        return times.astype(np.float64), [str(name) for name in names.tolist()], values.astype(np.float64)

    def collections(self) -> Collections | None:
        """None where nobody counted."""
        data = self.read("collections", order="time")
        begun, ended = (data[name].astype(np.float64) for name in ("time", "ended"))
        counts, kinds = data["count"].astype(np.int64), [str(kind) for kind in data["kind"].tolist()]
        if unknown := set(kinds) - {COUNTED, *get_args(CollectionKind)}:
            raise ValueError(f"a collection of kind {min(unknown)}")
        if not (np.isfinite(begun).all() and np.isfinite(ended).all()):
            raise ValueError("a collection at no time")
        ran = np.array([kind != COUNTED for kind in kinds], np.bool_)
        if not len(begun):
            return None
        return Collections(
            since=float(begun[~ran].min(initial=begun.min())),
            kinds=tuple(cast(CollectionKind, kind) for kind in kinds if kind != COUNTED),
            begun=begun[ran],
            ended=ended[ran],
            counts=counts[ran],
        )

    def stacks(self) -> Stacks:
        heads = self._query(
            "stacks",
            "SELECT stack::UINTEGER AS stack, kind::UTINYINT AS kind, len(frames::UINTEGER[]) AS depth",
            "",
            ["stack", "kind", "depth"],
        )
        flat = self._query("stacks", "SELECT unnest(frames::UINTEGER[]) AS frame", "", ["frame"])
        return Stacks(
            heads["stack"].astype(np.int64),
            heads["kind"].astype(np.uint8),
            heads["depth"].astype(np.int64),
            flat["frame"].astype(np.int64),
        )

    def chains(self) -> dict[int, Chain]:
        data = self.read("frames")
        numbers, *columns = (data[name].tolist() for name in ("frame", *Frame._fields))
        for kind in set(data["kind"].tolist()) - set(get_args(Kind)):
            raise ValueError(f"a frame of kind {kind}")
        chains: defaultdict[int, list[Frame]] = defaultdict(list)
        for number, frame in zip(numbers, map(Frame, *columns), strict=True):
            chains[number].append(frame)
        return {number: tuple(frames) for number, frames in chains.items()}

    def modules(self) -> list[Module]:
        data = self.read("modules", order="module")
        names = ("path", "build_id", "start_address", "end_address", "bias")
        return [Module(*row) for row in zip(*(data[n].tolist() for n in names), strict=True)]

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
        self._allowance.take(int(largest or 0), 1, f"bytes in a part of {table}")
        self._allowance.give(int(largest or 0), 1)
        types = APPENDED.get(table) or REPLACED[table]
        texts = [name for name, kind in types.items() if kind == "VARCHAR"]
        self._allowance.take(
            count, len(types) * (_VALUE_BYTES + _OBJECT_BYTES * bool(texts)), f"rows of {table}"
        )
        if any(kind.endswith("[]") for kind in types.values()):
            self._allowance.take(max(most_values, count), _ITEM_BYTES, f"frames in {table}")
        if texts:
            # A text that is there once may stand in every row.
            lengths = " + ".join(f'coalesce(strlen("{name}"::VARCHAR), 0)' for name in texts)
            (size,) = self._connection.execute(
                f"SELECT sum({lengths}) FROM read_parquet([{listed}])"
            ).fetchall()[0]
            self._allowance.take(int(size or 0), _TEXT_BYTES, f"bytes of names in {table}")
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
            why = str(error).splitlines()[0].replace(str(files[0]), str(where))
            raise damaged(where, why) from None
        for name in names:
            if np.ma.is_masked(result[name]):
                raise ValueError(f"{table}.{name} has empty values")
        return {name: np.asarray(result[name]) for name in names}


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


def _structured(data: Columns, dtype: np.dtype[Any]) -> NDArray[Any]:
    names = dtype.names or ()
    rows = np.empty(len(data[names[0]]), dtype)
    for name in names:
        rows[name] = data.pop(name)  # popped: a million live blocks need not be there twice
    return rows


def _info(path: Path) -> Info:
    try:
        with opening.regular(path / META, most=_MOST_META) as file:
            text = file.read_at(0, _MOST_META)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(
            f"{path} is not a recording of offheap: it has no {META}",
            "give the directory that `offheap run` or `offheap attach` wrote",
        ) from None
    except OSError as error:
        raise UserError(f"{path / META} cannot be read: {error.strerror}", "check its permissions") from None
    try:
        meta = json.loads(text)
        schema = str(meta.pop("schema", ""))
        kind, _, version = schema.partition("/")
        if kind == SCHEMA.partition("/")[0] and version.isdecimal() and schema != SCHEMA:
            raise UserError(
                f"{path} was written by a newer offheap ({schema}, this one reads {SCHEMA})",
                "upgrade offheap",
            )
        if schema != SCHEMA:
            raise UserError(f"{path} is not a recording of offheap", f'its {META} has no schema "{SCHEMA}"')
        return _checked(path, meta)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise damaged(path / META, str(error)) from None


def _checked(path: Path, meta: dict[str, Any]) -> Info:
    info = Info(path=str(path), **_values(Info, meta))
    return info if info.arguments_kept else masked(info)  # older ones were not masked as they were written


def _budget(value: Any) -> tuple[bool, Any]:
    """Whether it is one, or None, and which."""
    try:
        return value is None or isinstance(value, dict), value and Budget(**_values(Budget, value))
    except (ValueError, KeyError, TypeError):
        return False, value


def _values(of: type[Any], meta: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a class of model, but for NOT_STORED, from JSON values of the types that they declare."""
    values: dict[str, Any] = {}
    for name, hint in get_type_hints(of).items():
        if name in NOT_STORED or (name in _LATER and name not in meta):
            continue
        value = meta[name]
        text = str(hint)
        if hint == Budget | None:
            valid, value = _budget(value)
        elif text.startswith("typing.Literal"):
            valid = value in get_args(hint)
        elif text.startswith("tuple"):
            valid = isinstance(value, list) and all(isinstance(item, str) for item in value)
            value = tuple(value) if valid else value
        elif text.startswith("dict"):
            of = get_args(hint)[1]
            valid = isinstance(value, dict) and all(type(item) is of for item in value.values())
        elif hint is float:
            valid = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e15
            value = float(value) if valid else value
        else:
            valid = type(value) is hint
        if not valid:
            raise ValueError(f"{name} is {value!r}")
        values[name] = value
    return values
