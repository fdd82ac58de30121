"""LeakSanitizer's suppression files: `leak:PATTERN` a line, `#` starts a comment.

A pattern is found anywhere in the name of a function, of its module or of its source file, of any frame of
the stack; `*` stands for any text, `^` at the start and `$` at the end anchor it (clang's documentation of
LeakSanitizer, "Suppressions").  One difference: `$` elsewhere is a character like others, because Java's
nested classes have it in their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from offheap.errors import UserError
from offheap.recording.model import Frame

_LARGEST = 16 << 20  # bytes: more is no list of suppressions


@dataclass(frozen=True, slots=True)
class Suppression:
    """One line of a file."""

    pattern: str
    path: str
    line: int

    def covers(self, stack: Sequence[Frame]) -> bool:
        """Whether any frame's function, module or file matches."""
        return any(
            text and self.matches(text) for frame in stack for text in (frame.name, frame.module, frame.file)
        )

    def matches(self, text: str) -> bool:
        """In time proportional to text times pattern, whatever the pattern: pieces between stars, leftmost
        first, the last one at the end if it is anchored there."""
        pattern = self.pattern
        start, end = pattern.startswith("^"), pattern.endswith("$")
        pieces = pattern[start : len(pattern) - end].split("*")
        if len(pieces) == 1:
            piece = pieces[0]
            if start and end:
                return text == piece
            return text.startswith(piece) if start else text.endswith(piece) if end else piece in text
        first, *middle, last = pieces
        place, stop = 0, len(text)
        if start:
            if not text.startswith(first):
                return False
            place = len(first)
        else:
            middle.insert(0, first)
        if end:
            stop -= len(last)
            if stop < place or not text.endswith(last):
                return False
        else:
            middle.append(last)
        for piece in middle:
            found = text.find(piece, place, stop)
            if found < 0:
                return False
            place = found + len(piece)
        return True

    def __str__(self) -> str:
        return f"leak:{self.pattern}"


def read(path: str | PathLike[str]) -> tuple[Suppression, ...]:
    """The suppressions of a file; UserError if the file cannot be read or a line is no suppression."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", "check --ignore") from None
    if len(content) > _LARGEST:
        raise UserError(
            f"{path} is larger than {_LARGEST >> 20} MiB", "check --ignore: is it the right file?"
        )
    return parse(content.decode("utf-8", "surrogateescape"), str(path))


def parse(text: str, path: str) -> tuple[Suppression, ...]:
    """The suppressions of a file's text; UserError names the first line that is no suppression."""
    result = []
    # Only \n ends a line, as in LeakSanitizer: a name may contain other characters that end a line in Python.
    for number, raw in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        line = raw.strip(" \t\r")
        if not line or line.startswith("#"):
            continue
        kind, colon, pattern = line.partition(":")
        if not colon or kind != "leak":
            raise UserError(f"{path}:{number} is not a suppression: {line[:60]!r}", "write leak:PATTERN")
        if not pattern.strip("^$*"):
            raise UserError(
                f"{path}:{number} suppresses everything: {line!r}", "name a function, a module or a file"
            )
        result.append(Suppression(pattern, path, number))
    return tuple(result)
