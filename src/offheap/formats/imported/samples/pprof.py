"""pprof's protobuf, plain or gzip: of Go, gperftools, Pyroscope, Parca, async-profiler, `offheap export`.

The source of the format is github.com/google/pprof/proto/profile.proto and the README beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from operator import add, itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offheap.errors import UserError
from offheap.formats.imported import source
from offheap.formats.imported.profile import Profile
from offheap.formats.imported.samples import names
from offheap.formats.imported.samples.pprof_message import Labels, PprofMessage, varint
from offheap.formats.imported.stack_tables import (
    GROUPED,
    TOTAL_BYTES,
    StackTable,
    Total,
    TotalsAtTime,
    blocks,
    profile,
    times_of,
)
from offheap.quantities import format_size
from offheap.recording.model import Frame, Module

FORMAT = "pprof"

LACKS = (
    "pprof has totals by stack, not blocks: neither births nor sizes of single blocks, so that the blocks of "
    "a stack count as equally large",
    "pprof has no RSS, and no record of how much the values may err",
)
NO_THREADS = "The file has no label `thread`: which threads hold the memory is not known"
JAVA_AS_BLOCKS = (
    "The file has Java objects (label `kind`), which count as blocks here: without births and collections "
    "nothing tells objects in use from garbage"
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
_KEYS = frozenset(range(1, 16))  # field numbers of the message Profile


Pairs = dict[tuple[int, int], Total]  # by stack and thread


class _Columns(NamedTuple):
    """Places of values in a sample; None where the file has none."""

    size: int
    blocks: int | None
    allocated_size: int | None
    allocated_blocks: int | None
    units: list[int]
    allocated_only: bool


def recognises(head: bytes) -> bool:
    """Whether the bytes are fields of a Profile."""
    if not head or head[0] >> 3 not in _KEYS or head[0] & 7 not in (0, 2):
        return False
    at = fields = 0
    while at < len(head) - 10 and fields < 8:
        tag, at = varint(head, at)
        if tag >> 3 not in _KEYS or tag & 7 not in (0, 2):
            return False
        length, at = varint(head, at)
        if tag & 7 == 2:
            at += length
        fields += 1
    return fields > 1 or (fields == 1 and at == len(head))


def read(files: Sequence[Path]) -> Profile:
    """The samples of each file; their times are the files' own where all have one."""
    stacks, labels = StackTable(files[0]), Labels()
    lacks = dict.fromkeys(LACKS)
    modules: dict[Module, None] = {}
    found: list[tuple[float, float, Pairs]] = []  # (the time of its own or 0, the file's, totals)
    for path in files:
        message = PprofMessage(path, stacks)
        reader = _Reader(message, stacks, labels)
        pairs = reader.totals()
        stacks.charge(TOTAL_BYTES * len(pairs))
        found.append((message.header.time_nanos * _NANO, source.modified(path), pairs))
        lacks.update(dict.fromkeys(reader.lacks()))
        modules.update(dict.fromkeys(reader.modules))
        message.release()
    time = itemgetter(0 if all(own > 0 for own, _, _ in found) else 1)
    found.sort(key=time)
    times, start, lacking = times_of([time(one) for one in found])
    first: dict[int, float] = {}
    for at, (_, _, pairs) in zip(times, found, strict=True):
        for stack, _ in pairs:
            first.setdefault(stack, at)
    live, grouped = _live_rows(found[-1][2], first)
    told = (
        (lacking, bool(lacking)),
        (GROUPED, grouped),
        (JAVA_AS_BLOCKS, labels.java),
        (NO_THREADS, len(labels.threads) == 1),
    )
    made = profile(
        FORMAT,
        stacks,
        (TotalsAtTime(at, _of_stacks(pairs)) for at, (_, _, pairs) in zip(times, found, strict=True)),
        live=live,
        lacks=[*lacks, *(sentence for sentence, is_so in told if is_so)],
        start=start,
        modules=list(modules),
    )
    return replace(made, threads=labels.threads)


def _live_rows(pairs: Pairs, first: dict[int, float]) -> tuple[NDArray[np.void], bool]:
    """(LIVE rows with threads, whether a row may stand for several blocks); `first`: when a stack came."""
    held = np.array([(0, 0), *pairs], np.int64)
    numbered = dict(enumerate(pairs.values(), 1))
    births = {number: first[stack] for number, (stack, _) in enumerate(pairs, 1)}
    live, grouped = blocks(numbered, births)
    of_pair = held[live["stack"]]
    live["stack"], live["thread"] = of_pair[:, 0], of_pair[:, 1]
    return live, grouped


def _of_stacks(pairs: Pairs) -> dict[int, Total]:
    totals: dict[int, Total] = {}
    for (stack, _), its in pairs.items():
        known = totals.get(stack)
        totals[stack] = Total(*map(add, known, its)) if known else its
    return totals


