"""Names as text for people: nothing in them may steer a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the model needs numpy, and every error message passes through here
    from offheap.recording.model import Frame


def printable(text: str) -> str:
    """The text with control, format and other invisible characters shown as escapes.

    A class or thread may be called anything: an escape sequence would recolour or retitle the
    terminal, a right-to-left mark would reorder the line.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def place(frame: Frame) -> str:
    """`Foo.java:42`, `zlib.c:12`, else the module; "" if nothing is known."""
    if frame.file:
        file = frame.file.rpartition("/")[2]
        return f"{file}:{frame.line}" if frame.line else file
    return "" if frame.kind in ("java", "class") else frame.module
