"""Writes event_classes.c: the class files of the events that the probe commits to JDK Flight Recorder.

    python probe/jfr/event_classes.py            write it anew after a change of EVENTS
    python probe/jfr/event_classes.py --classes DIR    the class files alone, for javap

Users have no javac, so the class files are written here, by the Java Virtual Machine Specification, Java SE
11, chapter 4: a subclass of jdk.jfr.Event with a constructor, public fields, and JFR's annotations for labels
and units.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

OUTPUT = Path(__file__).with_suffix(".c")
CLASS_FILE_VERSION = 52  # of JDK 8, the oldest that needs no support of the older verifier
PUBLIC, FINAL, SUPER = 0x0001, 0x0010, 0x0020
# By the letter that event_text.c reads: text, whole number, millionths.
DESCRIPTORS = {"S": "Ljava/lang/String;", "J": "J", "F": "F"}
CATEGORY = "offheap"


@dataclass(frozen=True)
class Field:
    """A field of an event.  `unit`: an annotation of jdk.jfr, "" for none."""

    name: str
    type: str
    label: str
    unit: str = ""


@dataclass(frozen=True)
class Event:
    name: str
    label: str
    description: str
    fields: tuple[Field, ...]


EVENTS = (
    Event(
        "NativeMemory",
        "Native Memory",
        "Native memory that code outside of the JVM holds, by the library that asked for it",
        (
            Field("library", "S", "Library"),
            Field("kind", "S", "Kind"),
            Field("live", "J", "Live Bytes", "DataAmount"),
            Field("blocks", "J", "Live Blocks"),
            Field("allocated", "J", "Allocated Bytes", "DataAmount"),
        ),
    ),
    Event(
        "LeakSuspect",
        "Leak Suspect",
        "A call path whose memory leaks or grows",
        (
            Field("rank", "J", "Rank"),
            Field("verdict", "S", "Verdict"),
            Field("confidence", "F", "Confidence", "Percentage"),
            Field("kind", "S", "Kind"),
            Field("site", "S", "Site"),
            Field("library", "S", "Library"),
            Field("live", "J", "Live Bytes", "DataAmount"),
            Field("blocks", "J", "Live Blocks"),
            Field("growth", "J", "Growth per Second", "DataAmount"),
            Field("path", "S", "Call Path"),
        ),
    ),
    Event(
        "ResidentSet",
        "Resident Set by Owner",
        "Pages of the process in memory, by their owner",
        (
            Field("owner", "S", "Owner"),
            Field("resident", "J", "Resident Bytes", "DataAmount"),
            Field("total", "J", "Resident Bytes of the Process", "DataAmount"),
        ),
    ),
)


class Pool:
    """The constant pool: each entry once, numbered from 1."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def utf8(self, text: str) -> int:
        return self._add(b"\x01" + struct.pack(">H", len(text)) + text.encode("ascii"))

    def integer(self, value: int) -> int:
        return self._add(b"\x03" + struct.pack(">i", value))

    def class_(self, name: str) -> int:
        return self._add(b"\x07" + struct.pack(">H", self.utf8(name)))

    def method(self, class_name: str, name: str, descriptor: str) -> int:
        pair = self._add(b"\x0c" + struct.pack(">HH", self.utf8(name), self.utf8(descriptor)))
        return self._add(b"\x0a" + struct.pack(">HH", self.class_(class_name), pair))

    def _add(self, entry: bytes) -> int:
        return self._numbers.setdefault(entry, len(self._numbers) + 1)

    def bytes(self) -> bytes:
        return struct.pack(">H", len(self._numbers) + 1) + b"".join(self._numbers)


