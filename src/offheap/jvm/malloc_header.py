"""The header that Native Memory Tracking puts before each block that the JVM takes from malloc.

16 bytes (src/hotspot/share/services/mallocTracker.hpp, from JDK 20 on nmt/mallocHeader.hpp):
JDK 17 and later  size 8, marker 4, tag 1, unused 1, canary 2; two more bytes follow the block
JDK 11            size 8, tag 1, where it came from 7; no canary: there the size must fit the chunk
All of the zip library, of JNI libraries and of glibc itself have no such header.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from offheap.jvm.nmt import Report

HEADER_BYTES = 16
CANARY = 0xE99E
_GLIBC_HEADER_BYTES = 8
# glibc rounds up to 16, gives 32 at least, and leaves a remainder under 32 where a block shrank.
_MOST_SLACK = 32
_MOST_TAGS = 64
_UNTAGGED = np.int16(-1)


def tags(size: NDArray[np.int64], first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.int16]:
    """The tag of each chunk that the JVM allocated under tracking, -1 for others.

    `size` is glibc's of the chunk, `first` and `second` its first 16 bytes.
    """
    usable = size - _GLIBC_HEADER_BYTES - HEADER_BYTES
    fits = first <= np.maximum(usable, 0).astype(np.uint64)
    with_canary = fits & ((second >> np.uint64(48)) == CANARY)
    if with_canary.any():
        return np.where(with_canary, _low_byte(second >> np.uint64(32)), _UNTAGGED)
    # Page-sized slack: chunks in mappings of their own.
    slack = np.where(size % 4096 == 0, 4096 + _MOST_SLACK, _MOST_SLACK)
    tag = _low_byte(second)
    found = fits & (first > 0) & (usable - first.astype(np.int64) < slack) & (tag < _MOST_TAGS)
    return np.where(found, tag, _UNTAGGED)


def _low_byte(words: NDArray[np.uint64]) -> NDArray[np.int16]:
    # Signed before it meets -1: numpy has no integer type for both uint64 and a negative number.
    byte: NDArray[np.int16] = (words & np.uint64(0xFF)).astype(np.int16)
    return byte


def name_tags(walked: Sequence[tuple[int, int, int]], report: Report) -> dict[int, str]:
    """Names of the tags in (tag, blocks, bytes without headers), which must be in order.

    Numbers differ between releases, but a report lists its categories in their order: the alignment
    of both that fits best is taken, so that a new release needs no new table.
    """
    arenas = sum(category.arena for category in report.categories.values())
    named = [
        # Chunks of arenas have a tag of their own, while the report counts them where they are used.
        (name, category.malloc_count, category.malloc + (arenas if name == "Arena Chunk" else 0))
        for name, category in report.categories.items()
    ]
    best = [[0.0] * (len(named) + 1) for _ in range(len(walked) + 1)]
    for i, (_, *found) in reversed(list(enumerate(walked))):
        for j, (_, *told) in reversed(list(enumerate(named))):
            best[i][j] = max(best[i + 1][j], best[i][j + 1], best[i + 1][j + 1] + _alike(found, told))
    names: dict[int, str] = {}
    i = j = 0
    while i < len(walked) and j < len(named):
        alike = _alike(walked[i][1:], named[j][1:])
        if alike and best[i][j] == best[i + 1][j + 1] + alike:
            names[walked[i][0]] = named[j][0]
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return names


def _alike(some: Sequence[int], others: Sequence[int]) -> float:
    """1 for equal blocks or bytes, less the further apart both are; 0 where one is twice the other."""
    return max(
        2 * min(one, other) / max(one, other, 1) - 1 if one and other else 0.0
        for one, other in zip((*some, 0), (*others, 0), strict=True)
    )
