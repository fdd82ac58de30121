"""All tables of a recording in memory, to change and to write again, whole or not at all."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from offheap.errors import UserError
from offheap.probe import contract
from offheap.probe.contract import FrameKind
from offheap.recording.allowance import too_large
from offheap.recording.build_recording import NumberedStacks
from offheap.recording.model import Chain, Frame, Info, Kind, Module
from offheap.recording.names.naming import unnamed_chain
from offheap.recording.storage.journal import JournalTables, in_writing
from offheap.recording.storage.layout import APPENDED, REPLACED
from offheap.recording.storage.parquet_tables import ParquetTables, damaged
from offheap.recording.storage.reader import read_info
from offheap.recording.storage.writer import RecordingWriter

Columns = Mapping[str, NDArray[Any]]

# Written from their meaning, not from their columns.
_APART = ("stacks", "frames")


class _Tables(Protocol):
    def read(self, table: str, *, order: str = "") -> dict[str, NDArray[Any]]: ...

    def stacks(self) -> NumberedStacks: ...


@dataclass
class Content:
    """chains   frame number -> functions, innermost first; a frame without a name is not there
    raws     frame number -> the frame as the probe wrote it
    tables   the other tables, by name
    modules  of `tables`, by number
    """

    info: Info
    stacks: NumberedStacks
    chains: dict[int, Chain]
    raws: dict[int, int]
    tables: dict[str, Columns]
    modules: list[Module]


def read(path: Path) -> Content:
    """UserError if the folder is no recording, is damaged, or needs too much memory."""
    info = read_info(path)
    try:
        tables = JournalTables(path) if in_writing(path) else ParquetTables(path)
        with contextlib.closing(tables):
            content = _content(info, tables)
            if isinstance(tables, JournalTables):
                _add_unnamed(content, tables)
            return content
    except OSError as error:
        where = error.filename or path
        raise UserError(
            f"{where} cannot be read: {error.strerror or error}", "check its permissions"
        ) from None
    except MemoryError:
        raise too_large(path) from None
    except (ValueError, OverflowError, UnicodeError, TypeError) as error:
        raise damaged(path, str(error)) from None


def _content(info: Info, tables: _Tables) -> Content:
    frames = tables.read("frames")
    chains: defaultdict[int, list[Frame]] = defaultdict(list)
    columns = [frames[name].tolist() for name in ("frame", "raw", *Frame._fields)]
    raws = dict(zip(columns[0], columns[1], strict=True))
    for number, _, *fields in zip(*columns, strict=True):
        frame = Frame(*fields)
        if frame.kind not in get_args(Kind):
            raise ValueError(f"a frame of kind {frame.kind}")
        chains[number].append(frame._replace(inlined=bool(frame.inlined)))
    others: dict[str, Columns] = {
        table: tables.read(table) for table in (*APPENDED, *REPLACED) if table not in _APART
    }
    return Content(
        info,
        tables.stacks(),
        {number: tuple(chain) for number, chain in chains.items()},
        raws,
        others,
        _modules(others["modules"]),
    )


def _modules(columns: Columns) -> list[Module]:
    order = np.argsort(columns["module"], kind="stable")
    names = ("path", "build_id", "start_address", "end_address", "bias")
    return [Module(*row) for row in zip(*(columns[name][order].tolist() for name in names), strict=True)]


def _add_unnamed(content: Content, journal: JournalTables) -> None:
    """Names the native frames of a recording whose recorder was killed: a recorder names them at the end."""
    for number, raw in zip(*(journal.read("raws")[name].tolist() for name in ("frame", "raw")), strict=True):
        at = raw >> contract.FRAME_MODULE_SHIFT & 0xFFFFF
        if raw >> contract.FRAME_KIND_SHIFT == FrameKind.NATIVE and at < len(content.modules):
            content.raws.setdefault(number, raw)
            content.chains.setdefault(
                number, unnamed_chain(content.modules[at], raw & contract.FRAME_ADDRESS_MASK)
            )


def write(content: Content, output: Path) -> None:
    """Makes the folder `output`, which must not exist: whole, or not at all.

    UserError if memory is missing or the disk refuses.
    """
    folder = output.parent / f".{output.name}.{secrets.token_hex(4)}"
    writer = RecordingWriter(folder)
    try:
        with contextlib.closing(writer):
            for table, columns in content.tables.items():
                writer.copy_table(table, columns)
            writer.append_frames(content.chains, content.raws)
            writer.append_stacks(content.stacks)
            writer.replace_info(content.info)
            writer.finish()
        folder.rename(output)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            # Not the name in the error: that of the folder that has just been removed.
            raise UserError(
                f"cannot write {output}: {error.strerror or error}", "choose another place with -o"
            ) from error
        raise
