"""How wide a report for people is, and text broken between words for that."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import textwrap
from typing import TextIO

_MOST = 80  # readable everywhere, whatever room there is
_LEAST = 20
# Narrower, a table's cells go below each other.
NARROW = 60
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_WORDS = re.compile(r" +|[^ ]+")


def columns() -> int:
    """The terminal's columns, or as COLUMNS says."""
    return max(_LEAST, shutil.get_terminal_size().columns)


def width() -> int:
    """Columns for sentences."""
    return min(_MOST, columns())


def wrapped(text: str, *, indent: int = 0) -> list[str]:
    """A sentence in lines; a name that is longer than a line stays whole, to be searched and copied."""
    margin = " " * indent
    return textwrap.wrap(
        text,
        width(),
        initial_indent=margin,
        subsequent_indent=margin,
        break_long_words=False,
        break_on_hyphens=False,
    )


def fold(line: str, most: int) -> str:
    """A line, styled or not, broken between words; what follows stands below its second cell."""
    if len(_STYLE.sub("", line)) <= most:
        return line
    if len(line) - len(line.lstrip(" ")) > most // 4:
        line = " " * (most // 4) + line.lstrip(" ")
    indent = " " * _hanging(_STYLE.sub("", line), most)
    text, used, gap = "", 0, ""
    for word in _WORDS.findall(line):
        room = len(_STYLE.sub("", word))
        if word.startswith(" "):
            gap = word
            continue
        if text and used + len(gap) + room > most and used > len(indent):
            text, used, gap = f"{text}\n{indent}", len(indent), ""
        text, used, gap = f"{text}{gap}{word}", used + len(gap) + room, ""
    return text


def _hanging(plain: str, most: int) -> int:
    leading = len(plain) - len(plain.lstrip(" "))
    cell = re.match(r" *\S+(?: \S+)*  +", plain)
    second = cell.end() if cell else leading + 2
    return second if second <= most // 2 else leading + 2


class FoldedOutput(io.TextIOBase):
    """Standard output for reports: no terminal is left to break their lines within a word.

    Where the output is no terminal and nobody says how wide it is, lines stay as they are.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        self._stream.write("".join(f"{fold(line, columns())}\n" for line in lines))
        return len(text)

    def flush(self) -> None:
        self._stream.write(self._rest)
        self._rest = ""
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # read-only here: that of the stream
        return self._stream.encoding


def known() -> bool:
    """Whether standard output is a terminal, or COLUMNS says how wide it is."""
    return sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()


def output() -> TextIO:
    """Standard output, folded if its width is known."""
    return FoldedOutput(sys.stdout) if known() else sys.stdout  # type: ignore[return-value]
