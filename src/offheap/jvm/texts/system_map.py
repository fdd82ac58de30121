"""`System.map` of JDK 21 and later: the JVM's own list of mappings, tagged with their use.

The tags need Native Memory Tracking.  The kernel merges neighbouring mappings: a mapping may
have several tags, and may hold memory that is not the JVM's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(
    r"0x([0-9a-f]{1,16}) ?- ?0x([0-9a-f]{1,16}) +(\d+) +([r-][w-][x-][ps]) +(\d+) +\d+ +\d*[KMG]?B? +"
    r"(\S+) +(\S+) +(.*?)\s*",
    re.ASCII,
)
_TAG = re.compile(r"[A-Z][A-Z0-9_]*(?:-.*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class TaggedMapping:
    """`tags` are the JVM's words: JAVAHEAP, META, CLASS, GC, STACK-<tid>-<name> ...; `rss` is in bytes."""

    start: int
    end: int
    rss: int
    tags: tuple[str, ...]
    file: str


def parse(text: str) -> list[TaggedMapping]:
    """Mappings with a tag: none without Native Memory Tracking, on JDK 17, and from other text."""
    found: list[TaggedMapping] = []
    for line in text.split("\n"):
        match = _LINE.fullmatch(line)
        if not match:
            continue
        start, end = int(match[1], 16), int(match[2], 16)
        tags = tuple(tag for tag in match[7].split(",") if _TAG.fullmatch(tag))
        if tags and start < end:
            found.append(TaggedMapping(start, end, int(match[5]), tags, "" if match[8] == "-" else match[8]))
    return found
