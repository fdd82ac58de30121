"""Sizes that identify blocks of well-known libraries; other code may use the same sizes.

zlib (deflate.h, inflate.h; 15 window bits and memory level 8, which java.util.zip always takes): a deflate
stream has four tables of 65,536 bytes, an inflate stream a state of 7,152 and a window of 32,768.
"""

from __future__ import annotations

from offheap.analysis.native_heap.results import BlockSize

_KNOWN = {
    65_536: "a Deflater's tables (zlib, four each)",
    7_152: "an Inflater's state (zlib)",
    32_768: "an Inflater's window (zlib)",
}


def known_as(size: BlockSize) -> str:
    """The known user of blocks of this size, "" for most sizes."""
    return next((text for asked, text in _KNOWN.items() if size.least <= asked <= size.most), "")
