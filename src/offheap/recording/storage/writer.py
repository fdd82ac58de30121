"""Writes a recording: a directory of tables and meta.json (docs/recording-format.md)."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.errors import UserError
from offheap.recording.build_recording import NumberedStacks
from offheap.recording.model import NOT_STORED, Chain, Info, Module
from offheap.recording.storage.journal import Journal, Values
from offheap.recording.storage.layout import META, REPLACED, SCHEMA
from offheap.recording.storage.output import taken

Rows = NDArray[Any]

_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class RecordingWriter:
    """Writes a recording, table by table.

    OSError when it cannot: ENOSPC when the disk is full.  What was written before stays readable.

    at_once  everything comes at one time: what is written before the end is not worth its compression
    """

    def __init__(self, path: Path, *, at_once: bool = False) -> None:
        self.path = path
        path.mkdir(mode=0o700)
        self._journal = Journal(path, compressed=not at_once)
        self._replaced_before: dict[str, object] = {}

    def copy_table(self, table: str, columns: Mapping[str, Values]) -> None:
        """All rows of another recording's table, as its reader has them."""
        if table in REPLACED:
            self._journal.replace(table, columns)
        elif len(next(iter(columns.values()))):
            self._journal.append(table, columns)

    def append_rows(self, table: str, rows: Rows) -> None:
        """Rows of `process` or `series`."""
        if len(rows):
            self._journal.append(table, _columns(rows))

    def append_reading(self, time: float, owners: Mapping[str, float], gauges: Mapping[str, float]) -> None:
        """One reading of who holds the RSS: rows of `gauges`, then of `owners`."""
        for table, named, key, value in (
            ("gauges", gauges, "gauge", "value"),
            ("owners", owners, "owner", "bytes"),
        ):
            if named:
                numbers = np.array(list(named.values()), np.float64)
                self._journal.append(
                    table, {"time": np.full(len(named), time), key: list(named), value: numbers}
                )

    def append_collections(self, rows: Sequence[tuple[str, float, float, int]]) -> None:
        """Kind, beginning, end, number; one of no collection says from when on they are counted."""
        if rows:
            kinds, begun, ended, counts = zip(*rows, strict=True)
            self._journal.append(
                "collections",
                {
                    "time": np.array(begun, np.float64),
                    "ended": np.array(ended, np.float64),
                    "kind": kinds,
                    "count": np.array(counts, np.uint32),
                },
            )

    def append_heap(self, rows: Sequence[tuple[float, float]]) -> None:
        """Times after collections, and the bytes of the Java heap in use then."""
        if rows:
            times, used = zip(*rows, strict=True)
            self._journal.append(
                "heap", {"time": np.array(times, np.float64), "bytes": np.array(used, np.float64)}
            )

    def append_stacks(self, stacks: NumberedStacks) -> None:
        if len(stacks.numbers):
            self._journal.append("members", {"frame": stacks.frames})
            self._journal.append(
                "heads", {"stack": stacks.numbers, "kind": stacks.kinds, "depth": stacks.depths}
            )

    def append_raws(self, raws: Mapping[int, int]) -> None:
        """New frames as the probe wrote them, by number: a frame without a name can be named from that."""
        if raws:
            self._journal.append(
                "raws",
                {
                    "frame": np.fromiter(raws, np.uint32, len(raws)),
                    "raw": np.fromiter(raws.values(), np.uint64, len(raws)),
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
        columns: dict[str, Values] = {
            "frame": np.array([number for number, _, _ in rows], np.uint32),
            "position": np.array([position for _, position, _ in rows], np.uint16),
            "line": np.array([min(frame.line, 2**32 - 1) for frame in frames], np.uint32),
            "inlined": np.array([frame.inlined for frame in frames], np.bool_),
            "raw": np.array([raws[number] for number, _, _ in rows], np.uint64),
        }
        for name in ("name", "kind", "module", "file"):
            columns[name] = [getattr(frame, name) for frame in frames]
        self._journal.append("frames", columns)

    def replace_live(self, live: Rows) -> None:
        self._journal.replace("live", _columns(live))

    def replace_threads(self, names: Sequence[str]) -> None:
        if self._replaced_before.get("threads") != list(names):
            self._journal.replace("threads", {"thread": np.arange(len(names)), "name": names})
            self._replaced_before["threads"] = list(names)

    def replace_modules(self, modules: Sequence[Module]) -> None:
        if self._replaced_before.get("modules") == list(modules):
            return
        self._journal.replace(
            "modules",
            {
                "module": np.arange(len(modules)),
                "path": [module.path for module in modules],
                "build_id": [module.build_id for module in modules],
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
        """Makes Parquet of the tables, once nothing more is to come.

        OSError when the disk is full, UserError when memory is: the journal stays, and is as good.
        """
        try:
            # DuckDB takes too much memory to be imported earlier.
            from offheap.recording.storage.finishing import write_tables

            write_tables(self.path)
        # "failed to map segment", no memory, "can't start new thread".
        except (ImportError, MemoryError, RuntimeError) as error:
            raise UserError(
                f"the Parquet tables of {self.path} cannot be written: {error or 'out of memory'}",
                f"nothing is lost, and every command reads it: offheap leaks {shlex.quote(str(self.path))}",
            ) from error
        self._journal.remove()

    def close(self) -> None:
        self._journal.close()


def _columns(rows: Rows) -> dict[str, Values]:
    return {name: rows[name] for name in rows.dtype.names or ()}


def writer(path: Path) -> RecordingWriter:
    """Makes the directory of a new recording.  UserError when it exists or cannot be made."""
    try:
        return RecordingWriter(path)
    except FileExistsError:
        raise taken(path) from None
    except OSError as error:
        raise UserError(f"cannot create {path}: {error.strerror}", "choose another place with -o") from None
