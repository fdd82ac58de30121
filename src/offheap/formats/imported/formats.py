"""The formats of `offheap import`, and which one a file has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from offheap.errors import UserError
from offheap.formats.imported import source
from offheap.formats.imported.events import heaptrack, memray_capture, mtrace
from offheap.formats.imported.jfr import recording as jfr
from offheap.formats.imported.profile import Profile, Reader
from offheap.formats.imported.reports import (
    malloc_trace,
    massif,
    memcheck,
    native_memory_tracking,
    sanitizer,
)
from offheap.formats.imported.samples import collapsed, heap_text, pprof
from offheap.proc import opening
from offheap.proc.maps import parse as parse_maps

# The least certain last: any text with numbers may look like collapsed stacks.
READERS: tuple[Reader, ...] = (
    heap_text,
    mtrace,
    native_memory_tracking,
    heaptrack,
    memray_capture,
    massif,
    memcheck,
    sanitizer,
    malloc_trace,
    jfr,
    pprof,
    collapsed,
)
MOST_FILES = 4096
# A mapping with its strings takes 400 bytes, and its line 20 or more: 32 MiB at the default limit, of which a
# process with the kernel's most mappings (65,530) needs 7.
_TIMES_MAPS = 32


def read(files: Sequence[Path], name: str | None, maps: Path | None, perf_map: Path | None) -> Profile:
    """Uses the reader of that name, or the one that recognises all files; UserError if there is none.

    `maps`, `perf_map`: as heap_text.read has them, `maps` for mtrace too; the other formats have names.
    """
    if len(files) > MOST_FILES:
        raise UserError(f"{len(files)} files are too many", f"give at most {MOST_FILES}")
    reader = _named(name) if name else _recognised(files)
    if reader is heap_text:
        return heap_text.read(files, maps, perf_map)
    if reader is mtrace and maps and not perf_map:
        return mtrace.read(files, parse_maps(line for _, line in source.lines(maps, _TIMES_MAPS)))
    if maps or perf_map:
        raise UserError(f"files of {reader.FORMAT} have names", "leave out --maps and --perf-map")
    return reader.read(files)


def _named(name: str) -> Reader:
    return next(one for one in READERS if name == one.FORMAT)


def _recognised(files: Sequence[Path]) -> Reader:
    first: Reader | None = None
    for path in files:
        try:
            head = source.plain(opening.head(path, source.HEAD))
        except OSError as error:
            why = error.strerror or "its file system does not answer"
            raise UserError(
                f"{path} cannot be read: {why}", "check the name and the rights of the file"
            ) from None
        one = next((reader for reader in READERS if reader.recognises(head)), None)
        if one is None:
            names = ", ".join(reader.FORMAT for reader in READERS)
            raise UserError(f"{path} has an unknown format", f"say which with --format: {names}")
        if first and one is not first:
            raise UserError(
                f"{files[0]} is of {first.FORMAT} and {path} of {one.FORMAT}", "import one series at a time"
            )
        first = one
    assert first
    return first
