"""Heap profiles in text: jemalloc's heap_v2, and the `heap profile:` of gperftools, Go and legacy pprof.

heap_v2/524288                                   mean bytes between samples
  t*: 28106: 56637512 [0: 0]                     live blocks: bytes [allocated blocks: bytes]
  [...]
@ 0x5f1a... 0x5f1b...                            a stack, innermost first
  t*: 13: 6688 [0: 0]                            of all threads
  t3: 12: 6496 [0: 0]                            of one
MAPPED_LIBRARIES:
7f00... r-xp ...                                 /proc/PID/maps

heap profile: 12: 4096 [ 30: 9000 ] @ heapprofile        of gperftools, which counts every block
 1:  512 [ 3: 1536 ] @ 0x... 0x...
MAPPED_LIBRARIES:

heap profile: 12: 4096 [ 30: 9000 ] @ heap_v2/INTERVAL   or @ heapz_v2/INTERVAL, or @ heap/TWICE of Go

The sources of the formats are jemalloc's src/prof_data.c, gperftools' src/heap-profile-table.cc and, of the
last one, profile/legacy_profile.go of github.com/google/pprof.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from offheap.formats.imported import source
from offheap.formats.imported.samples import go_frames
from offheap.formats.imported.samples.address_stacks import AddressStacks, NotHexadecimal, address_stacks
from offheap.formats.imported.samples.symbol_section import split
from offheap.recording.model import Chain

JEMALLOC, GPERFTOOLS, OTHER = "jemalloc", "gperftools", "pprof text"

_V2 = re.compile(r"heap_v2/(\d{1,18})")
_NUMBERS = r"\s*(-?\d{1,18}):\s*(-?\d{1,18})\s*\[\s*(-?\d{1,18}):\s*(-?\d{1,18})\s*\]"
# The number of allocations is negative from 2^31 on, where gperftools 2.10 overflows.
_LEGACY = re.compile(rf"heap profile:{_NUMBERS}\s*@\s*(\S+)")
_SOURCE = re.compile(r"(?P<name>[a-z_0-9]+)(?:/(?P<rate>\d{1,18}))?")
_ALL_THREADS = re.compile(r"\s*t\*:" + _NUMBERS)
_ONE_THREAD = re.compile(r"\s*t\d+:" + _NUMBERS)
# One stack of heap_v2 as jemalloc writes it, all its lines at once: a third of the time of single lines.
_STACK = re.compile(rf"@([^\n]*)\n[ ]+t\*:{_NUMBERS}\n(?:[ ]+t\d+:{_NUMBERS}\n)*")
_RECORD = re.compile(_NUMBERS + r"\s*@(.*)")
_MAPS = "MAPPED_LIBRARIES:"

Lines = Iterator[tuple[int, str]]


@dataclass
class Dump:
    """producer   JEMALLOC, GPERFTOOLS or OTHER
    interval   mean bytes between samples; 0: every block is counted
    stacks     return addresses, innermost first
    counts     by stack: live blocks, live bytes, allocated blocks, allocated bytes; allocated ones may be 0
    maps       lines of /proc/PID/maps
    unprinted  what gperftools' first line counts above the sum of the stacks, in the order of `counts`
    symbols    names by address, of a file that has them in front
    frames     by address less 1, of a file that has them below its stacks
    """

    path: Path
    producer: str = JEMALLOC
    interval: int = 0
    stacks: AddressStacks = field(default_factory=lambda: address_stacks([]))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 4), np.int64))
    maps: list[str] = field(default_factory=list)
    unprinted: tuple[int, ...] = (0, 0, 0, 0)
    symbols: dict[int, str] = field(default_factory=dict)
    frames: dict[int, Chain] = field(default_factory=dict)


def parse(path: Path) -> Dump:
    """UserError with the line of a fault; a dump that ends after its first stack is read to its end."""
    symbols, text, above = split(path, source.text(path))
    head = text.partition("\n")[0]
    whole = _whole(path, text, head)
    if whole is not None:
        whole.symbols = symbols
        return whole
    dump = Dump(path, symbols=symbols)
    lines = text.splitlines()
    numbered: Lines = iter(enumerate(lines[1:], above + 1))
    if found := _V2.fullmatch(head.strip()):
        dump.interval = int(found[1])
        _Records(dump).read_v2(numbered)
    elif found := _LEGACY.match(head):
        dump.producer, dump.interval = _producer(found[5])
        _Records(dump).read_legacy(numbered)
        if dump.producer == GPERFTOOLS:
            dump.unprinted = _unprinted(found.groups()[:4], dump.counts)
    else:
        raise source.fault(path, f"line {above}", "neither heap_v2/INTERVAL nor `heap profile:`")
    # The last line of all maps: a cut within it is not noticed, an earlier cut is.
    dump.maps += [line for _, line in numbered]
    if not len(dump.stacks.depths) and not dump.maps:
        raise source.fault(path, f"line {above + len(lines) - 1}", "the file ends before its first stack")
    return dump


def maps_of(path: Path) -> list[str]:
    """The maps of a dump alone, none if it has been cut off before them."""
    return source.text(path).partition(f"\n{_MAPS}")[2].splitlines()


def _whole(path: Path, text: str, head: str) -> Dump | None:
    """A heap_v2 as jemalloc writes it, with its maps; None for any other file, and for one with a fault."""
    found = _V2.fullmatch(head)
    place = text.find("\n@") + 1
    totals = text[len(head) + 1 : place].splitlines()
    if not found or not all(_ALL_THREADS.fullmatch(line) or _ONE_THREAD.fullmatch(line) for line in totals):
        return None
    addresses: list[str] = []
    counts: list[tuple[str, ...]] = []
    for stack in _STACK.finditer(text, place):
        if stack.start() != place:
            return None
        place = stack.end()
        addresses.append(stack[1])
        counts.append(stack.group(2, 3, 4, 5))
    if not counts or not text.startswith((_MAPS, f"\n{_MAPS}"), place):
        return None
    try:
        dump = Dump(path, JEMALLOC, int(found[1]), address_stacks(addresses), _numbers(counts))
    except NotHexadecimal:
        return None
    if any(wrong.any() for wrong, _ in _faults(dump.counts, empty=False)):
        return None
    dump.maps = text[place:].partition(_MAPS)[2].splitlines()
    return dump


def _producer(after: str) -> tuple[str, int]:
    """(who wrote the file, the mean bytes between samples or 0) by what follows the @ of the first line."""
    found = _SOURCE.fullmatch(after)
    if not found:
        return OTHER, 0
    rate = int(found["rate"] or 0)
    if found["name"] == "heap":
        rate //= 2  # Go writes twice its MemProfileRate
    sampled = found["name"] in ("heap", "heap_v2", "heapz_v2") and rate > 1
    return GPERFTOOLS if found["name"] == "heapprofile" else OTHER, rate if sampled else 0


def _unprinted(totals: Sequence[str], counts: NDArray[np.int64]) -> tuple[int, ...]:
    """What the totals of the first line have above the sum of the stacks.

    gperftools keeps the totals and the maps (`FillOrderedProfile`), and leaves out the last stacks when its
    buffer of 1 MiB is full.  The totals lack the mappings of HEAP_PROFILE_MMAP, which the stacks have: in
    such a dump the difference is too small.
    """
    sums = counts.sum(axis=0, dtype=np.float64).tolist()
    live, size, ever, ever_size = (
        max(int(float(total) - its), 0) for total, its in zip(totals, sums, strict=True)
    )
    return max(live, size > 0), size, max(ever, ever_size > 0), ever_size  # no bytes without a block


class _Records:
    """Lines of stacks and counts, checked together at the end: a large dump has 100,000."""

    def __init__(self, dump: Dump) -> None:
        self._dump = dump
        self._counts: list[tuple[str, ...]] = []
        self._addresses: list[str] = []
        self._lines: list[tuple[int, int]] = []  # of a stack's addresses, of its counts

    def read_v2(self, lines: Lines) -> None:
        words: str | None = None
        above = 0
        for number, line in lines:
            if line.startswith("@"):
                words, above = line[1:], number
            elif found := _ALL_THREADS.fullmatch(line):
                if words is not None:
                    self._add(words, found.groups(), (above, number))
                words = None
            elif line.startswith(_MAPS):
                break
            elif line.strip() and not _ONE_THREAD.fullmatch(line):
                raise source.fault(self._dump.path, f"line {number}", "neither a stack nor its counts")
        self._check()

    def read_legacy(self, lines: Lines) -> None:
        calls: list[go_frames.NamedCall] = []
        for number, line in lines:
            if line.startswith(_MAPS):
                break
            if line.startswith("#"):
                if call := go_frames.call(line):
                    calls.append(call)
                continue
            if not line.strip():
                continue
            self._name(calls)
            calls = []
            found = _RECORD.fullmatch(line)
            if not found:
                raise source.fault(
                    self._dump.path, f"line {number}", "no `BLOCKS: BYTES [BLOCKS: BYTES] @ ADDRESSES`"
                )
            self._add(found[5], found.groups()[:4], (number, number))
        self._name(calls)
        self._check()

    def _name(self, calls: Sequence[go_frames.NamedCall]) -> None:
        """The last stack is the one of these calls."""
        if calls and self._addresses:
            chains = go_frames.chains(calls)
            self._addresses[-1] = " ".join(f"{address + 1:#x}" for address, _ in chains)
            for address, functions in chains:
                self._dump.frames.setdefault(address, functions)

    def _add(self, words: str, counts: tuple[str, ...], lines: tuple[int, int]) -> None:
        self._addresses.append(words)
        self._counts.append(counts)
        self._lines.append(lines)

    def _check(self) -> None:
        dump = self._dump
        try:
            dump.stacks = address_stacks(self._addresses)
        except NotHexadecimal as error:
            line = self._lines[error.stack][0]
            raise source.fault(dump.path, f"line {line}", "an address is not hexadecimal") from None
        dump.counts = _numbers(self._counts)
        if dump.symbols and not dump.interval:
            # Rounded totals of estimates, as offheap writes them: a part of a block is one here.
            dump.counts[:, 0] = np.maximum(dump.counts[:, 0], dump.counts[:, 1] > 0)
            self._refuse(np.any(dump.counts < 0, axis=1), "a count is negative")
            return
        for wrong, what in _faults(dump.counts, empty=not dump.interval):
            self._refuse(wrong, what)

    def _refuse(self, wrong: NDArray[np.bool_], what: str) -> None:
        if wrong.any():
            raise source.fault(self._dump.path, f"line {self._lines[int(wrong.argmax())][1]}", what)


def _numbers(counts: list[tuple[str, ...]]) -> NDArray[np.int64]:
    return np.fromiter(map(int, chain.from_iterable(counts)), np.int64, 4 * len(counts)).reshape(-1, 4)


def _faults(counts: NDArray[np.int64], empty: bool) -> Iterator[tuple[NDArray[np.bool_], str]]:
    """Which stacks have a fault, and what it is.  `empty`: a block may be of malloc(0), without a byte."""
    blocks, size = counts[:, 0], counts[:, 1]
    negative: NDArray[np.bool_] = np.any(counts < 0, axis=1)
    yield negative, "a count is negative"
    of_none: NDArray[np.bool_] = (size != 0) & (blocks == 0)
    yield of_none if empty else of_none | (size < blocks), "the bytes do not fit the number of blocks"
