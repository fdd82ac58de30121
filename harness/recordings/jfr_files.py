"""Small JFR files as async-profiler writes them, with chosen events: what no real program gives at will."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

TYPES: dict[str, tuple[int, tuple[tuple[str, str, bool], ...]]] = {
    "long": (1001, ()),
    "int": (1002, ()),
    "boolean": (1003, ()),
    "java.lang.String": (20, ()),
    "java.lang.Thread": (
        22,
        (("osName", "java.lang.String", False), ("javaName", "java.lang.String", False)),
    ),
    "java.lang.Class": (21, (("name", "jdk.types.Symbol", True),)),
    "jdk.types.Symbol": (31, (("string", "java.lang.String", False),)),
    "jdk.types.Method": (28, (("type", "java.lang.Class", True), ("name", "jdk.types.Symbol", True))),
    "jdk.types.FrameType": (24, (("description", "java.lang.String", False),)),
    "jdk.types.StackTrace": (
        26,
        (("truncated", "boolean", False), ("frames", "jdk.types.StackFrame[]", False)),
    ),
    "jdk.types.StackFrame": (
        27,
        (
            ("method", "jdk.types.Method", True),
            ("lineNumber", "int", False),
            ("bytecodeIndex", "int", False),
            ("type", "jdk.types.FrameType", True),
        ),
    ),
    "profiler.Malloc": (
        100,
        (
            ("startTime", "long", False),
            ("eventThread", "java.lang.Thread", True),
            ("stackTrace", "jdk.types.StackTrace", True),
            ("address", "long", False),
            ("size", "long", False),
        ),
    ),
    "profiler.Free": (
        101,
        (
            ("startTime", "long", False),
            ("eventThread", "java.lang.Thread", True),
            ("stackTrace", "jdk.types.StackTrace", True),
            ("address", "long", False),
        ),
    ),
    "jdk.ObjectAllocationInNewTLAB": (
        104,
        (
            ("startTime", "long", False),
            ("eventThread", "java.lang.Thread", True),
            ("stackTrace", "jdk.types.StackTrace", True),
            ("objectClass", "java.lang.Class", True),
            ("allocationSize", "long", False),
        ),
    ),
    "profiler.LiveObject": (
        105,
        (
            ("startTime", "long", False),
            ("eventThread", "java.lang.Thread", True),
            ("stackTrace", "jdk.types.StackTrace", True),
            ("objectClass", "java.lang.Class", True),
            ("allocationSize", "long", False),
            ("allocationTime", "long", False),
        ),
    ),
    "jdk.ActiveSetting": (
        102,
        (("name", "java.lang.String", False), ("value", "java.lang.String", False)),
    ),
    "jdk.ResidentSetSize": (103, (("startTime", "long", False), ("size", "long", False))),
}


class Event(NamedTuple):
    """time: nanoseconds since the chunk's start; size 0: a free."""

    time: int
    address: int
    size: int = 0
    stack: int = 1


class JavaObject(NamedTuple):
    """A sampled Java object of class libx.so, for want of another.  time: as above, of its allocation."""

    time: int
    size: int
    stack: int = 1
    alive: bool = False


def integer(value: int) -> bytes:
    """A compressed integer of at most nine bytes."""
    result = bytearray()
    for _ in range(8):
        if value < 0x80:
            result.append(value)
            return bytes(result)
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value & 0xFF)
    return bytes(result)


def text(value: str) -> bytes:
    raw = value.encode()
    return b"\3" + integer(len(raw)) + raw


def event(kind: int, body: bytes) -> bytes:
    rest = integer(kind) + body
    size = len(rest) + 1
    if size > 0x7F:  # as async-profiler writes sizes that it did not know before: with five bytes
        size += 4
        return bytes(((size >> 7 * at) & 0x7F) | (0x80 if at < 4 else 0) for at in range(5)) + rest
    return bytes([size]) + rest


