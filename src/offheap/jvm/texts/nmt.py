"""Native Memory Tracking's text, as `VM.native_memory summary` and `detail` of JDK 8 to 27 print it.

Names of categories are an open set: every release adds some.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_SIZE = r"(\d{1,19})([KMG]?B)?(?: [+-]\d+(?:[KMG]?B)?)?"  # in a diff the difference follows
_CATEGORY = re.compile(rf"- +(\S.*?) \(reserved={_SIZE}, committed={_SIZE}.*", re.ASCII)
_TOTAL = re.compile(rf"Total: *reserved={_SIZE}, committed={_SIZE}.*", re.ASCII)
_MALLOC = re.compile(rf" +\(malloc={_SIZE}(?: (?:tag|type)=[^#)]*)?(?:,? *#?(\d{{1,18}}))?[ )].*", re.ASCII)
_PEAK = re.compile(rf"[(, ]peak={_SIZE} #(\d{{1,18}})", re.ASCII)
_ARENA = re.compile(rf" +\(arena={_SIZE},? #?(\d+).*", re.ASCII)
_OVERHEAD = re.compile(rf" +\(tracking overhead={_SIZE}.*", re.ASCII)
_MMAP = re.compile(rf" +\((?:mmap|stack): reserved={_SIZE}, committed={_SIZE}.*", re.ASCII)
_COUNT = re.compile(r" +\((classes|threads?) #(\d{1,9}).*", re.ASCII)
_REGION = re.compile(
    rf"\s*\[0x([0-9a-f]{{1,16}}) - 0x([0-9a-f]{{1,16}})\] (reserved(?: and committed)?|committed) {_SIZE}"
    r"(?: for (\S.*?))?(?: from)?\s*",
    re.ASCII,
)
# These sections list offsets into the file behind ZGC's heap, not addresses (JDK 24 and later).
_NO_ADDRESSES = ("Memory file details", "Memory map of ")


@dataclass(frozen=True, slots=True)
class Category:
    """Bytes.  malloc returned malloc + arena + overhead for the category.

    malloc          without NMT's own header on each block
    arena           in chunks from malloc; Arena Chunk's own malloc is only the chunks that no arena uses
    overhead        NMT's headers, all in the category Native Memory Tracking
    malloc_peak     the highest value of malloc, JDK 21 and later; None before
    mmap_committed  committed, not resident; thread stacks count as mmap
    """

    name: str
    reserved: int = 0
    committed: int = 0
    malloc: int = 0
    malloc_count: int = 0
    arena: int = 0
    overhead: int = 0
    mmap_reserved: int = 0
    mmap_committed: int = 0
    malloc_peak: int | None = None
    malloc_peak_count: int | None = None


@dataclass(frozen=True, slots=True)
class Region:
    """Addresses [start, end) that the JVM reserved for a category, or committed inside a reserved region."""

    start: int
    end: int
    committed: bool
    category: str


@dataclass(frozen=True, slots=True)
class Report:
    """`regions` only in detail; `unit` is the scale of the report in bytes: 1 means no rounding."""

    reserved: int
    committed: int
    categories: dict[str, Category]
    regions: list[Region] = field(default_factory=list)
    classes: int = 0
    threads: int = 0
    unit: int = 1


def parse(text: str) -> Report | None:
    """None when tracking is off or shut down, or the text is no report: the result code is 0 then, too."""
    return parse_lines(_lines(text))


def parse_lines(lines: Iterable[str], with_regions: bool = True) -> Report | None:
    """The same of lines, one of which is in memory at a time."""
    total: tuple[int, int] | None = None
    unit = 1
    categories: dict[str, Category] = {}
    regions: list[Region] = []
    counts = {"classes": 0, "thread": 0, "threads": 0}
    name = ""
    addresses = True
    for line in lines:
        line = line.rstrip()
        if not line:
            continue
        if line.startswith(_NO_ADDRESSES):
            addresses = False
        elif match := _TOTAL.fullmatch(line):
            total = (_bytes(match, 1), _bytes(match, 3))
            unit = _UNITS[match[2] or ""]
        elif match := _CATEGORY.fullmatch(line):
            name = match[1]
            categories[name] = Category(name, _bytes(match, 2), _bytes(match, 4))
        elif with_regions and addresses and (match := _REGION.fullmatch(line)):
            region = _region(match, regions)
            if region:
                regions.append(region)
        elif name in categories and line.startswith(" "):
            categories[name] = _with(categories[name], line)
            if match := _COUNT.fullmatch(line):
                counts[match[1]] = int(match[2])
        else:
            name = ""
    if total is None:
        return None
    threads = counts["thread"] or counts["threads"]
    return Report(*total, categories, regions, counts["classes"], threads, unit)


def _lines(text: str) -> Iterator[str]:
    """Without a list: one of short lines takes 20 times the memory of the text."""
    at = 0
    while (end := text.find("\n", at)) >= 0:
        yield text[at:end]
        at = end + 1
    yield text[at:]


def _with(category: Category, line: str) -> Category:
    values = {name: getattr(category, name) for name in Category.__dataclass_fields__}
    if match := _MALLOC.fullmatch(line):
        values.update(malloc=_bytes(match, 1), malloc_count=int(match[3] or 0))
        if peak := _PEAK.search(line):
            values.update(malloc_peak=_bytes(peak, 1), malloc_peak_count=int(peak[3]))
        elif "at peak" in line:
            values.update(malloc_peak=values["malloc"], malloc_peak_count=values["malloc_count"])
    elif match := _ARENA.fullmatch(line):
        values.update(arena=_bytes(match, 1))
    elif match := _OVERHEAD.fullmatch(line):
        values.update(overhead=_bytes(match, 1))
    elif match := _MMAP.fullmatch(line):
        values.update(mmap_reserved=_bytes(match, 1), mmap_committed=_bytes(match, 3))
    else:
        return category
    return Category(**values)


def _region(match: re.Match[str], before: list[Region]) -> Region | None:
    start, end = int(match[1], 16), int(match[2], 16)
    if start >= end:
        return None
    committed = match[3] != "reserved"
    # A committed part names no category: it lies inside the region printed before it.
    category = match[6] or next((r.category for r in before[-1:] if r.start <= start and end <= r.end), "")
    if not category:
        category = next((r.category for r in reversed(before) if r.start <= start and end <= r.end), "")
    return Region(start, end, committed, category) if category else None


def _bytes(match: re.Match[str], group: int) -> int:
    return int(match[group]) * _UNITS[match[group + 1] or ""]
