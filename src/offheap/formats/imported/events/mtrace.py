"""mtrace's logs: what MALLOC_TRACE and mtrace(3) make glibc write.

The source of the format is glibc's malloc/mtrace-impl.c, `tr_where` and the functions below it:

    = Start
    @ OBJECT:(FUNCTION+OFFSET)[ADDRESS] + POINTER SIZE    malloc, calloc, memalign
    @ OBJECT:[ADDRESS] - POINTER                          free
    @ [ADDRESS] < OLD                                     realloc: what was given
    @ [ADDRESS] > NEW SIZE                                and, in the next line, what was returned
    @ [ADDRESS] ! OLD SIZE                                realloc that failed: OLD is still live
    = End                                                 absent when the process was killed

Numbers are hexadecimal.  ADDRESS is relative to where OBJECT is mapped from glibc 2.34 on, absolute before.
A name may hold spaces, so a line is read from its end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap.formats.imported import source
from offheap.formats.imported.events import columns
from offheap.formats.imported.events.call_sites import CallSites
from offheap.formats.imported.events.live_blocks import LiveBlocks
from offheap.formats.imported.profile import Profile
from offheap.formats.imported.stack_tables import (
    MOST_ROWS,
    StackTable,
    Total,
    TotalsAtTime,
    profile,
    times_of,
)
from offheap.proc.maps import Mapping
from offheap.recording.model import LIVE

FORMAT = "mtrace"

LACKS = (
    "mtrace logs no time: the order of events is known, but neither the age of blocks nor a rate within one "
    "log; copies of the log made at different times, imported together, have both",
    "mtrace logs the immediate caller alone: who called that function is not known, and Java callers are not",
    "mtrace logs no threads, no mmap of the program's own, and nothing of what glibc itself keeps",
)

_NIL = int.from_bytes(b"(nil", "little")  # "(nil)": an allocation that failed, and free(NULL)
_MOST_BYTES = np.uint64(1 << 56)  # of one block: no address space of today's machines holds it
_LONGEST_SHOWN = 60  # characters of a line in a message
_BIRTHS, _DEATHS, _NEITHER = b"+>", b"-<", b"!="


def recognises(head: bytes) -> bool:
    """Whether a file begins as mtrace's logs do, or with a line of one (a log whose start was cut off)."""
    first = head.split(b"\n", 1)[0]
    if first == b"= Start":
        return True
    return (
        re.fullmatch(rb"@ .*\[0x[0-9a-f]+\] [-+<>!] (0x[0-9a-f]+|\(nil\))( (0x)?[0-9a-f]+)?", first)
        is not None
    )


def read(files: Sequence[Path], mappings: Sequence[Mapping] = ()) -> Profile:
    """The blocks that are not freed at the end of a log, by caller; several files are copies of one log.

    mappings  of the process (/proc/PID/maps), which name addresses of glibc before 2.34
    """
    sites = CallSites(files[0], mappings)
    times, start, lacking = times_of([source.modified(path) for path in files])
    lacks = [*LACKS, *([lacking] if lacking else [])]
    replayed = []
    for path in files:
        blocks, cut = _replay(path, sites)
        lacks += _doubts(path, blocks, cut)
        # Only the blocks of the last file are needed one by one.
        replayed.append((np.bincount(blocks.sites), np.bincount(blocks.sites, blocks.sizes), blocks))
        if len(replayed) > 1:
            replayed[-2][2].forget()
    stacks = StackTable(files[0])
    of_site = sites.stacks(stacks)
    moments = [
        TotalsAtTime(time, _totals(live, size, blocks, of_site))
        for time, (live, size, blocks) in zip(times, replayed, strict=True)
    ]
    rows = _rows(blocks, of_site) if len(blocks.pointers) <= MOST_ROWS else None
    return profile(FORMAT, stacks, moments, live=rows, lacks=[*lacks, *sites.lacks()], start=start)


def _replay(path: Path, sites: CallSites) -> tuple[LiveBlocks, bool]:
    """(the state at the end, whether the log ends inside a line)."""
    blocks = LiveBlocks(path)
    cut = False
    part: source.WholeLines | None = None
    for part in source.parts(path):
        data = part.data
        if part.cut:
            cut = not data.startswith(b"= End")
            continue  # the line may lack digits of its numbers
        _add(path, np.frombuffer(data, np.uint8), part.line, blocks, sites)
    if part is None or (cut and part.line == 1):
        raise source.fault(path, "line 1", "the file ends within its first line")
    blocks.finish()
    return blocks, cut


