"""`VM.classloader_stats` of JDK 11 to 25: how many class loaders of each class there are, and what they hold.

The JVM walks its loaders at a safepoint, some milliseconds for thousands of loaders: offheap asks only
when the number of classes grows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from offheap.errors import UserError
from offheap.jvm.listener.attach import AttachedVM

_LOADER = re.compile(r"0x[0-9a-f]+ +0x[0-9a-f]+ +0x[0-9a-f]+ +(\d{1,9}) +(\d{1,18}) +\d+ +(\S.*)", re.ASCII)
# Classes without a name that other classes can use belong to the loader in the line above.
_NAMELESS = re.compile(r" +(\d{1,9}) +(\d{1,18}) +\d+ +\+ (?:hidden|unsafe anonymous) classes", re.ASCII)


@dataclass(frozen=True, slots=True)
class Loaders:
    """The class loaders of one class; `bytes` of metaspace chunks."""

    loaders: int
    classes: int
    bytes: int


def ask(pid: int) -> dict[str, Loaders] | None:
    """By the loaders' class; None when the JVM does not answer."""
    try:
        return parse(AttachedVM(pid, reply_seconds=10).jcmd("VM.classloader_stats"))
    except UserError:
        return None


def parse(text: str) -> dict[str, Loaders]:
    """By the loaders' class; ignores lines of other text."""
    found: dict[str, Loaders] = {}
    name = ""
    for line in text.split("\n"):
        line = line.rstrip()
        if match := _LOADER.fullmatch(line):
            name, more = match[3], 1
        elif name and (match := _NAMELESS.fullmatch(line)):
            more = 0
        else:
            name = ""
            continue
        one = found.get(name, Loaders(0, 0, 0))
        found[name] = Loaders(one.loaders + more, one.classes + int(match[1]), one.bytes + int(match[2]))
    return found