def chunk(
    events: Iterable[Event],
    *,
    stacks: int = 1,
    start: int = 1_700_000_000 * 10**9,
    duration: int = 10**9,
    ticks: int = 0,
    interval: int = 0,
    rss: Sequence[tuple[int, int]] = (),
    objects: Sequence[JavaObject] = (),
    constants: bool = True,
) -> bytes:
    """A whole chunk; times in nanoseconds.  ticks: of its start.  Stack N is function fN of libx.so."""
    settings = event(TYPES["jdk.ActiveSetting"][0], text("nativemem") + text(str(interval)))
    before = bytearray(_metadata() + settings)
    for at, rss_bytes in rss:
        before += event(TYPES["jdk.ResidentSetSize"][0], integer(ticks + at) + integer(rss_bytes))
    for one in events:
        fields = integer(ticks + one.time) + integer(300) + integer(one.stack if one.size else 0)
        fields += integer(one.address) + (integer(one.size) if one.size else b"")
        before += event(TYPES["profiler.Malloc" if one.size else "profiler.Free"][0], fields)
    for made in objects:
        fields = integer(300) + integer(made.stack) + integer(1) + integer(made.size)
        born = integer(ticks + made.time)
        before += event(TYPES["jdk.ObjectAllocationInNewTLAB"][0], born + fields)
        if made.alive:
            # The table has the object a little later than its event.
            later = integer(ticks + duration) + fields + integer(ticks + made.time + 1)
            before += event(TYPES["profiler.LiveObject"][0], later)
    head = 68
    after = _constants(stacks if constants else 0)
    size = head + len(before) + len(after)
    header = struct.pack(
        ">4sHHqqqqqqqI", b"FLR\0", 2, 0, size, head + len(before), head, start, duration, ticks, 10**9, 1
    )
    return header + before + after


def _metadata() -> bytes:
    strings = ["root", "metadata", "class", "field", "id", "name", "constantPool", "true", "dimension", "1"]

    def place(word: str) -> bytes:
        if word not in strings:
            strings.append(word)
        return integer(strings.index(word))

    def element(name: str, attributes: dict[str, str], children: Sequence[bytes]) -> bytes:
        pairs = b"".join(place(key) + place(value) for key, value in attributes.items())
        return place(name) + integer(len(attributes)) + pairs + integer(len(children)) + b"".join(children)

    def field(name: str, of: str, constant: bool) -> bytes:
        attributes = {"name": name, "class": str(TYPES[of.removesuffix("[]")][0])}
        if constant:
            attributes["constantPool"] = "true"
        if of.endswith("[]"):
            attributes["dimension"] = "1"
        return element("field", attributes, [])

    types = [
        element("class", {"id": str(number), "name": name}, [field(*one) for one in fields])
        for name, (number, fields) in TYPES.items()
    ]
    tree = element("root", {}, [element("metadata", {}, types)])
    table = integer(len(strings)) + b"".join(map(text, strings))
    return event(0, integer(0) * 2 + integer(1) + table + tree)


def _constants(stacks: int) -> bytes:
    def table(name: str, rows: Sequence[bytes]) -> bytes:
        return integer(TYPES[name][0]) + integer(len(rows)) + b"".join(rows)

    numbers = range(1, stacks + 1)
    frame = integer(0) * 2 + integer(3)
    tables = [
        table("jdk.types.FrameType", [integer(3) + text("Native"), integer(5) + text("Kernel")]),
        table("java.lang.Thread", [integer(300) + text("worker") + b"\0"]),
        table(
            "jdk.types.StackTrace",
            [integer(one) + b"\0" + integer(1) + integer(one) + frame for one in numbers],
        ),
        table("jdk.types.Method", [integer(one) + integer(1) + integer(1 + one) for one in numbers]),
        table("java.lang.Class", [integer(1) + integer(1)]),
        table(
            "jdk.types.Symbol",
            [integer(1) + text("libx.so"), *(integer(1 + one) + text(f"f{one}") for one in numbers)],
        ),
    ]
    return event(1, integer(0) * 3 + b"\1" + integer(len(tables)) + b"".join(tables))
