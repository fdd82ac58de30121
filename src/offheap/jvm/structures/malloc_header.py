"""The header that Native Memory Tracking puts before each block that the JVM takes from malloc.

16 bytes (src/hotspot/share/services/mallocTracker.hpp, from JDK 20 on nmt/mallocHeader.hpp):
JDK 17 and later  size 8, marker 4, tag 1, unused 1, canary 2; two more bytes follow the block
JDK 11            size 8, tag 1, call site 7; no canary: the size must fit the chunk
Blocks of the zip library, of JNI libraries and of glibc itself have no such header.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from offheap.jvm.texts.nmt import Report

HEADER_BYTES = 16
CANARY = 0xE99E
_GLIBC_HEADER_BYTES = 8
# glibc rounds up to 16, gives at least 32, and leaves a remainder under 32 when a block shrinks.
_MOST_SLACK = 32
_MOST_TAGS = 64
_UNTAGGED = np.int16(-1)


def tags(size: NDArray[np.int64], first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.int16]:
    """The tag of each chunk that the JVM allocated with tracking on, -1 for others.

    `size` is glibc's size of the chunk, `first` and `second` are its first 16 bytes.
    """
    usable = size - _GLIBC_HEADER_BYTES - HEADER_BYTES
    fits = first <= np.maximum(usable, 0).astype(np.uint64)
    with_canary = fits & ((second >> np.uint64(48)) == CANARY)
    if with_canary.any():
        return np.where(with_canary, _low_byte(second >> np.uint64(32)), _UNTAGGED)
    # Chunks in separate mappings have up to a page of slack.
    slack = np.where(size % 4096 == 0, 4096 + _MOST_SLACK, _MOST_SLACK)
    tag = _low_byte(second)
    found = fits & (first > 0) & (usable - first.astype(np.int64) < slack) & (tag < _MOST_TAGS)
    return np.where(found, tag, _UNTAGGED)


def _low_byte(words: NDArray[np.uint64]) -> NDArray[np.int16]:
    # The tags are signed because numpy has no integer type for both uint64 and -1.
    byte: NDArray[np.int16] = (words & np.uint64(0xFF)).astype(np.int16)
    return byte


def name_tags(walked: Sequence[tuple[int, int, int]], report: Report) -> dict[int, str]:
    """Names of the tags in (tag, blocks, bytes without headers), in order of tags.

    The numbers differ between releases, but a report lists its categories in the order of tags: the best
    alignment of both sequences gives the names, so a new release needs no new table.
    """
    arenas = sum(category.arena for category in report.categories.values())
    named = [
        # Arena chunks have their own tag, but the report counts them in the category that uses them.
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
    """1 for equal blocks or bytes, less with growing difference; 0 when one is twice the other."""
    return max(
        2 * min(one, other) / max(one, other, 1) - 1 if one and other else 0.0
        for one, other in zip((*some, 0), (*others, 0), strict=True)
    )
