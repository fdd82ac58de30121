"""Heap profiles in text: jemalloc's heap_v2, and the `heap profile:` of gperftools and legacy pprof.

    heap_v2/524288                                   mean bytes between samples
      t*: 28106: 56637512 [0: 0]                     live blocks: bytes [allocated blocks: bytes]
      [...]
    @ 0x5f1a... 0x5f1b...                            a stack, innermost first
      t*: 13: 6688 [0: 0]                            of all threads
      t3: 12: 6496 [0: 0]                            of one
    MAPPED_LIBRARIES:
    7f00... r-xp ...                                 /proc/PID/maps

    heap profile: 12: 4096 [ 30: 9000 ] @ heapprofile        or @ heap_v2/RATE, @ heap/RATE
     1:  512 [ 3: 1536 ] @ 0x... 0x...
    MAPPED_LIBRARIES:

jemalloc counts samples: a stack of n samples with s bytes in all stands for n, s times 1/(1 - e^(-(s/n)/T)),
as jeprof unbiases them (docs: jemalloc's `doc_internal/PROFILING_INTERNALS.md`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from offheap.errors import UserError
from offheap.formats.imported import source
from offheap.formats.imported.profile import Profile
from offheap.formats.imported.samples.address_names import AddressNames
from offheap.formats.imported.stack_tables import MOST_ROWS, Moment, Stacks, Total, profile, times_of
from offheap.recording.model import LIVE

_V2 = re.compile(r"heap_v2/(\d{1,18})")
_LEGACY = re.compile(r"heap profile:\s*\d+:\s*\d+\s*\[\s*\d+:\s*\d+\s*\]\s*@\s*(\S+)")
_NUMBERS = r"\s*(-?\d{1,18}):\s*(-?\d{1,18})\s*\[\s*(-?\d{1,18}):\s*(-?\d{1,18})\s*\]"
_ALL_THREADS = re.compile(r"\s*t\*:" + _NUMBERS)
_ONE_THREAD = re.compile(r"\s*t\d+:" + _NUMBERS)
_RECORD = re.compile(_NUMBERS + r"\s*@\s*(.*)")
_ADDRESSES = re.compile(r"(?:0x[0-9a-f]{1,16}(?:\s+|$))*")
_MAPS = "MAPPED_LIBRARIES:"
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
MOST_FRAMES = 2000
_CUT_BYTES = (1 << 20) - (16 << 10)  # gperftools 2.10 cuts dumps at 1 MiB


class _Record(NamedTuple):
    addresses: tuple[int, ...]
    live_blocks: int
    live_bytes: int
    allocated_blocks: int
    allocated_bytes: int


@dataclass
class _Dump:
    path: Path
    interval: int = 0  # 0: every block is counted
    records: list[_Record] = field(default_factory=list)
    maps: list[str] = field(default_factory=list)
    cut: bool = False


def recognises(head: bytes) -> bool:
    return source.plain(head).startswith((b"heap_v2/", b"heap profile:"))


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
    dumps = [_parse(path) for path in ordered]
    intervals = {dump.interval for dump in dumps}
    if len(intervals) > 1:
        raise UserError("the files have different sampling intervals", "import those of one run")
    interval = intervals.pop()
    names = AddressNames(source.text(maps).splitlines() if maps else dumps[-1].maps, perf_map)
    stacks = _NamedStacks(Stacks(ordered[0]), names)
    stacks.meet([address for dump in dumps for record in dump.records for address in record.addresses])
    totals = [_totals(dump, stacks) for dump in dumps]
    moments = [
        Moment(time, {n: one.total for n, one in its.items()})
        for time, its in zip(times, totals, strict=True)
    ]
    made = profile(
        FORMAT if interval else "gperftools",
        stacks.stacks,
        moments,
        live=_live(totals[-1]) if interval else None,
        lacks=[*_lacks(dumps, names, perf_map), *([lacking] if lacking else [])],
        start=start,
        pid=int(pid) if pid and len(pid) < 10 else 0,
        modules=names.modules,
    )
    return _sampled(made, interval, times, totals) if interval else made


def _sequence(path: Path) -> int:
    found = _SEQUENCE.search(path.name)
    return int(found[1]) if found and len(found[1]) < 10 else 0


def _parse(path: Path) -> _Dump:
    text = source.text(path)
    lines = text.splitlines()
    dump = _Dump(path)
    head = lines[0] if lines else ""
    if found := _V2.fullmatch(head.strip()):
        dump.interval = int(found[1])
        numbered = iter(enumerate(lines[1:], 2))
        _parse_v2(dump, numbered)
    elif found := _LEGACY.match(head):
        rate = re.fullmatch(r"(?:heap_v2|heap)/(\d{1,18})", found[1])
        dump.interval = int(rate[1]) if rate and int(rate[1]) > 1 else 0
        numbered = iter(enumerate(lines[1:], 2))
        _parse_legacy(dump, numbered)
        dump.cut = not dump.maps and len(text) >= _CUT_BYTES
    else:
        raise source.fault(path, "line 1", "neither heap_v2/INTERVAL nor `heap profile:`")
    # The last line of all maps, so an end within it is not seen; whoever cut the file before is.
    dump.maps += [line for _, line in numbered]
    if not dump.records and not dump.maps:
        raise source.fault(path, f"line {len(lines)}", "the file ends before its first stack")
    return dump


def _parse_v2(dump: _Dump, lines: Iterator[tuple[int, str]]) -> None:
    addresses: tuple[int, ...] | None = None
    for number, line in lines:
        if line.startswith("@"):
            addresses = _addresses(dump.path, number, line[1:])
        elif found := _ALL_THREADS.fullmatch(line):
            if addresses is not None:
                dump.records.append(_record(dump.path, number, addresses, found))
            addresses = None
        elif line.startswith(_MAPS):
            return
        elif line.strip() and not _ONE_THREAD.fullmatch(line):
            raise source.fault(dump.path, f"line {number}", "neither a stack nor its counts")


def _parse_legacy(dump: _Dump, lines: Iterator[tuple[int, str]]) -> None:
    for number, line in lines:
        if line.startswith(_MAPS):
            return
        if not line.strip() or line.startswith("#"):
            continue
        found = _RECORD.fullmatch(line)
        if not found:
            raise source.fault(dump.path, f"line {number}", "no `BLOCKS: BYTES [BLOCKS: BYTES] @ ADDRESSES`")
        dump.records.append(_record(dump.path, number, _addresses(dump.path, number, found[5]), found))


def _addresses(path: Path, number: int, text: str) -> tuple[int, ...]:
    words = text.strip()
    if not _ADDRESSES.fullmatch(words):
        raise source.fault(path, f"line {number}", "an address is not hexadecimal")
    return tuple(int(word, 16) for word in words.split()[:MOST_FRAMES])


def _record(path: Path, number: int, addresses: tuple[int, ...], found: re.Match[str]) -> _Record:
    counts = [int(found[group]) for group in range(1, 5)]
    if min(counts) < 0:
        raise source.fault(path, f"line {number}", "a count is negative")
    if counts[1] < counts[0] or bool(counts[1]) != bool(counts[0]):
        raise source.fault(path, f"line {number}", "the bytes do not fit the number of blocks")
    return _Record(addresses, *counts)


class _NamedStacks:
    """Stacks by their functions: addresses of one function and line are one frame."""

    def __init__(self, stacks: Stacks, names: AddressNames) -> None:
        self.stacks = stacks
        self._names = names
        self._chains: dict[int, tuple[int, ...]] = {}
        self._own: set[int] = set()  # places of frames

    def meet(self, addresses: Sequence[int]) -> None:
        for address, chain in self._names.chains(addresses).items():
            self._chains[address] = tuple(map(self.stacks.frame, chain))
            for frame, place in zip(chain, self._chains[address], strict=True):
                if _OWN.match(frame.name) or _OWN_LIBRARY.match(frame.module):
                    self._own.add(place)

    def number(self, addresses: Sequence[int]) -> int:
        stack = [place for address in addresses for place in self._chains[address]]
        own = 0
        while own < len(stack) - 1 and stack[own] in self._own:
            own += 1
        return self.stacks.stack(stack[own:])


@dataclass
class _Sampled:
    """Of one stack; `samples`: live blocks that were sampled, `ever`: all."""

    total: Total
    samples: int
    ever: int


def _totals(dump: _Dump, stacks: _NamedStacks) -> dict[int, _Sampled]:
    found: dict[int, _Sampled] = {}
    for record in dump.records:
        number = stacks.number(record.addresses)
        before = found.get(number) or _Sampled(Total(0.0, 0.0), 0, 0)
        live = _unbiased(record.live_blocks, record.live_bytes, dump.interval)
        ever = _unbiased(record.allocated_blocks, record.allocated_bytes, dump.interval)
        added = (one + more for one, more in zip(before.total, (*live, *ever), strict=True))
        found[number] = _Sampled(
            Total(*added),
            before.samples + record.live_blocks,
            before.ever + max(record.allocated_blocks, record.live_blocks),
        )
    return found


def _live(totals: dict[int, _Sampled]) -> np.ndarray:
    """LIVE: a row a sample, of its stack's mean size; several are one row beyond MOST_ROWS."""
    share = min(1.0, MOST_ROWS / max(sum(one.samples for one in totals.values()), 1))
    parts = [np.zeros(0, LIVE)]
    for number, one in sorted(totals.items()):
        blocks, size = one.total.live_blocks, one.total.live_bytes
        if size > 0 and blocks > 0:
            rows = np.zeros(max(round(one.samples * share), 1), LIVE)
            rows["stack"], rows["size"] = number, max(int(size / blocks), 1)
            # A size is a whole number: its rounding is in the weight, so that the rows sum to the total.
            rows["probability"] = min(1.0, len(rows) * float(rows["size"][0]) / size)
            parts.append(rows)
    return np.concatenate(parts)


