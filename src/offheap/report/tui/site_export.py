"""A site's stack in the live view, and what the view writes to files: the table as CSV, one site as text."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

from offheap.analysis.leaks.results import Suspect
from offheap.analysis.live.view import View
from offheap.analysis.stacks import folding
from offheap.analysis.stacks.blame import position
from offheap.recording.model import Frame
from offheap.report.text import wording
from offheap.report.text.printable import printable
from offheap.report.tui import live_text

# A spreadsheet takes a cell that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def stack_lines(suspect: Suspect, full: bool = False) -> list[str]:
    """The stack, innermost first, `>` at the frame to look at; `full`: nothing of it is folded."""
    stack = suspect.site.stack
    blamed = position(stack, suspect.blamed)
    left_out = {} if full else {fold.start: fold for fold in folding.folds(stack, suspect.blamed)}
    lines, resume = [], 0
    for number, frame in enumerate(stack):
        if number in left_out:
            lines.append(f"  {printable(left_out[number].text)}")
            resume = left_out[number].stop
        if number >= resume:
            lines.append(_frame_line(frame, number == blamed, full))
    return lines


def folds(suspect: Suspect) -> bool:
    """Whether the stack is longer than it is shown, or a name in it is."""
    stack = suspect.site.stack
    return bool(folding.folds(stack, suspect.blamed)) or any(
        wording.name(frame) != frame.name for frame in stack
    )


def table_csv(view: View, order: Sequence[int]) -> str:
    """The table with all its columns, sizes in bytes and times in seconds, and each site's whole stack."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        (
            "verdict",
            "site",
            "kind",
            "live_bytes",
            "live_blocks",
            "growth_bytes_per_second",
            "growth_low",
            "growth_high",
            "age_seconds",
            "allocated_bytes",
            "stack",
        )
    )
    for site in order:
        row = view.row(site)
        writer.writerow(
            (
                row.suspect.verdict,
                _cell(row.suspect.blamed.name),
                row.suspect.site.kind,
                round(row.live_bytes),
                round(row.live_blocks),
                f"{row.growth.estimate:.1f}",
                f"{row.growth.low:.1f}",
                f"{row.growth.high:.1f}" if math.isfinite(row.growth.high) else "",
                "" if row.age is None else f"{row.age:.2f}",
                round(row.allocated),
                _cell("; ".join(frame.name for frame in row.suspect.site.stack)),
            )
        )
    return out.getvalue()


def _cell(name: str) -> str:
    """A spreadsheet takes what begins like this for a formula, and may run it; a class may be called so.

    Some drop blanks before it, and some of East Asia read the wide signs alike.
    """
    text = printable(name)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def stack_text(view: View, site: int) -> str:
    """One site for a ticket: what, how much, the whole stack."""
    row = view.row(site)
    head = [live_text.title(view.info, 200), live_text.state(view.info, view.over), ""]
    return "\n".join(
        [*head, *live_text.site_lines(row, view, site), "", *stack_lines(row.suspect, full=True), ""]
    )


def _frame_line(frame: Frame, blamed: bool, full: bool) -> str:
    name = printable(wording.name(frame, full))
    where = printable(wording.where(frame))
    inlined = "  inlined" if frame.inlined else ""
    return f"{'>' if blamed else ' '} {wording.kind(frame):<7} {name}{'  ' if where else ''}{where}{inlined}"
