"""Reads a recording directory (docs/recording-format.md) back, whatever state its writer left it in."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, cast, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from offheap.errors import UserError
from offheap.probe import contract
from offheap.probe.contract import FrameKind
from offheap.proc import opening
from offheap.recording.allowance import too_large
from offheap.recording.build_recording import Named, NumberedStacks, assemble, readings
from offheap.recording.masking import masked
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
    HeapInUse,
    Info,
    JavaHeap,
    Kind,
    Module,
    RecorderCost,
    Recording,
)
from offheap.recording.names.naming import Symbolizer, native_chains, problems
from offheap.recording.names.naming import symbolizer as its_symbolizer
from offheap.recording.storage.journal import JournalTables, in_writing
from offheap.recording.storage.layout import APPENDED, COUNTED, META, SCHEMA
from offheap.recording.storage.parquet_tables import ParquetTables, damaged
from offheap.recording.storage.raw_calls import raw_calls

# Keys of meta.json that older recordings lack.
_LATER = {
    "recorder",
    "java_heap",
    "live_time",
    "budget",
    "memory_limit",
    "process_age",
    "after_collection",
    "arguments_kept",
    "imported",
    "births",
}

_MOST_META = 16 << 20  # bytes of meta.json
_TRIES = 3

Columns = dict[str, NDArray[Any]]


class Tables(Protocol):
    """Where the tables come from: Parquet, or the journal of a recording that is being written."""

    def read(self, table: str, *, order: str = "") -> Columns:
        """All columns, by the values of one; of a table that is not there (yet), none has a row."""

    def stacks(self) -> NumberedStacks: ...

    def close(self) -> None: ...


def load(path: Path, symbolizer: Symbolizer | None = None) -> Recording:
    """Raises UserError when it is no recording, a newer one, or damaged.

    `symbolizer` names the native frames of one that was never finished; None: one is made.
    """
    for _ in range(_TRIES):
        info = read_info(path)
        try:
            tables = JournalTables(path) if in_writing(path) else ParquetTables(path)
            with contextlib.closing(tables):
                return _load(path, info, tables, symbolizer)
        except FileNotFoundError:
            continue  # the journal has become Parquet in between
        except OSError as error:
            where = error.filename or path
            raise UserError(
                f"{where} cannot be read: {error.strerror or error}", "check its permissions"
            ) from None
    raise damaged(path, "its tables keep changing")


def _load(path: Path, info: Info, tables: Tables, symbolizer: Symbolizer | None = None) -> Recording:
    try:
        # First what refers to the others: a recorder that still runs writes that last.
        live = _structured(tables.read("live"), LIVE)
        series = _structured(tables.read("series"), SERIES)
        process = _structured(tables.read("process"), PROCESS)
        stacks, (chains, raws), modules = tables.stacks(), _chains(tables), _modules(tables)
        if isinstance(tables, JournalTables):
            info, chains = _name_native(info, chains, tables, modules, symbolizer)
            raws = tables.read("raws")
        threads = [str(name) for name in tables.read("threads", order="thread")["name"]]
        for rows in (series, process):
            if len(rows) and not (np.isfinite(rows["time"]).all() and (np.diff(rows["time"]) >= 0).all()):
                raise ValueError("times out of order")
        if len(live) and not ((live["probability"] > 0) & (live["probability"] <= 1)).all():
            raise ValueError("probabilities outside of 0 to 1")
        if len(process) and float(process["time"][-1]) > info.duration_seconds:
            # Killed between writing the row and writing meta.json.
            info = dataclasses.replace(info, duration_seconds=float(process["time"][-1]))
        return assemble(
            info,
            stacks,
            chains.items(),
            threads,
            modules,
            live,
            series,
            process,
            owners=readings(_named(tables, "owners"), _named(tables, "gauges")),
            collections=_collections(tables),
            heap=_heap(tables),
            calls=raw_calls(raws["frame"], raws["raw"], len(modules)),
        )
    except MemoryError:
        raise too_large(path) from None
    except (ValueError, OverflowError, UnicodeError) as error:
        raise damaged(path, str(error)) from None


def _named(tables: Tables, table: str) -> Named:
    """The rows of `owners` or `gauges`: times, names, values."""
    data = tables.read(table, order="time")
    times, names, values = (data[column] for column in APPENDED[table])
    return times.astype(np.float64), [str(name) for name in names.tolist()], values.astype(np.float64)


def _collections(tables: Tables) -> Collections | None:
    """None where nobody counted."""
    data = tables.read("collections", order="time")
    begun, ended = (data[name].astype(np.float64) for name in ("time", "ended"))
    counts, kinds = data["count"].astype(np.int64), [str(kind) for kind in data["kind"].tolist()]
    counted = [kind for kind in kinds if kind.partition(" ")[0] == COUNTED]
    if unknown := set(kinds) - {*counted, *get_args(CollectionKind)}:
        raise ValueError(f"a collection of kind {min(unknown)}")
    if not (np.isfinite(begun).all() and np.isfinite(ended).all()):
        raise ValueError("a collection at no time")
    ran = np.array([kind not in counted for kind in kinds], np.bool_)
    if not len(begun):
        return None
    return Collections(
        since=float(begun[~ran].min(initial=begun.min())),
        kinds=tuple(cast(CollectionKind, kind) for kind in kinds if kind not in counted),
        begun=begun[ran],
        ended=ended[ran],
        counts=counts[ran],
        collector=next((kind.partition(" ")[2] for kind in counted), ""),
    )


def _heap(tables: Tables) -> HeapInUse:
    data = tables.read("heap", order="time")
    times, used = (data[name].astype(np.float64) for name in ("time", "bytes"))
    if not (np.isfinite(times).all() and np.isfinite(used).all() and (used >= 0).all()):
        raise ValueError("a heap in use at no time, or of no size")
    return HeapInUse(times, used)


def _chains(tables: Tables) -> tuple[dict[int, Chain], Columns]:
    """By frame number; and two columns, with the frames as the probe wrote them."""
    data = tables.read("frames")
    data["inlined"] = data["inlined"].astype(np.bool_)
    numbers, *columns = (data[name].tolist() for name in ("frame", *Frame._fields))
    for kind in set(data["kind"].tolist()) - set(get_args(Kind)):
        raise ValueError(f"a frame of kind {kind}")
    chains: defaultdict[int, list[Frame]] = defaultdict(list)
    for number, frame in zip(numbers, map(Frame, *columns), strict=True):
        chains[number].append(frame)
    return {number: tuple(frames) for number, frames in chains.items()}, {
        name: data[name] for name in ("frame", "raw")
    }


def _modules(tables: Tables) -> list[Module]:
    data = tables.read("modules", order="module")
    names = ("path", "build_id", "start_address", "end_address", "bias")
    return [Module(*row) for row in zip(*(data[n].tolist() for n in names), strict=True)]


def _name_native(
    info: Info,
    chains: dict[int, Chain],
    journal: JournalTables,
    modules: list[Module],
    symbolizer: Symbolizer | None,
) -> tuple[Info, dict[int, Chain]]:
    """Names the native frames, which the recorder names when it ends; `info` says why names are missing."""
    raws = journal.read("raws")
    kind, module = (
        raws["raw"] >> contract.FRAME_KIND_SHIFT,
        raws["raw"] >> contract.FRAME_MODULE_SHIFT & 0xFFFFF,
    )
    native = (kind == FrameKind.NATIVE) & (module < len(modules))
    native &= ~np.isin(raws["frame"], np.fromiter(chains, np.uint32, len(chains)))
    named = dict(chains)
    with contextlib.ExitStack() as stack:
        names = symbolizer or stack.enter_context(contextlib.closing(its_symbolizer(None)))
        for number in np.unique(module[native]).tolist():
            its = native & (module == number)
            addresses = (raws["raw"][its] & contract.FRAME_ADDRESS_MASK).tolist()
            found = native_chains(names, modules[number], addresses)
            named.update(zip(raws["frame"][its].tolist(), found, strict=True))
        return dataclasses.replace(info, coverage=(*info.coverage, *problems(names))), named


def _structured(data: Columns, dtype: np.dtype[Any]) -> NDArray[Any]:
    names = dtype.names or ()
    rows = np.empty(len(data[names[0]]), dtype)
    for name in names:
        rows[name] = data.pop(name)  # popped: a million live blocks need not be there twice
    return rows


def read_info(path: Path) -> Info:
    """What meta.json says.  UserError when it is no recording's, or a newer one's."""
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


def _object(of: type[Any], value: Any) -> tuple[bool, Any]:
    """Whether it is one of these, or None, and which."""
    try:
        return value is None or isinstance(value, dict), value and of(**_values(of, value))
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
        if hint in (Budget | None, JavaHeap | None, RecorderCost | None):
            valid, value = _object(get_args(hint)[0], value)
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
