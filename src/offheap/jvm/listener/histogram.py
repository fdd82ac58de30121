"""`GC.class_histogram`: the objects of the Java heap by class, as JDK 11 to 25 print them."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from offheap.errors import UserError
from offheap.jvm.listener.attach import AttachedVM

_LINE = re.compile(r" *\d+: +(\d{1,18}) +(\d{1,18}) +(\S+)(?: \(.*\))?", re.ASCII)
_PRIMITIVES = {
    "B": "byte",
    "C": "char",
    "D": "double",
    "F": "float",
    "I": "int",
    "J": "long",
    "S": "short",
    "Z": "boolean",
}


@dataclass(frozen=True, slots=True)
class ClassCount:
    """Objects of one class; classes of the same name in several class loaders are summed."""

    instances: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """By class name as Java writes it; `taken` by the monotonic clock; the JVM answered within `seconds`."""

    classes: dict[str, ClassCount]
    taken: float
    seconds: float


def take(pid: int) -> Histogram:
    """Asks the JVM, which collects the whole heap and walks it while all its threads are stopped."""
    began = time.monotonic()
    classes = parse(AttachedVM(pid).jcmd("GC.class_histogram"))
    ended = time.monotonic()
    if not classes:
        raise UserError(f"PID {pid} gave no class histogram", "leave out --histogram")
    return Histogram(classes, ended, ended - began)


def parse(text: str) -> dict[str, ClassCount]:
    """Empty when the text is no histogram."""
    found: dict[str, ClassCount] = {}
    for line in text.split("\n"):
        match = _LINE.fullmatch(line.rstrip())
        if match:
            name = _java_name(match[3])
            before = found.get(name, ClassCount(0, 0))
            found[name] = ClassCount(before.instances + int(match[1]), before.bytes + int(match[2]))
    return found


def _java_name(name: str) -> str:
    """`[[Ljava.lang.String;` reads java.lang.String[][]."""
    depth = len(name) - len(name.lstrip("["))
    element = name[depth:]
    if depth and element in _PRIMITIVES:
        element = _PRIMITIVES[element]
    elif depth and element.startswith("L") and element.endswith(";"):
        element = element[1:-1]
    return element + "[]" * depth
