"""heaptrack's data, gzipped, for heaptrack_print and heaptrack_gui: what was allocated and freed, over time.

Format: heaptrack's src/analyze/accumulatedtracedata.cpp.  Numbers are hexadecimal; indices of strings,
addresses and traces begin at 1, 0 is none; of allocations they begin at 0:

    v VERSION FORMAT       X COMMAND              I PAGE_SIZE PAGES
    s STRING               i ADDRESS MODULE FUNCTION FILE LINE [FUNCTION FILE LINE]... innermost first
    t ADDRESS PARENT       a SIZE TRACE           + ALLOCATION            - ALLOCATION
    c MILLISECONDS         R RSS_PAGES
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import numpy as np

from offheap.formats.exported.content.births_and_frees import EqualBlocks, births_and_frees
from offheap.formats.exported.content.call_tree import CallTree
from offheap.formats.exported.content.samples import LEVEL, Samples, at_most_64_bits, text
from offheap.report.text.printable import printable

_VERSION, _FORMAT = 0x10200, 2  # the first that read inlined functions
_PAGE = 4096  # bytes
_FIRST, _STEP = 0x1000, 0x10  # addresses are invented, one for each call


def heaptrack(samples: Samples) -> bytes:
    return gzip.compress("\n".join([*_lines(samples), ""]).encode("utf-8", "replace"), LEVEL, mtime=0)


def _lines(samples: Samples) -> Iterator[str]:
    info = samples.recording.info
    yield f"v {_VERSION:x} {_FORMAT:x}"
    yield "X " + printable(" ".join(info.command_line) or info.main_class or f"pid {info.pid}")
    yield f"I {_PAGE:x} {at_most_64_bits(info.memory_limit) // _PAGE:x}"
    tree = CallTree(samples)
    yield from _calls(tree)
    over_time = births_and_frees(samples)
    numbers: dict[tuple[int, int], int] = {}

    def event(sign: str, place: int, blocks: EqualBlocks) -> Iterator[str]:
        key = tree.leaves[place] + 1, blocks.size
        if key not in numbers:
            numbers[key] = len(numbers)
            yield f"a {blocks.size:x} {tree.leaves[place] + 1:x}"
        if blocks.number:
            yield "\n".join([sign.format(numbers[key])] * blocks.number)

    rss = _rss(samples)
    for moment in over_time:
        yield f"c {round(max(moment.time, 0.0) * 1000):x}"
        while rss and rss[0][0] <= moment.time:
            yield f"R {rss.pop(0)[1]:x}"
        # Frees come first, so that no sum exceeds the snapshots.
        for place, blocks in moment.freed:
            yield from event("- {:x}", place, blocks)
        for place, blocks in moment.passing:
            yield from event("+ {0:x}\n- {0:x}", place, blocks)
        for place, blocks in moment.born:
            yield from event("+ {:x}", place, blocks)


def _rss(samples: Samples) -> list[tuple[float, int]]:
    process = samples.recording.process
    read = process[process["rss_bytes"] > 0]
    return list(zip(read["time"].tolist(), (read["rss_bytes"] // np.uint64(_PAGE)).tolist(), strict=True))


def _calls(tree: CallTree) -> Iterator[str]:
    """Strings, addresses and traces; a trace's number is that of its node, and 1."""
    strings = dict[str, int]()
    for number, call in enumerate(tree.calls):
        words = []
        for name in (call[-1].module, *(part for frame in call for part in (frame.name, frame.file))):
            shown = printable(text(name))
            if shown and shown not in strings:
                strings[shown] = len(strings) + 1
                yield f"s {shown}"
            words.append(strings.get(shown, 0))
        module, *functions = words
        rest = " ".join(
            f"{functions[2 * at]:x} {functions[2 * at + 1]:x} {frame.line:x}" for at, frame in enumerate(call)
        )
        yield f"i {_FIRST + _STEP * number:x} {module:x} {rest}"
    for number, parent in tree.nodes:
        yield f"t {number + 1:x} {parent + 1:x}"
