"""Suspects in a document: a table of all, and one with its reason and its stack."""

from __future__ import annotations

from collections.abc import Sequence

from offheap.analysis.leaks.results import Suspect
from offheap.analysis.stacks.blame import position
from offheap.analysis.stacks.folding import folds
from offheap.analysis.stacks.namesakes import Mark
from offheap.quantities import RateUnit
from offheap.report.text import wording
from offheap.report.text.namesakes import beside
from offheap.report.text.printable import printable
from offheap.report.ticket.document import Block, CodeText, Heading, Listing, Paragraph, Table

STACKS = 3  # suspects that are shown with their stack: more would not fit a screen or two


def suspects_table(
    shown: Sequence[Suspect], namesakes: Sequence[Sequence[Mark]], unit: RateUnit, others: int
) -> Table:
    """A row a suspect; `others`: how many more there are."""
    rows: list[tuple[str, ...]] = [
        (
            str(suspect.rank),
            suspect.verdict,
            f"{suspect.confidence:.0%}" if round(100 * suspect.confidence) else "",
            wording.rate(suspect.growth_bytes_per_second, unit),
            wording.size(suspect.site.live_bytes),
            CodeText(
                ("mmap " if suspect.site.kind == "mmap" else "")
                + f"{wording.name(suspect.blamed)} {beside(marks)}".rstrip()
            ),
        )
        for suspect, marks in zip(shown, namesakes, strict=True)
    ]
    if others > 0:
        rows.append(("", f"and {others} more", "", "", "", ""))
    return Table(("#", "verdict", "sure", "growth", "live", "site"), rows, frozenset({0, 2}))


def about(suspect: Suspect) -> list[Block]:
    """One suspect: why, what it holds, what to do next, its stack."""
    return [
        Heading(f"{suspect.rank}. {suspect.verdict}: {wording.name(suspect.blamed)}", 3),
        Paragraph(f"{suspect.why[0].upper()}{suspect.why[1:]}. Live: {wording.held(suspect.site)}."),
        *([Paragraph(f"Next: {suspect.next}.")] if suspect.next else []),
        Listing(stack(suspect)),
    ]


def stack(suspect: Suspect) -> list[str]:
    """A line a frame, innermost first, `>` at the one to look at; the middle of a long one is left out."""
    frames = suspect.site.stack
    marked = position(frames, suspect.blamed)
    left_out = {fold.start: fold for fold in folds(frames, suspect.blamed)}
    lines = []
    resume = 0
    for index, frame in enumerate(frames):
        if index in left_out:
            lines.append(f"  {printable(left_out[index].text)}")
            resume = left_out[index].stop
        if index >= resume:
            mark = ">" if index == marked else " "
            text = f"{mark} {wording.kind(frame):<7} {wording.name(frame)}  {wording.where(frame)}".rstrip()
            lines.append(printable(f"{text}  inlined" if frame.inlined else text))
    return lines