def _add(path: Path, block: columns.Bytes, line: int, blocks: LiveBlocks, sites: CallSites) -> None:
    starts, ends = columns.lines(block)
    first_line = np.arange(line, line + len(starts))
    kept = (ends > starts) & (block[starts] != ord("="))
    starts, ends, numbers = starts[kept], ends[kept], first_line[kept]
    if not len(starts):
        return
    spaces = np.flatnonzero(block == columns.SPACE)
    after = np.searchsorted(spaces, ends)
    last = _space(spaces, after - 1, starts)
    middle = _space(spaces, after - 2, starts)
    # OP POINTER: the operation is before the last space; OP POINTER SIZE: before the one before it.
    short = _one_character(block, last, starts) & np.isin(block[np.maximum(last - 1, 0)], _codes(_DEATHS))
    space = np.where(short, last, middle)
    operation = np.where(_one_character(block, space, starts), block[np.maximum(space - 1, 0)], 0)
    long = ~short & np.isin(operation, _codes(_BIRTHS + b"!"))
    pointers, good = columns.hexadecimal(block, space + 1, np.where(short, ends, last))
    nil = _nil(block, space + 1)
    pointers[nil] = 0
    sizes, good_size = columns.hexadecimal(block, last + 1, ends)
    bad = ~((short | (long & good_size)) & (good | nil)) | (~short & ~nil & (sizes >= _MOST_BYTES))
    if bad.any():
        at = int(np.argmax(bad))
        shown = block[starts[at] : ends[at]].tobytes()[:_LONGEST_SHOWN].decode("utf-8", "replace")
        raise source.fault(path, f"line {numbers[at]}", f"not a line of mtrace's: {shown!r}")
    births = np.isin(operation, _codes(_BIRTHS))
    counted = births | short
    # Without a caller the line begins with the operation.
    caller_ends = np.maximum(space - 2, starts)
    site = np.zeros(len(starts), np.uint32)
    site[births] = columns.distinct(block, starts[births], caller_ends[births], sites.number)
    blocks.add(births[counted], pointers[counted], sizes[counted], site[counted])


def _codes(characters: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(characters, np.uint8)


def _space(spaces: columns.Places, index: NDArray[np.int64], starts: columns.Places) -> columns.Places:
    """The place of a space by its index; before the line where the line has none there."""
    place = spaces[np.clip(index, 0, max(len(spaces) - 1, 0))] if len(spaces) else starts - 1
    return np.where((index >= 0) & (place >= starts), place, starts - 1)


def _one_character(block: columns.Bytes, space: columns.Places, starts: columns.Places) -> NDArray[np.bool_]:
    """Whether one character stands alone before the space."""
    alone = (space - 1 == starts) | (block[np.maximum(space - 2, 0)] == columns.SPACE)
    found: NDArray[np.bool_] = (space > starts) & alone
    return found


def _nil(block: columns.Bytes, places: columns.Places) -> NDArray[np.bool_]:
    last = len(block) - 1
    value = np.zeros(len(places), np.uint32)
    for byte in range(4):
        value |= block[np.minimum(places + byte, last)].astype(np.uint32) << np.uint32(8 * byte)
    found: NDArray[np.bool_] = value == _NIL
    return found


def _totals(
    live: NDArray[Any], size: NDArray[Any], blocks: LiveBlocks, of_site: list[int]
) -> dict[int, Total]:
    length = len(blocks.allocated_blocks)
    columns = (_padded(live, length), _padded(size, length), blocks.allocated_blocks, blocks.allocated_bytes)
    totals: dict[int, Total] = {}
    for site in np.flatnonzero(blocks.allocated_blocks).tolist():
        number = of_site[site]
        old = totals.get(number, Total(0, 0))
        totals[number] = Total(*(float(a + column[site]) for a, column in zip(old, columns, strict=True)))
    return totals


def _padded(values: NDArray[Any], length: int) -> NDArray[Any]:
    return np.pad(values, (0, length - len(values)))


def _rows(blocks: LiveBlocks, of_site: list[int]) -> NDArray[np.void]:
    live = np.zeros(len(blocks.pointers), LIVE)
    if len(live):
        live["stack"] = np.array(of_site, np.uint32)[blocks.sites]
    live["size"] = blocks.sizes
    live["probability"] = 1.0
    return live


def _doubts(path: Path, blocks: LiveBlocks, cut: bool) -> list[str]:
    doubts = []
    if cut:
        doubts.append(f"{path.name} ends inside a line, which is left out: blocks freed later count as live")
    if blocks.unknown_frees:
        doubts.append(
            f"{path.name} frees {blocks.unknown_frees:,} blocks that it did not see allocated: it began later"
        )
    if blocks.replaced:
        doubts.append(f"{path.name} lacks the free of {blocks.replaced:,} blocks, whose addresses came again")
    return doubts
