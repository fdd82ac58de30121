"""A site in words and the frames that matter, for lists that have room for a few lines."""

from __future__ import annotations

from offheap.analysis.leaks.results import Suspect
from offheap.analysis.stacks import frames
from offheap.analysis.stacks.blame import entry, position, short
from offheap.analysis.stacks.folding import folds
from offheap.quantities import PER_MINUTE, format_size
from offheap.report.text import wording
from offheap.report.text.printable import place, printable


def site_lines(suspect: Suspect, most: int) -> list[str]:
    """A site in words, then the frames that matter, innermost first: what was called, the one to look at and
    its callers."""
    confidence = f", confidence {suspect.confidence:.0%}" if suspect.confidence else ""
    growth = suspect.growth_bytes_per_second
    grows = f"grows by {PER_MINUTE.format(growth.estimate)}, " if growth.low > 0 else ""
    live = format_size(suspect.site.live_bytes.estimate)
    lines = [f"{suspect.verdict}{confidence}: {grows}{live} live"]
    stack = suspect.site.stack or (suspect.blamed,)  # its stack was lost: "no stack"
    marked = position(stack, suspect.blamed) or 0
    called = entry(stack, suspect.blamed)
    inside = min(frames.allocating(stack), marked) if called is None else called
    left_out = {index for fold in folds(stack, suspect.blamed) for index in range(fold.start, fold.stop)}
    outside = [index for index in range(marked + 1, len(stack)) if index not in left_out]
    made = {0} if frames.class_of(stack) else set()
    chosen = sorted({*made, inside, marked, *outside})[: most - 1]
    for index in chosen:
        where = printable(place(stack[index]))
        mark = ">" if index == marked else " "
        lines.append(
            f"{mark} {wording.kind(stack[index]):<7} {printable(short(stack[index]))}  {where}".rstrip()
        )
    return lines
