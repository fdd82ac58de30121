"""Text for streams whose encoding lacks characters that the reports use: a plain one in place of each."""

from __future__ import annotations

import codecs
import io
from typing import TextIO

_NAME = "offheap-plain"

# How Python opens the standard streams by itself: PYTHONIOENCODING=ascii:replace stays what it is.
_FAILING = ("strict", "surrogateescape", "backslashreplace")

_PLAIN = {
    "…": "...",
    "→": "->",
    "←": "<-",
    "█": "#",
    # A bar ends in eighths of a column: from a half on they count as the column.
    **dict.fromkeys("▌▋▊▉", "#"),
    **dict.fromkeys("▏▎▍", " "),
    # What rich draws with: progress bars and the dots that turn.
    **dict.fromkeys("─━╸╺", "-"),
    **dict(zip("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", r"|/-\|/-\|/", strict=True)),
}


def never_fail(stream: TextIO) -> None:
    """Makes a stream write every text: what its encoding lacks is replaced, or escaped as Python does.

    Without this PYTHONIOENCODING=ascii, or a path that is no text at all, would end a report half-way.
    """
    if isinstance(stream, io.TextIOWrapper) and stream.errors in _FAILING:
        codecs.register_error(_NAME, _replace)
        stream.reconfigure(errors=_NAME)


def _replace(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    plain = (_PLAIN.get(c) or c.encode("ascii", "backslashreplace").decode() for c in lacking)
    return "".join(plain), error.end
