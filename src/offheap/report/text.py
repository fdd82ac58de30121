"""Names as text for people: nothing in them may steer a terminal, and long ones are shortened."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the model needs numpy, and every error message passes through here
    from offheap.recording.model import Frame

_LONGEST = 72


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


def short_name(name: str) -> str:
    """A C++ name without its parameters, and without template arguments where it is still long."""
    name = _without_parameters(name)
    if len(name) > _LONGEST and "<" in name:
        name = _without_templates(name)
    if len(name) > _LONGEST:
        name = f"{name[: _LONGEST // 2]}…{name[-_LONGEST // 2 :]}"
    return name


def place(frame: Frame) -> str:
    """`Foo.java:42`, `zlib.c:12`, else the module; "" if nothing is known."""
    if frame.file:
        file = frame.file.rpartition("/")[2]
        return f"{file}:{frame.line}" if frame.line else file
    return "" if frame.kind == "java" else frame.module


def _without_parameters(name: str) -> str:
    end = name.rfind(")")
    # Only qualifiers may follow the parameters: "f(int) const", but "(anonymous namespace)::f" has none.
    if end < 0 or name[end + 1 :].strip() not in (
        "",
        "const",
        "volatile",
        "&",
        "&&",
        "const &",
        "[clone .cold]",
    ):
        return name
    depth = 0
    for index in range(end, -1, -1):
        depth += {")": 1, "(": -1}.get(name[index], 0)
        if depth == 0:
            head = name[:index]
            return head if head and not head.endswith("operator") else name
    return name


def _without_templates(name: str) -> str:
    kept, depth = [], 0
    for index, character in enumerate(name):
        operator = name[max(index - 9, 0) : index].rstrip("<>=-").endswith("operator")
        if character == "<" and not operator:
            if depth == 0:
                kept.append("<…>")
            depth += 1
        elif character == ">" and not operator and depth:
            depth -= 1
        elif depth == 0:
            kept.append(character)
    return "".join(kept)
