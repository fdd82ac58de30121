"""How wide a report for people is, and text laid out for that."""

from __future__ import annotations

import shutil
import textwrap

_MOST = 80  # readable everywhere, whatever room there is
_LEAST = 20


def width() -> int:
    """Columns of the terminal, or of COLUMNS, at most 80."""
    return max(_LEAST, min(_MOST, shutil.get_terminal_size().columns))


def wrapped(text: str, *, indent: int = 0, first: str = "") -> list[str]:
    """Lines broken between words: a name that is longer than a line stays whole, to be searched and copied.

    `first` stands before the first line, in the room of the indent.
    """
    return textwrap.wrap(
        text,
        width(),
        initial_indent=first or " " * indent,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
