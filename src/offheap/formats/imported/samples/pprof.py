"""pprof's protobuf, plain or gzip: of Go, gperftools, Pyroscope, Parca, async-profiler, `offheap export`.

The source of the format is github.com/google/pprof/proto/profile.proto and the README beside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from offheap.errors import UserError
from offheap.formats import pprof_schema
from offheap.formats.imported import source
from offheap.formats.imported.profile import Profile
from offheap.formats.imported.samples import names, pprof_wire
from offheap.formats.imported.stack_tables import StackTable, Total, TotalsAtTime, profile, times_of
from offheap.quantities import format_size
from offheap.recording.model import Frame, Module

FORMAT = "pprof"

LACKS = (
    "pprof has totals by stack, not blocks: neither births nor sizes of single blocks, so that the blocks of "
    "a stack count as equally large",
    "pprof has no threads, no RSS, and no record of how much the values may err",
)
NO_ALLOCATED = "The file has no alloc_space: what was freed before is not counted"
NO_COUNT = "The file has no count of blocks: each stack counts as one block"
SAMPLED = (
    "The producer sampled an allocation each {interval} and scaled the values up: those of rare stacks are "
    "far from the truth, by an amount that the file does not tell"
)
ALLOCATED_ONLY = (
    "The file has allocations alone, not what is live (inuse_space): freed blocks count as live, so that "
    "nothing in it is proof of a leak"
)

# Types of samples by what they say; the second names are those of jemalloc, heap profilers of Rust and
# Pyroscope.
_BYTES = ("inuse_space", "inuse-space", "inuse_bytes", "space", "live_bytes")
_BLOCKS = ("inuse_objects", "inuse-objects", "inuse_count", "objects", "live_objects")
_ALLOCATED_BYTES = ("alloc_space", "alloc-space", "allocated_bytes", "alloc_bytes")
_ALLOCATED_BLOCKS = ("alloc_objects", "alloc-objects", "allocated_objects", "alloc_count")
_UNITS = {
    "": 1,
    "bytes": 1,
    "byte": 1,
    "b": 1,
    "count": 1,
    "kilobytes": 1 << 10,
    "kb": 1 << 10,
    "megabytes": 1 << 20,
}
_MOST = 1 << 56  # bytes or blocks of one stack: no address space holds more
_NANO = 1e-9
# A decoded message takes this many times the bytes of the decompressed file.
_TIMES_MESSAGE = 16
_STRINGS = ("type", "unit", "name", "system_name", "filename", "build_id")  # fields with indices of strings
_KEYS = frozenset(range(1, 16))  # field numbers of the message Profile


class _Columns(NamedTuple):
    """Places of values in a sample; None where the file has none."""

    size: int
    blocks: int | None
    allocated_size: int | None
    allocated_blocks: int | None
    units: list[int]
    allocated_only: bool


def recognises(head: bytes) -> bool:
    """Whether the bytes, after decompression, are fields of a Profile."""
    plain = source.plain(head)
    if not plain or plain[0] >> 3 not in _KEYS or plain[0] & 7 not in (0, 2):
        return False
    at = fields = 0
    while at < len(plain) - 10 and fields < 8:
        tag, at = pprof_wire.varint(plain, at)
        if tag >> 3 not in _KEYS or tag & 7 not in (0, 2):
            return False
        length, at = pprof_wire.varint(plain, at)
        if tag & 7 == 2:
            at += length
        fields += 1
    return fields > 1 or (fields == 1 and at == len(plain))


def read(files: Sequence[Path]) -> Profile:
    """The samples of each file; their times are the files' own where all have one."""
    messages = [(path, _message(path)) for path in files]
    given = [message.time_nanos * _NANO for _, message in messages]
    if not all(time > 0 for time in given):
        given = [source.modified(path) for path in files]
    messages = [messages[place] for place in sorted(range(len(files)), key=given.__getitem__)]
    times, start, lacking = times_of(sorted(given))
    stacks = StackTable(files[0])
    lacks = dict.fromkeys([*LACKS, *([lacking] if lacking else [])])
    moments, modules = [], {}
    for (path, message), time in zip(messages, times, strict=True):
        reader = _Reader(path, message, stacks)
        moments.append(TotalsAtTime(time, reader.totals()))
        lacks.update(dict.fromkeys(reader.lacks()))
        modules.update(dict.fromkeys(reader.modules))
    return profile(FORMAT, stacks, moments, lacks=list(lacks), start=start, modules=list(modules))


