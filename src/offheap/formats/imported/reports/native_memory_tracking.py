"""Native Memory Tracking's reports: `jcmd PID VM.native_memory summary` or `detail` of JDK 8 to 27.

offheap.jvm.texts.nmt reads the categories.  The call sites of `detail` are read here; their source is
HotSpot's src/hotspot/share/nmt/memReporter.cpp (before JDK 22: services/memReporter.cpp), MemDetailReporter:

    [0x00007f3a0ccd584a]G1ConcurrentMark::G1ConcurrentMark(...)+0x4fa      innermost first, four at most
    [0x00007f39f7944f85]
                                 (malloc=2097152 type=GC #2)

A file may hold several reports, one after the other, as a loop in a shell appends them.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from offheap.formats.imported import source
from offheap.formats.imported.profile import Profile
from offheap.formats.imported.stack_tables import (
    TOTAL_BYTES,
    StackTable,
    Total,
    TotalsAtTime,
    profile,
    times_of,
)
from offheap.jvm.texts import nmt
from offheap.recording.model import MMAP, Frame
from offheap.symbols.names import demangle, plain

FORMAT = "nmt"

LACKS = (
    "Native Memory Tracking counts what the JVM itself asks for, direct buffers and Unsafe included: memory "
    "that native libraries take from malloc or mmap is not in it",
    "Native Memory Tracking has committed memory, which is not all resident, no births, no threads, and "
    "nothing that was freed",
)
NO_SITES = "The report is a summary: a category is one stack, its callers are not known (detail has them)"
SITES = (
    "The call sites of detail have at most four frames and no Java names; what a category has beyond its "
    "listed sites, and its mmap, is a stack of its own"
)
ROUNDED = "The report's numbers are rounded to {unit}: ask for scale=b to have them exact"

_HEADING = "Native Memory Tracking:"
_SITE = re.compile(
    r"\s*\({1,2}malloc=(\d{1,18})([KMG]?B)?(?: [+-]\d+(?:[KMG]?B)?)? (?:type|tag)=(\S.*?) #(\d{1,12})\b.*",
    re.ASCII,
)
_FRAME = re.compile(r"\[0x([0-9a-fA-F]{1,16})\]\s?(.*)", re.ASCII)
_OFFSET = re.compile(r"\+0x[0-9a-f]+$", re.ASCII)
_PID = re.compile(r"(?:^|\n)(\d{1,10}):\s*\n\s*$")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?", re.ASCII)
_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_TAIL = 400  # characters before a report's heading in which its time and the PID stand
_MOST = 1 << 56  # bytes or blocks of one category
_MOST_FRAMES = 16  # of a call site; HotSpot prints four
_CATEGORY_BYTES = 400  # in memory


def recognises(head: bytes) -> bool:
    """Whether a report begins in the head; a few lines of a shell may stand before it."""
    text = head.decode("utf-8", "replace")
    at = text.find(_HEADING)
    return at >= 0 and re.search(r"^Total: *reserved=", text[at:], re.MULTILINE) is not None


def read(files: Sequence[Path]) -> Profile:
    """Every report of every file as one moment: a category is one stack of malloc and one of mmap."""
    stacks = StackTable(files[0])
    found: list[tuple[float, float, dict[int, Total]]] = []  # (time of its own or 0, the file's, totals)
    lacks = dict.fromkeys(LACKS)
    pid = 0
    for path in files:
        modified = source.modified(path)
        text = _Text(path)
        count = 0
        for before, lines in text.reports():
            sites = _Sites(stacks, text)
            report = nmt.parse_lines(sites.passing(lines), with_regions=False)
            if report is None:
                continue
            count += 1
            if name := _impossible(report):
                raise source.fault(
                    path,
                    f"line {sites.lines.get(name, text.line)}",
                    f"category {name} has more bytes or blocks than an address space holds",
                )
            totals = _totals(report, sites, stacks)
            stacks.charge(TOTAL_BYTES * len(totals))
            found.append((_time(before), modified, totals))
            lacks[SITES if sites.totals else NO_SITES] = None
            if report.unit > 1:
                lacks[ROUNDED.format(unit=f"{report.unit >> 10} KiB")] = None
            if match := _PID.search(before):
                pid = int(match[1])
        if not count:
            raise source.fault(
                path,
                f"line {text.first}",
                "no report of Native Memory Tracking, which has a line Total: reserved=..., committed=...",
                "start the JVM with -XX:NativeMemoryTracking=summary, then jcmd PID VM.native_memory summary "
                "scale=b",
            )
    own = all(time for time, _, _ in found)
    times, start, lacking = times_of([time if own else modified for time, modified, _ in found])
    if lacking:
        lacks[lacking] = None
    moments = [TotalsAtTime(time, totals) for time, (_, _, totals) in zip(times, found, strict=True)]
    return profile(FORMAT, stacks, moments, lacks=list(lacks), start=start, pid=pid)


class _Text:
    """first: the line of the first report, 1 if there is none; line: the last one that was read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.first = self.line = 1

    def reports(self) -> Iterator[tuple[str, Iterator[str]]]:
        """(the text before the heading, the report's lines, to be read before the next) of each report."""
        before = ""
        for report, pieces in groupby(self._numbered(), key=itemgetter(0)):
            tail = _Tail()
            lines = tail.passing(text for _, text in pieces)
            if report:
                yield before, lines
            for _ in lines:  # what the reader left
                pass
            before = tail.text

    def _numbered(self) -> Iterator[tuple[int, str]]:
        """(number of the report, line): 0 for what stands before the first."""
        report = 0
        for number, line in source.lines(self._path):
            self.line = number
            if _HEADING not in line:
                yield report, line
                continue
            first, *more = line.split(_HEADING)
            yield report, first
            for rest in more:
                if not report:
                    self.first = number
                report += 1
                yield report, rest


