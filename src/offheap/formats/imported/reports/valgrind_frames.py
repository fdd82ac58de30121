"""Frames as Valgrind's tools print them: `0x109166: make_block (u.c:5)`, `... (in /usr/lib/libfoo.so)`.

The source of the format is Valgrind's coregrind/m_debuginfo/debuginfo.c, VG_(describe_IP).
"""

from __future__ import annotations

import re

from offheap.formats.imported.samples import names
from offheap.recording.model import Frame

_FRAME = re.compile(
    r"0x(?P<address>[0-9A-Fa-f]{1,16}): (?P<name>.*?)(?: \((?P<place>[^()]*(?:\([^()]*\))?[^()]*)\))?"
)
_LINE = re.compile(r"(?P<file>.*):(?P<line>\d{1,9})")
_UNKNOWN = "???"


def frame(text: str) -> Frame:
    """One frame; an address without a name reads `libfoo.so at 0x7f...` or `0x7f...`."""
    match = _FRAME.fullmatch(text.strip())
    if match is None:
        return names.frame(text.strip())
    place = match["place"] or ""
    if place.startswith("in "):
        return of(match["address"], match["name"], place[3:], "", 0)
    line = _LINE.fullmatch(place)
    if line:
        return of(match["address"], match["name"], "", line["file"], int(line["line"]))
    # The brackets are the signature's.
    return of(match["address"], text.strip().partition(": ")[2], "", "", 0)


def of(address: str, name: str, path: str, file: str, line: int) -> Frame:
    """A frame by its parts; `address` in hexadecimal, each "" or 0 if not known."""
    module = path.rpartition("/")[2]
    if not name or name == _UNKNOWN:
        where = f"0x{address.lower()}"
        name = f"{module} at {where}" if module else where
        return Frame(name, "jvm" if module == "libjvm.so" else "native", module, file, line)
    return names.frame(name, module, file, line)
