"""`System.native_heap_info` of JDK 21 and later: glibc's malloc_info(3), to check a walk against.

The sums at the end of its XML are taken: free chunks and tops count in `fast` and `rest`, chunks in
threads' caches do not, and blocks in mappings of their own come apart as `mmap`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOTAL = re.compile(
    r'<total type="(fast|rest|mmap)" count="(\d{1,18})" size="(\d{1,18})"/>'
    r'|<system type="(current)" (size)="(\d{1,18})"/>',
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class MallocInfo:
    """Bytes: what arenas have opened, the free part of that, and blocks in mappings of their own."""

    system: int
    free: int
    mapped: int
    mapped_count: int

    @property
    def in_use(self) -> int:
        """Chunks in use and in caches, with their headers, and the tables of arenas."""
        return self.system - self.free + self.mapped


def parse(text: str) -> MallocInfo | None:
    """None when it is not glibc's answer, or the text is cut off."""
    # Each heap has such lines as well: those after the last heap are the sums.
    _, closed, sums = text.rpartition("</heap>")
    found: dict[str, tuple[int, int]] = {}
    for match in _TOTAL.finditer(sums if closed else ""):
        name = match[1] or match[4]
        found.setdefault(name, (int(match[2] or 0), int(match[3] or match[6])))
    if not {"rest", "mmap", "current"} <= found.keys():
        return None
    fast = found.get("fast", (0, 0))[1]  # glibc 2.43 has no fastbins
    return MallocInfo(found["current"][1], fast + found["rest"][1], found["mmap"][1], found["mmap"][0])