def class_file(event: Event) -> bytes:
    pool = Pool()
    this, parent = pool.class_(f"offheap/{event.name}"), pool.class_("jdk/jfr/Event")
    fields = b"".join(
        struct.pack(">HHH", PUBLIC, pool.utf8(field.name), pool.utf8(DESCRIPTORS[field.type]))
        + _attributes(pool, _annotations(pool, _of_field(pool, field)))
        for field in event.fields
    )
    constructor = struct.pack(">HHH", PUBLIC, pool.utf8("<init>"), pool.utf8("()V"))
    constructor += _attributes(pool, _code(pool))
    marks = _attributes(pool, _annotations(pool, _of_event(pool, event)))
    return (
        struct.pack(">IHH", 0xCAFEBABE, 0, CLASS_FILE_VERSION)
        + pool.bytes()
        + struct.pack(">HHHH", PUBLIC | FINAL | SUPER, this, parent, 0)
        + struct.pack(">H", len(event.fields))
        + fields
        + struct.pack(">H", 1)
        + constructor
        + marks
    )


def _attributes(pool: Pool, *attributes: tuple[str, bytes]) -> bytes:
    packed = [struct.pack(">HI", pool.utf8(name), len(body)) + body for name, body in attributes]
    return struct.pack(">H", len(packed)) + b"".join(packed)


def _code(pool: Pool) -> tuple[str, bytes]:
    """aload_0; invokespecial jdk.jfr.Event.<init>; return"""
    code = b"\x2a\xb7" + struct.pack(">H", pool.method("jdk/jfr/Event", "<init>", "()V")) + b"\xb1"
    return "Code", struct.pack(">HHI", 1, 1, len(code)) + code + struct.pack(">HH", 0, 0)


def _annotations(pool: Pool, annotations: Sequence[bytes]) -> tuple[str, bytes]:
    return "RuntimeVisibleAnnotations", struct.pack(">H", len(annotations)) + b"".join(annotations)


def _annotation(pool: Pool, name: str, value: bytes = b"") -> bytes:
    pairs = struct.pack(">HH", 1, pool.utf8("value")) + value if value else struct.pack(">H", 0)
    return struct.pack(">H", pool.utf8(f"Ljdk/jfr/{name};")) + pairs


def _string(pool: Pool, text: str) -> bytes:
    return b"s" + struct.pack(">H", pool.utf8(text))


def _of_field(pool: Pool, field: Field) -> list[bytes]:
    label = _annotation(pool, "Label", _string(pool, field.label))
    return [label, _annotation(pool, field.unit)] if field.unit else [label]


def _of_event(pool: Pool, event: Event) -> list[bytes]:
    return [
        _annotation(pool, "Label", _string(pool, event.label)),
        _annotation(pool, "Description", _string(pool, event.description)),
        _annotation(pool, "Category", b"[" + struct.pack(">H", 1) + _string(pool, CATEGORY)),
        # The stack of the thread that commits says nothing.
        _annotation(pool, "StackTrace", b"Z" + struct.pack(">H", pool.integer(0))),
    ]


def source() -> str:
    """The text of event_classes.c."""
    lines = [
        "/* Written by event_classes.py. */",
        '#include "jfr/event_classes.h"',
        "",
        "/* clang-format off */",
    ]
    for event in EVENTS:
        data = class_file(event)
        lines.append(f"static const unsigned char {_array(event)}[] = {{")
        for start in range(0, len(data), 24):
            lines.append("    " + "".join(f"{byte}," for byte in data[start : start + 24]))
        lines.append("};")
    lines.append("const struct event_class event_classes[EVENT_CLASSES] = {")
    for event in EVENTS:
        lines.append(
            f'    {{"offheap/{event.name}", {_array(event)}, sizeof {_array(event)}, {len(event.fields)}, {{'
        )
        lines += [f"        {{'{field.type}', \"{field.name}\"}}," for field in event.fields]
        lines.append("    }},")
    return "\n".join([*lines, "};", ""])


def _array(event: Event) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in event.name).lstrip("_")


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["--classes"]:
        folder = Path(arguments[1]) / "offheap"
        folder.mkdir(parents=True, exist_ok=True)
        for event in EVENTS:
            (folder / f"{event.name}.class").write_bytes(class_file(event))
    else:
        OUTPUT.write_text(source())


if __name__ == "__main__":
    main(sys.argv[1:])