class _Tail:
    """The end of the lines that have passed."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_TAIL)

    def passing(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            self._lines.append(line[-_TAIL:])
            yield line

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)[-_TAIL:]


def _impossible(report: nmt.Report) -> str:
    """The first category with more than any address space holds; "" without one."""
    for one in report.categories.values():
        if max(one.malloc + one.arena + one.overhead, one.malloc_count, one.mmap_committed) > _MOST:
            return one.name
    return ""


def _time(before: str) -> float:
    """The last ISO 8601 time before a report, seconds since the epoch; 0.0 without one."""
    found = _TIME.findall(before)
    if not found:
        return 0.0
    try:
        text = found[-1].replace(",", ".").replace("Z", "+00:00")
        time = datetime.fromisoformat(re.sub(r"\.\d+", "", text).replace(" ", "T"))
    except ValueError:
        return 0.0
    return (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp()


class _Sites:
    """What a report has beside its categories.

    totals  of the malloc sites of a detail report, by category and stack
    lines   of the categories, by name: the last one counts
    """

    def __init__(self, stacks: StackTable, text: _Text) -> None:
        self._text = text
        self.lines: dict[str, int] = {}
        self.totals: dict[tuple[str, int], Total] = {}
        self._stacks = stacks
        self._frames: list[Frame] = []

    def passing(self, lines: Iterable[str]) -> Iterator[str]:
        """The lines of a report, once their sites are counted."""
        for line in lines:
            if line.startswith("-"):
                self._stacks.charge(_CATEGORY_BYTES)
                self.lines[line.partition(" (")[0].lstrip("- ")] = self._text.line
            self._add(line.rstrip())
            yield line

    def _add(self, line: str) -> None:
        if not line:
            self._frames = []
            return
        if match := _FRAME.fullmatch(line):
            if len(self._frames) < _MOST_FRAMES:
                self._frames.append(_frame(int(match[1], 16), match[2]))
            return
        if self._frames and (match := _SITE.fullmatch(line)):
            category, size = match[3], int(match[1]) * _UNITS[match[2] or ""]
            number = self._stacks.of_frames([*self._frames, _category(category)])
            old = self.totals.get((category, number))
            if old is None:
                self._stacks.charge(TOTAL_BYTES)
                old = Total(0, 0)
            self.totals[category, number] = Total(
                old.live_blocks + float(match[4]), old.live_bytes + float(size)
            )
        self._frames = []


def _frame(address: int, text: str) -> Frame:
    name = _OFFSET.sub("", text.split("  (")[0].split(" in lib")[0].strip())
    if not name:
        return Frame("code outside the JVM's libraries", "unknown")
    return Frame(demangle(plain(name)), "jvm", "libjvm.so")


def _category(name: str) -> Frame:
    return Frame(f"NMT category {name}", "jvm", "libjvm.so")


def _totals(report: nmt.Report, sites: _Sites, stacks: StackTable) -> dict[int, Total]:
    totals: dict[int, Total] = {}
    of_category: dict[str, list[tuple[int, Total]]] = {}
    for (name, number), total in sites.totals.items():
        of_category.setdefault(name, []).append((number, total))
    for category in report.categories.values():
        size = category.malloc + category.arena + category.overhead
        count = category.malloc_count
        listed = of_category.get(category.name, [])
        if sum(total.live_bytes for _, total in listed) > size:
            # Arena Chunk: its sites have the chunks of arenas, which count in the arenas' categories.
            listed = []
        for number, total in listed:
            old = totals.get(number, Total(0, 0))
            totals[number] = Total(old.live_blocks + total.live_blocks, old.live_bytes + total.live_bytes)
            size -= int(total.live_bytes)
            count -= int(total.live_blocks)
        frame = _category(category.name)
        if size > 0:
            totals[stacks.of_frames([frame])] = Total(float(max(count, 1)), float(size))
        if category.mmap_committed > 0:
            totals[stacks.of_frames([frame], MMAP)] = Total(1.0, float(category.mmap_committed))
    return totals
