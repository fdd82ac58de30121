"""The main class that a jar's manifest names, read from a file that may be anything and of any size.

zipfile makes an object of each entry: a third of a second for a jar of 60,000 entries, and a gigabyte
for a hostile jar.  This module reads the directory of the archive as bytes and searches for one name.
"""

from __future__ import annotations

import re
import struct
import zlib

from offheap.proc import opening, root
from offheap.proc.opening import RegularFile

_NAME = b"META-INF/MANIFEST.MF"
_MOST_DIRECTORY = 16 << 20
_MOST_MANIFEST = 64 << 10

# APPNOTE.TXT 4.3: end of central directory, central file header, local file header.
_END = struct.Struct("<4s4H2IH")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_LOCAL = struct.Struct("<4s5H3I2H")
_MOST_COMMENT = 0xFFFF
_STORED, _DEFLATED = 0, 8

# Spring Boot's launcher is the main class of its jars, and starts the `start-class`.
_ATTRIBUTES = ("start-class", "main-class")
_CLASS = re.compile(r"[\w$./-]{1,500}")


def main_class(pid: int, jar: str) -> str:
    """The class that the jar starts; `jar` is the process's name of it.  "" when unknown."""
    try:
        with opening.regular(root.from_cwd(pid, jar)) as file:
            return _started(_manifest(file))
    except (OSError, ValueError, struct.error, zlib.error):
        return ""


def _manifest(file: RegularFile) -> bytes:
    """ValueError, struct.error or zlib.error when there is none, or the directory of the archive is huge."""
    tail_at = max(0, file.status.st_size - _END.size - _MOST_COMMENT)
    tail = file.read_at(tail_at, _END.size + _MOST_COMMENT)
    end_at = tail.rfind(b"PK\x05\x06")
    if end_at < 0:
        raise ValueError("no archive")
    _, _, _, _, _, length, offset, _ = _END.unpack_from(tail, end_at)
    directory_at = tail_at + end_at - length
    if length > _MOST_DIRECTORY or directory_at < 0:
        raise ValueError("a directory that is too large")
    directory = file.read_at(directory_at, length)
    # A jar may have a shell script before it, which its offsets do not count.
    return _entry(file, directory, directory_at - offset)


def _entry(file: RegularFile, directory: bytes, before: int) -> bytes:
    name_at = directory.index(_NAME)
    while True:
        at = name_at - _CENTRAL.size
        if at >= 0 and directory[at : at + 4] == b"PK\x01\x02":
            its = _CENTRAL.unpack_from(directory, at)
            method, packed, name_length, local_at = its[4], its[8], its[10], its[16]
            if name_length == len(_NAME):
                break
        name_at = directory.index(_NAME, name_at + 1)
    _, _, _, _, _, _, _, _, _, local_name, local_extra = _LOCAL.unpack(
        file.read_at(before + local_at, _LOCAL.size)
    )
    data_at = before + local_at + _LOCAL.size + local_name + local_extra
    data = file.read_at(data_at, min(packed, _MOST_MANIFEST))
    if method == _STORED:
        return data
    if method != _DEFLATED:
        raise ValueError(f"compression method {method}")
    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, _MOST_MANIFEST)


def _started(manifest: bytes) -> str:
    """A line that begins with a space goes on from the one before (JAR File Specification)."""
    text = manifest.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n").replace("\n ", "")
    lines = text.partition("\n\n")[0].split("\n")
    values = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return next((values[name] for name in _ATTRIBUTES if _CLASS.fullmatch(values.get(name, ""))), "")
