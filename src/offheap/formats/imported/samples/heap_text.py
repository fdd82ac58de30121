"""Heap profiles in text: jemalloc's heap_v2, and the `heap profile:` of gperftools, Go and legacy pprof.

The sources of the formats are named in heap_dumps.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offheap.errors import UserError
from offheap.formats.imported import source
from offheap.formats.imported.profile import Profile
from offheap.formats.imported.samples import maps_beside
from offheap.formats.imported.samples.address_names import AddressNames
from offheap.formats.imported.samples.heap_dumps import Dump, maps_of, parse
from offheap.formats.imported.samples.heap_tables import HeapTables
from offheap.formats.imported.samples.symbol_section import MAGIC, ListedNames
from offheap.formats.imported.stack_tables import GROUPED, StackTable, times_of
from offheap.recording.model import Frame

FORMAT = "jemalloc"

# PREFIX.PID.SEQUENCE.KIND.heap, KIND i7, u7, m7 or, at the exit, f; PREFIX.SEQUENCE.heap of gperftools
_SEQUENCE = re.compile(r"\.(\d+)(?:\.[a-z]\d*)?\.heap$")
_PID = re.compile(r"\.(\d+)\.\d+\.[a-z]\d*\.heap$")
# Functions of the profiler itself, innermost: the allocating caller is the frame outside them.
_OWN = re.compile(
    r"(?:_?rjem_)?(?:je_)?(?:prof_|backtrace|imalloc|iallocztm|do_rallocx|malloc_default|realloc_)"
    r"|ProfilerHook|MallocHook|tc_new|HeapProfile|RecordAlloc|NewHook|tcmalloc::|DoSampledAllocation"
)
_OWN_LIBRARY = re.compile(r"libjemalloc|libtcmalloc|libprofiler")

UNPRINTED = Frame("stacks that were not printed", "unknown")


def recognises(head: bytes) -> bool:
    if head.startswith(MAGIC.encode()):
        return b"\n--- cpu" not in head
    return head.startswith((b"heap_v2/", b"heap profile:"))


def read(files: Sequence[Path], maps: Path | None = None, perf_map: Path | None = None) -> Profile:
    """The stacks of each file, each a moment of the series.

    maps      a copy of /proc/PID/maps, for files without their own
    perf_map  of `jcmd PID Compiler.perfmap`: names of Java methods
    """
    pids = {match[1] for path in files if (match := _PID.search(path.name))}
    if len(pids) > 1:
        raise UserError(
            f"the files are those of {len(pids)} processes: PID {', '.join(sorted(pids)[:5])}",
            "import one process's series at a time",
        )
    pid = pids.pop() if pids else ""
    ordered = sorted(files, key=lambda path: (_sequence(path), source.modified(path), str(path)))
    times, start, lacking = times_of([source.modified(path) for path in ordered])
    known = int(pid) if pid and len(pid) < 10 else 0
    perf_map = perf_map or maps_beside.beside(ordered, known)
    first = dump = parse(ordered[0])
    # The last dump has the libraries of all.
    last = first.maps if len(ordered) == 1 else maps_of(ordered[-1])
    names = AddressNames(source.text(maps).splitlines() if maps else last, perf_map)
    stacks = _NamedStacks(StackTable(ordered[0]), names)
    tables = HeapTables(first.interval)
    unprinted = False
    for path, time in zip(ordered, times, strict=True):
        dump = first if path is ordered[0] else parse(path)
        if dump.interval != first.interval:
            raise UserError(
                f"{path} has another sampling interval than {ordered[0]}", "import the files of one run"
            )
        numbers, counts = stacks.numbers(dump), dump.counts
        if any(dump.unprinted):
            unprinted = True
            numbers = np.append(numbers, stacks.stacks.of_frames([UNPRINTED]))
            counts = np.vstack((counts, np.array(dump.unprinted, np.int64)))
        tables.add(time, numbers, counts)
    live, grouped = tables.live()
    lacks = [
        *_lacks(unprinted, names, perf_map, first),
        *([lacking] if lacking else []),
        *([GROUPED] if grouped else []),
    ]
    return Profile(
        first.producer,
        list(stacks.stacks.frames),
        [places for places, _ in stacks.stacks.stacks],
        np.array([kind for _, kind in stacks.stacks.stacks], np.uint8),
        live,
        tables.series(),
        tables.process(),
        interval_bytes=first.interval,
        lacks=tuple(lacks),
        start=start,
        pid=known,
        modules=names.modules,
    )


def _sequence(path: Path) -> int:
    found = _SEQUENCE.search(path.name)
    return int(found[1]) if found and len(found[1]) < 10 else 0


class _NamedStacks:
    """Stacks by their functions: addresses of one function and line are one frame."""

    def __init__(self, stacks: StackTable, names: AddressNames) -> None:
        self.stacks = stacks
        self._names: AddressNames | ListedNames = names
        self._places: dict[int, tuple[int, ...]] = {}  # of an address's frames
        self._own: set[int] = set()  # places of frames

    def numbers(self, dump: Dump) -> NDArray[np.int64]:
        """The number of each of the dump's stacks."""
        if dump.symbols or dump.frames:
            # offheap invents addresses: in another file the same address is another function.
            self._names, self._places = ListedNames(dump.symbols, dump.frames), {}
        addresses, which, depths = dump.stacks
        self._meet([address for address in addresses.tolist() if address not in self._places])
        # Files of offheap and of Go have no frames of a profiler.
        keep = bool(dump.frames) or (bool(dump.symbols) and not dump.interval)
        places = [self._places[address] for address in addresses.tolist()]
        lengths = np.array(list(map(len, places)), np.int64)
        # The frames of all stacks one behind the other, several for an address where the compiler inlined.
        flat = np.array(list(chain.from_iterable(places)), np.int64)
        firsts = np.cumsum(lengths) - lengths
        spans = lengths[which]
        within = np.arange(int(spans.sum())) - np.repeat(np.cumsum(spans) - spans, spans)
        frames = flat[np.repeat(firsts[which], spans) + within].tolist()
        bounds = np.concatenate(([0], np.cumsum(spans)))[np.concatenate(([0], np.cumsum(depths)))].tolist()
        number = self.stacks.stack if keep else self._number
        return np.array([number(frames[low:high]) for low, high in pairwise(bounds)], np.int64)

    def _meet(self, addresses: list[int]) -> None:
        for address, its in self._names.chains(addresses).items():
            places = self._places[address] = tuple(map(self.stacks.frame, its))
            for frame, place in zip(its, places, strict=True):
                if _OWN.match(frame.name) or _OWN_LIBRARY.match(frame.module):
                    self._own.add(place)

    def _number(self, stack: list[int]) -> int:
        own = 0
        while own < len(stack) - 1 and stack[own] in self._own:
            own += 1
        return self.stacks.stack(stack[own:])


def _lacks(unprinted: bool, names: AddressNames, perf_map: Path | None, first: Dump) -> Iterator[str]:
    yield "the files have one mean size for each stack, and no threads"
    if unprinted:
        yield f"a dump lacks stacks, as gperftools prints 1 MiB at most: `{UNPRINTED.name}` has their totals"
    if first.frames:
        yield "functions have the names, files and lines that the files list"
        return
    if first.symbols:
        yield "functions have the names that the files list, without libraries, files and lines"
        return
    if not names.modules:
        yield "the files have no maps, so functions have no names: give /proc/PID/maps with --maps"
    else:
        yield "native names are by the libraries' files as they are now: a dump has no build-ids to check"
    if perf_map is None:
        yield "Java methods have no names without a perf map (jcmd PID Compiler.perfmap, then --perf-map)"
    else:
        yield f"Java methods have the names of {perf_map.name}: code that was freed before may lack one"
    for path, why in sorted(names.problems.items())[:6]:
        yield f"{path}: {why}"