class _Reader:
    """One file's samples as totals of stacks and threads; every index of the file is checked."""

    def __init__(self, message: PprofMessage, stacks: StackTable, labels: Labels) -> None:
        self._message, self._stacks, self._labels = message, stacks, labels
        self._string, self._fault = message.string, message.fault
        self._columns = self._find_columns()
        self._locations = {
            one.id: tuple(map(stacks.frame, self._frames(place, number, one)))
            for number, (place, one) in enumerate(message.locations())
        }
        self.modules = [
            Module(
                self._string(one.filename),
                self._string(one.build_id).lower(),
                one.memory_start,
                one.memory_limit,
                one.memory_start - one.file_offset,
            )
            for one in message.mappings.values()
            if one.memory_start < one.memory_limit < 1 << 63 and one.file_offset <= one.memory_start
        ]

    def totals(self) -> Pairs:
        sums = self._sums()
        for pair, row in sums.items():
            if min(row) < 0 or max(row) > _MOST:
                self._sums(pair)  # once more, to the sample that makes it so
            if self._columns.blocks is None:
                row[0] = int(row[1] > 0)
        return {pair: Total(*map(float, row)) for pair, row in sums.items() if any(row)}

    def _sums(self, refused: tuple[int, int] | None = None) -> dict[tuple[int, int], list[int]]:
        columns, width = self._columns, len(self._message.header.sample_type)
        sums: dict[tuple[int, int], list[int]] = {}
        wanted = (columns.blocks, columns.size, columns.allocated_blocks, columns.allocated_size)
        located = self._locations.__getitem__
        for index, (place, sample) in enumerate(self._message.samples()):
            values = sample.value
            if len(values) != width:
                raise self._fault(place, f"sample {index}: {len(values)} values for {width} sample types")
            kind, thread = self._labels.of(self._message, sample)
            try:
                # A list of the numbers, not protobuf's iterator: it halves the time of a large profile.
                places = chain.from_iterable(map(located, list(sample.location_id)))
                pair = self._stacks.stack(places, kind), thread
            except KeyError as error:
                raise self._fault(place, f"sample {index}: location {error} is not in the file") from None
            row = sums.get(pair)
            if row is None:
                self._stacks.charge(TOTAL_BYTES)
                row = sums[pair] = [0, 0, 0, 0]
            for at, column in enumerate(wanted):
                if column is not None:
                    row[at] += values[column] * columns.units[column]
            if pair == refused and (min(row) < 0 or max(row) > _MOST):
                what = "its stack has a negative or impossible amount: is it a difference?"
                raise self._fault(place, f"sample {index}: {what}")
        return sums

    def lacks(self) -> list[str]:
        columns, message = self._columns, self._message.header
        sampled = message.period > 1 and self._string(message.period_type.unit) == "bytes"
        return [
            *([SAMPLED.format(interval=format_size(message.period))] if sampled else []),
            *([ALLOCATED_ONLY] if columns.allocated_only else []),
            *([NO_ALLOCATED] if columns.allocated_size is None else []),
            *([NO_COUNT] if columns.blocks is None else []),
        ]

    def _find_columns(self) -> _Columns:
        types = [self._string(one.type) for one in self._message.header.sample_type]
        units = [_UNITS.get(self._string(one.unit).lower(), 0) for one in self._message.header.sample_type]

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
                for at, one in enumerate(self._message.header.sample_type)
                if self._string(one.unit).lower() == "bytes"
            ]
            size = sized[0] if len(sized) == 1 else None
        if size is None or not units[size]:
            values = ", ".join(types[:8]) or "none"
            raise UserError(
                f"{self._message.path} is not a profile of memory: its values are {values}",
                "import one with inuse_space, such as /debug/pprof/heap",
            )
        return _Columns(size, blocks, allocated_size, allocated_blocks, units, only)

    def _frames(self, place: str, at_number: int, location: Any) -> Iterator[Frame]:
        """Innermost first: all lines of a location but the last are inlined."""
        mapping = self._message.mappings.get(location.mapping_id)
        path = self._string(mapping.filename) if mapping else ""
        module = path.rpartition("/")[2]
        if not location.line:
            name = f"{location.address:#x}"
            if module and mapping and mapping.memory_start <= location.address < mapping.memory_limit:
                name = f"{module}+{location.address - mapping.memory_start + mapping.file_offset:#x}"
            yield Frame(name, "native", module)
        last = len(location.line) - 1
        for at, line in enumerate(location.line):
            function = self._message.functions.get(line.function_id)
            if function is None:
                raise self._fault(
                    place, f"location {at_number}: function {line.function_id} is not in the file"
                )
            name = self._string(function.name) or self._string(function.system_name)
            number = line.line if 0 <= line.line < 1 << 31 else 0
            yield names.frame(name, module, self._string(function.filename), number, at < last)
