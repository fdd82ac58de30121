"""Which setting bounds what a known library keeps: what fills and may end is compared with it."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from offheap.recording.model import Frame


@dataclass(frozen=True, slots=True)
class Capacity:
    """setting       as the library's documentation names it
    module, java  patterns of its frames: its file, its classes
    """

    library: str
    setting: str
    module: str = ""
    java: str = ""

    def bounds(self, text: str, *, java: bool) -> bool:
        """Whether it is the bound of a Java method of that name, or of a native library's functions."""
        pattern = self.java if java else self.module
        return bool(pattern and re.match(pattern, text))


_CAPACITIES = (
    Capacity(
        "RocksDB",
        "the block cache's capacity (setBlockCache), and write_buffer_size times max_write_buffer_number",
        r"librocksdb",
        r"org\.rocksdb\.",
    ),
    Capacity("SQLite", "PRAGMA cache_size", r"libsqlite", r"org\.sqlite\."),
    Capacity("DuckDB", "SET memory_limit", r"libduckdb", r"org\.duckdb\."),
    Capacity("LMDB", "the map size of the environment (setMapSize)", r"liblmdb", r"org\.lmdbjava\."),
    Capacity("LevelDB", "Options.cacheSize", r"libleveldb", r"org\.fusesource\.leveldbjni\."),
    Capacity(
        "Netty",
        "-Dio.netty.maxDirectMemory, and the arenas and chunk size of PooledByteBufAllocator",
        java=r"io\.netty\.(?:buffer|util)\.",
    ),
    Capacity("Lucene", "the size of the index that MMapDirectory maps", java=r"org\.apache\.lucene\.store\."),
    Capacity("Arrow", "the limit of the RootAllocator", java=r"org\.apache\.arrow\.memory\."),
    Capacity("JavaCPP", "-Dorg.bytedeco.javacpp.maxBytes", java=r"org\.bytedeco\.javacpp\."),
    Capacity("Ehcache", "the offheap size of the resource pools", java=r"org\.(?:ehcache|terracotta)\."),
    Capacity("Chronicle Map", "entries times the size of an entry", java=r"net\.openhft\."),
    Capacity("Ignite", "maxSize of the data regions", java=r"org\.apache\.ignite\."),
    Capacity(
        "ONNX Runtime",
        "the memory arena and pattern of SessionOptions",
        r"libonnxruntime",
        r"ai\.onnxruntime\.",
    ),
    # The JDK's own come last: a library that uses them has its own setting.
    Capacity(
        "the cache of direct buffers that each thread has for its channels",
        "-Djdk.nio.maxCachedBufferSize",
        java=r"sun\.nio\.ch\.Util",
    ),
    Capacity("direct buffers", "-XX:MaxDirectMemorySize", java=r"java\.nio\.(?:DirectByteBuffer|Bits)\."),
)


def capacity(stack: Sequence[Frame]) -> Capacity | None:
    """What bounds the first library in the list that the stack goes through; None: no such library."""
    found = [
        _place(frame.name, java=True) if frame.kind == "java" else _place(frame.module, java=False)
        for frame in stack
    ]
    places = [place for place in found if place is not None]
    return _CAPACITIES[min(places)] if places else None


@functools.lru_cache(maxsize=1 << 14)  # methods and libraries: stacks share a few thousand
def _place(text: str, *, java: bool) -> int | None:
    """Where the first bound of such functions stands in the list."""
    return next((place for place, one in enumerate(_CAPACITIES) if one.bounds(text, java=java)), None)


def advice(stack: Sequence[Frame]) -> str:
    """What to compare the growth with; "" of a library that is not known."""
    known = capacity(stack)
    return f"if it is a cache, compare with what bounds {known.library}: {known.setting}" if known else ""