def _message(path: Path) -> Any:
    data = source.whole(path, _TIMES_MESSAGE)
    message = pprof_schema.profile_class()()
    try:
        message.ParseFromString(data)
    except Exception as error:  # DecodeError of the installed protobuf
        at = pprof_wire.damaged_field(data)
        raise source.fault(
            path, f"byte {at:#x} of {len(data):#x}", f"not a pprof profile ({error})"
        ) from None
    if not message.string_table:
        raise source.fault(path, f"byte {len(data):#x}", "the file ends before its string_table")
    if message.string_table[0]:
        at = pprof_wire.place_of(data, "string_table", 0)
        raise source.fault(path, f"byte {at:#x}", "the string_table does not begin with the empty string")
    return message


class _Reader:
    """One file's samples as totals of stacks; every index of the file is checked."""

    def __init__(self, path: Path, message: Any, stacks: StackTable) -> None:
        self._path, self._message, self._stacks = path, message, stacks
        self._strings = [value.decode("utf-8", "replace") for value in message.string_table]
        self._functions = {one.id: one for one in message.function}
        self._mappings = {one.id: one for one in message.mapping}
        self._columns = self._find_columns()
        self._locations = {one.id: self._frames(one, number) for number, one in enumerate(message.location)}
        self.modules = [
            Module(
                self._string(one.filename),
                self._string(one.build_id).lower(),
                one.memory_start,
                one.memory_limit,
                one.memory_start - one.file_offset,
            )
            for one in message.mapping
            if one.memory_start < one.memory_limit < 1 << 63 and one.file_offset <= one.memory_start
        ]

    def totals(self) -> dict[int, Total]:
        columns, width = self._columns, len(self._message.sample_type)
        sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        wanted = (columns.blocks, columns.size, columns.allocated_blocks, columns.allocated_size)
        located = self._locations.__getitem__
        for index, sample in enumerate(self._message.sample):
            values = sample.value
            if len(values) != width:
                raise self._fault("sample", index, f"{len(values)} values for {width} sample types")
            try:
                # A list of the numbers, not protobuf's iterator: it halves the time of a large profile.
                places = chain.from_iterable(map(located, list(sample.location_id)))
                row = sums[self._stacks.stack(places)]
            except KeyError as error:
                raise self._fault("sample", index, f"location {error} is not in the file") from None
            for at, column in enumerate(wanted):
                if column is not None:
                    row[at] += values[column] * columns.units[column]
        for number, row in sums.items():
            if min(row) < 0 or max(row) > _MOST:
                raise self._fault(
                    "sample",
                    self._impossible(number),
                    "its stack has a negative or impossible amount: is it a difference?",
                )
            if columns.blocks is None:
                row[0] = int(row[1] > 0)
        return {number: Total(*map(float, row)) for number, row in sums.items() if any(row)}

    def _impossible(self, stack: int) -> int:
        """The number of the sample with which the sum of a stack becomes impossible."""
        columns, number = self._columns, 0
        wanted = (columns.blocks, columns.size, columns.allocated_blocks, columns.allocated_size)
        row = [0] * len(wanted)
        for index, sample in enumerate(self._message.sample):
            places = chain.from_iterable(map(self._locations.__getitem__, list(sample.location_id)))
            if self._stacks.stack(places) != stack:
                continue
            number = index
            for at, column in enumerate(wanted):
                row[at] += 0 if column is None else sample.value[column] * columns.units[column]
            if min(row) < 0 or max(row) > _MOST:
                break
        return number

    def lacks(self) -> list[str]:
        columns, message = self._columns, self._message
        sampled = message.period > 1 and self._string(message.period_type.unit) == "bytes"
        return [
            *([SAMPLED.format(interval=format_size(message.period))] if sampled else []),
            *([ALLOCATED_ONLY] if columns.allocated_only else []),
            *([NO_ALLOCATED] if columns.allocated_size is None else []),
            *([NO_COUNT] if columns.blocks is None else []),
        ]

    def _find_columns(self) -> _Columns:
        types = [self._string(one.type) for one in self._message.sample_type]
        units = [_UNITS.get(self._string(one.unit).lower(), 0) for one in self._message.sample_type]

        def first(known: Sequence[str]) -> int | None:
            return next((types.index(name) for name in known if name in types), None)

        size, blocks = first(_BYTES), first(_BLOCKS)
        allocated_size, allocated_blocks = first(_ALLOCATED_BYTES), first(_ALLOCATED_BLOCKS)
        only = size is None and allocated_size is not None
        if only:
            size, blocks = allocated_size, allocated_blocks
        if size is None:
            # async-profiler and others name the event: take the only type whose unit is bytes.
            sized = [
                at
                for at, one in enumerate(self._message.sample_type)
                if self._string(one.unit).lower() == "bytes"
            ]
            size = sized[0] if len(sized) == 1 else None
        if size is None or not units[size]:
            raise UserError(
                f"{self._path} is not a profile of memory: its values are {', '.join(types[:8]) or 'none'}",
                "import one with inuse_space, such as /debug/pprof/heap",
            )
        return _Columns(size, blocks, allocated_size, allocated_blocks, units, only)

    def _frames(self, location: Any, number: int) -> tuple[int, ...]:
        """Places of the frames of a location, innermost first: all lines but the last are inlined."""
        mapping = self._mappings.get(location.mapping_id)
        path = self._string(mapping.filename) if mapping else ""
        module = path.rpartition("/")[2]
        if not location.line:
            if module and mapping and mapping.memory_start <= location.address < mapping.memory_limit:
                offset = location.address - mapping.memory_start + mapping.file_offset
                return (self._stacks.frame(Frame(f"{module}+{offset:#x}", "native", module)),)
            return (self._stacks.frame(Frame(f"{location.address:#x}", "native", module)),)
        frames = []
        last = len(location.line) - 1
        for at, line in enumerate(location.line):
            function = self._functions.get(line.function_id)
            if function is None:
                raise self._fault("location", number, f"function {line.function_id} is not in the file")
            name = self._string(function.name) or self._string(function.system_name)
            row = line.line if 0 <= line.line < 1 << 31 else 0
            frames.append(names.frame(name, module, self._string(function.filename), row, at < last))
        return tuple(map(self._stacks.frame, frames))

    def _string(self, index: int) -> str:
        if not 0 <= index < len(self._strings):
            field, number = self._first_with(index)
            raise self._fault(field, number, f"string {index} is not one of {len(self._strings)}")
        name: str = self._strings[index]
        return name

    def _first_with(self, string: int) -> tuple[str, int]:
        """The first message with this index of a string: its field, and its place in it."""
        message = self._message
        lists = {field: getattr(message, field) for field in ("sample_type", "mapping", "function")}
        lists["period_type"] = [message.period_type]
        return next(
            (field, number)
            for field, ones in lists.items()
            for number, one in enumerate(ones)
            if any(string == getattr(one, name, 0) for name in _STRINGS)
        )

    def _fault(self, field: str, number: int, what: str) -> UserError:
        at = pprof_wire.place_of(source.whole(self._path, _TIMES_MESSAGE), field, number)
        return source.fault(self._path, f"byte {at:#x}", f"{field} {number}: {what}")