def _sampled(
    made: Profile, interval: int, times: Sequence[float], totals: Sequence[dict[int, _Sampled]]
) -> Profile:
    """The profile with the variances of its totals: for n samples of equal blocks, total^2 (1 - p) / n."""
    series = made.series.copy()
    for at, time in enumerate(times):
        span = slice(*np.searchsorted(series["time"], [time, np.nextafter(time, np.inf)]))
        rows = series[span]
        of = [totals[at].get(number) for number in rows["stack"].tolist()]
        for what, samples in (
            ("live", np.array([one.samples if one else 0 for one in of], np.float64)),
            ("allocated", np.array([one.ever if one else 1 for one in of], np.float64)),
        ):
            blocks = rows[f"{what}_blocks"]
            probability = np.clip(samples / np.maximum(blocks, 1e-9), 0.0, 1.0)
            relative = (1 - probability) / np.maximum(samples, 1.0)
            rows[f"{what}_blocks_variance"] = blocks**2 * relative
            rows[f"{what}_bytes_variance"] = rows[f"{what}_bytes"] ** 2 * relative
        rows["samples"] = [one.ever if one else 1 for one in of]
    return replace(made, series=series, interval_bytes=interval)


def _unbiased(blocks: int, size: int, interval: int) -> tuple[float, float]:
    if not interval or not blocks or not size:
        return float(blocks), float(size)
    weight = -1 / math.expm1(-size / blocks / interval)
    return blocks * weight, size * weight


def _lacks(dumps: Sequence[_Dump], names: AddressNames, perf_map: Path | None) -> Iterator[str]:
    yield "the files have one mean size for each stack, and no threads"
    if any(dump.cut for dump in dumps):
        yield "a dump was cut at 1 MiB by gperftools: stacks after that are missing"
    if not names.modules:
        yield "the files have no maps, so functions have no names: give /proc/PID/maps with --maps"
    else:
        yield "native names are by the libraries' files as they are now: a dump has no build-ids to check"
    if perf_map is None:
        yield "Java methods have no names without a perf map (jcmd PID Compiler.perfmap, then --perf-map)"
    for path, why in sorted(names.problems.items())[:6]:
        yield f"{path}: {why}"
