"""The stack of a site at a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from offheap.analysis.stacks.blame import position
from offheap.analysis.stacks.folding import folds
from offheap.recording.model import Frame
from offheap.report.text import wording
from offheap.report.text.lines import Piece, put
from offheap.report.text.printable import printable

_KINDS = {
    "native": "blue",
    "java": "green",
    "jvm": "magenta",
    "kernel": "yellow",
    "class": "cyan",
    "unknown": "red",
}


def print_stack(out: Console, stack: Sequence[Frame], blamed: Frame, full: bool, indent: int) -> None:
    """Innermost first; `>` marks the frame to look at; what a long stack leaves out is a line a run."""
    marked = position(stack, blamed)
    left_out = {} if full else {fold.start: fold for fold in folds(stack, blamed)}
    margin = " " * indent
    resume = 0
    for index, frame in enumerate(stack):
        if index in left_out:
            put(out, (f"{margin}  {printable(left_out[index].text)} (--full)", "dim"))
            resume = left_out[index].stop
        if index < resume:
            continue
        if index == marked:
            put(
                out,
                margin,
                ("> ", "bold"),
                *((text, f"bold {style}") for text, style in frame_pieces(frame, full)),
            )
        else:
            put(out, margin, "  ", *frame_pieces(frame, full))


def frame_pieces(frame: Frame, full: bool, mark: bool = True) -> list[Piece]:
    pieces = [(f"{wording.kind(frame):<7} ", _KINDS[frame.kind])] if mark else []
    pieces.append((printable(wording.name(frame, full)), ""))
    where = printable(wording.where(frame))
    if where or frame.inlined:
        pieces.append((f"{'  ' if where else ''}{where}{'  inlined' if frame.inlined else ''}", "dim"))
    return pieces
