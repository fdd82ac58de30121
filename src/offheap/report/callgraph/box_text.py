"""The text in a box of the call graph and on a call: lines that fit there."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len, chop_cells

from offheap.analysis.stacks.blame import blamed, short
from offheap.analysis.stacks.folding import folds
from offheap.analysis.totals.call_graph import Amount, Box
from offheap.quantities import format_size
from offheap.recording.model import Frame, Kind
from offheap.report.text.printable import printable

CHARACTER = 7.2  # pixels of a column at the size of font of the picture
LINE = 17.0  # pixels of height
PADDING = 8.0  # pixels beside the text
_MOST_COLUMNS = 44  # of a name: a class and its method, without the packages before them
_TOOLTIP_LINES, _TOOLTIP_COLUMNS = 40, 240  # bound the size of the picture


@dataclass(frozen=True)
class BoxLine:
    """kind: of the function whose name the text is; "": a line between functions, or a figure."""

    text: str
    kind: Kind | str = ""

    @property
    def width(self) -> float:
        """Pixels."""
        return cell_len(self.text) * CHARACTER


@dataclass(frozen=True)
class BoxText:
    functions: list[BoxLine]
    figures: list[BoxLine]
    tooltip: str

    @property
    def width(self) -> float:
        return max(line.width for line in (*self.functions, *self.figures)) + 2 * PADDING

    @property
    def height(self) -> float:
        return LINE * (len(self.functions) + len(self.figures)) + PADDING


def box_text(box: Box) -> BoxText:
    names = box.functions
    inward = names[::-1]
    lines = [BoxLine(_cut(frame), frame.kind) for frame in inward]
    # Shortened like stacks in other reports: the application's methods stay.
    for fold in reversed(folds(inward, blamed(inward))):
        lines[fold.start : fold.stop] = [BoxLine(fold.text)]
    lines.reverse()
    figures = [BoxLine(f"{figure(box.total)}  {box.total.share:.1%}")]
    if box.own == box.total:
        figures.append(BoxLine("all by itself"))
    elif box.own.malloc >= 1 or box.own.mapped >= 1:
        figures.append(BoxLine(f"itself {figure(box.own)}  {box.own.share:.1%}"))
    return BoxText(lines, figures, _tooltip(names, figures))


def figure(amount: Amount) -> str:
    """`1.2 MiB`, `4.0 GiB mmap`, or both."""
    mapped = f"{format_size(amount.mapped)} mmap" if amount.mapped >= 1 else ""
    in_blocks = format_size(amount.malloc) if amount.malloc >= 1 or not mapped else ""
    return " + ".join(part for part in (in_blocks, mapped) if part)


def _cut(frame: Frame) -> str:
    """A Java method's class and name are at the end, and a native function's name at the beginning."""
    name = printable(short(frame))
    if cell_len(name) <= _MOST_COLUMNS:
        return name
    if frame.kind in ("java", "class"):
        return "…" + chop_cells(name[::-1], _MOST_COLUMNS - 1)[0][::-1]
    return chop_cells(name, _MOST_COLUMNS - 1)[0] + "…"


def _tooltip(names: tuple[Frame, ...], figures: list[BoxLine]) -> str:
    shown = [printable(frame.name)[:_TOOLTIP_COLUMNS] for frame in names]
    if len(shown) > _TOOLTIP_LINES:
        half = _TOOLTIP_LINES // 2
        shown[half:-half] = ["…"]
    return "\n".join([*shown, *(line.text for line in figures)])
