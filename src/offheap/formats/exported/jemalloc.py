"""jemalloc's heap profile with its symbols, as `jeprof --raw` writes one: it is read without binaries.

    --- symbol
    binary=NAME
    0xADDRESS FUNCTION
    ---
    --- heap
    heap_v2/0
      t*: LIVE: BYTES [ALLOCATED: BYTES]
    @ 0xADDRESS ...                innermost first
      t*: LIVE: BYTES [ALLOCATED: BYTES]

The interval of 0 bytes says that the figures are totals: jeprof scales nothing.  With 1 it would multiply
blocks of one byte by 1.58 and fail at a stack of blocks without a byte.  Addresses are invented, one for
each frame.
"""

from __future__ import annotations

from offheap.formats.exported.content.samples import Samples
from offheap.report.text.printable import printable

_FIRST, _STEP = 0x1000, 0x10  # readers look a caller up at its address - 1


def jemalloc(samples: Samples) -> bytes:
    addresses: dict[str, int] = {}
    records = []
    values = [
        samples.values[name].tolist()
        for name in ("inuse_objects", "inuse_space", "alloc_objects", "alloc_space")
    ]
    for place in range(len(samples.stacks)):
        stack = []
        for frame in samples.frames(place):
            stack.append(addresses.setdefault(printable(frame.name), _FIRST + _STEP * len(addresses)))
        records.append(
            "@ " + " ".join(f"0x{address:x}" for address in stack) + _counts(*(v[place] for v in values))
        )
    info = samples.recording.info
    lines = ["--- symbol", f"binary={printable(info.main_class or str(info.pid))}"]
    lines += [f"0x{address - gap:016x} {name}" for name, address in addresses.items() for gap in (0, 1)]
    lines += ["---", "--- heap", "heap_v2/0" + _counts(*map(sum, values)), *records]
    return "\n".join([*lines, ""]).encode("utf-8", "replace")


def _counts(objects: int, space: int, all_objects: int, all_space: int) -> str:
    return f"\n  t*: {objects}: {space} [{all_objects}: {all_space}]"
