"""Styled lines straight to a console's file: a list of ten thousand sites has a quarter of a million.

Rich lays out, crops and segments whatever it prints, at some 0.1 ms a line.  These lines are final: one style
a piece, in the colours that the console found its terminal to have.
"""

from __future__ import annotations

from functools import lru_cache

from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style

Piece = tuple[str, str]  # text without control characters, and its style as rich writes styles


def put(out: Console, *pieces: Piece | str) -> None:
    """A line of these pieces; a bare text has no style."""
    system, no_color = out.color_system, out.no_color
    parts = []
    for piece in pieces:
        if isinstance(piece, str):
            parts.append(piece)
        elif not piece[1] or system is None:
            parts.append(piece[0])
        else:
            before, after = _codes(piece[1], system, no_color)
            parts.append(f"{before}{piece[0]}{after}")
    out.file.write(f"{''.join(parts)}\n")


@lru_cache(maxsize=64)
def _codes(style: str, system: str, no_color: bool) -> tuple[str, str]:
    """What switches a style on and off."""
    parsed = Style.parse(style)
    if no_color:
        parsed = parsed.without_color
    before, _, after = parsed.render("\0", color_system=COLOR_SYSTEMS[system]).partition("\0")
    return before, after
