"""What the live view says, as plain text: cells of the table, sparklines, the words around them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from offheap.analysis.leaks.results import Suspect
from offheap.analysis.live.view import SiteNow, Sort, View
from offheap.analysis.stacks.blame import position
from offheap.analysis.stacks.namesakes import brief
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.verdicts.verdict_reasons import Verdict
from offheap.quantities import RateUnit, format_count, format_duration, format_size
from offheap.recording.model import Frame, Info
from offheap.report.text import wording
from offheap.report.text.namesakes import beside, fitted
from offheap.report.text.printable import printable

_BARS = "▁▂▃▄▅▆▇█"

# In front of a site; a word in wide tables and for one site.
MARKS: dict[Verdict, str] = {
    "leak": "!",
    "growing": "+",
    "cannot tell yet": "?",
    "steady": " ",
    "startup": " ",
    "freed": " ",
}
_SIZES = ((1, "B"), (1024, "KiB"), (1024**2, "MiB"), (1024**3, "GiB"), (1024**4, "TiB"), (1024**5, "PiB"))
_MAPPED = {"mmap": "mmap "}  # in front of a site: address space, touched or not
_WIDE = 100  # columns from which on there is room for a caller
_RECENT = 2.0  # seconds: verdicts of a reading before the last need not be dated


@dataclass(frozen=True, slots=True)
class Column:
    """`least`: the terminal's columns from which on it is shown; the last one takes the rest."""

    name: str
    width: int
    least: int
    sort: Sort | None = None
    left: bool = False


COLUMNS = (
    Column("", 2, 0, None, True),
    Column("live", 8, 0, "live"),
    Column("growth", 12, 0, "growth"),
    Column("95 % interval", 15, 72),
    Column("blocks", 7, 96, "blocks"),
    Column("age", 6, 64, "age"),
    Column("allocated", 9, 120, "allocated"),
    Column("over time", 9, 80, None, True),
    Column("verdict", 8, 130, None, True),
    Column("site", 0, 0, "name", True),
)


def columns(width: int) -> tuple[Column, ...]:
    """Those that fit a terminal of that width."""
    return tuple(column for column in COLUMNS if width >= column.least)


def header(width: int, sort: Sort, reverse: bool) -> str:
    """The names of the columns, an arrow at the one the table is sorted by."""
    arrow = "▴" if reverse != (sort == "name") else "▾"
    cells = [column.name + (arrow if column.sort == sort else "") for column in columns(width)]
    return _line(width, cells)


def table_line(row: SiteNow, width: int, unit: RateUnit) -> str:
    """A site as a line of exactly `width` columns; `unit` of its rates, as of all."""
    cells = {
        "": f" {MARKS[row.suspect.verdict]}",
        "live": short_size(row.live_bytes),
        "growth": rate(row.growth, unit),
        "95 % interval": rate_interval(row.growth, unit),
        "blocks": short_count(row.live_blocks),
        "age": short_duration(row.age),
        "allocated": short_size(row.allocated),
        "over time": sparkline(row.trend, 9),
        "verdict": _VERDICTS[row.suspect.verdict],
        "site": _site(row, width),
    }
    return _line(width, [cells[column.name] for column in columns(width)])


def _site(row: SiteNow, width: int) -> str:
    """The name; and what tells it from others of its name, or where there is room, its caller."""
    mapped = _MAPPED.get(row.suspect.site.kind, "")
    if row.marks:
        room = width - len(mapped) - sum(column.width + 1 for column in columns(width) if column.width)
        return mapped + printable(fitted(row.suspect.blamed, row.marks, room))
    return mapped + label(row.suspect) + (called(row.suspect) if width >= _WIDE else "")


def label(suspect: Suspect) -> str:
    """The blamed method without its package: `PriceImport.openFeed`; the function of native code."""
    return _short(suspect.blamed)


def called(suspect: Suspect) -> str:
    """` ← ` and the caller of the blamed frame: several sites may blame one function."""
    stack = suspect.site.stack
    at = position(stack, suspect.blamed)
    return f" ← {_short(stack[at + 1])}" if at is not None and at + 1 < len(stack) else ""


def sparkline(values: Sequence[float], width: int) -> str:
    """Bars, the latest at the right; fewer values than columns leave room at the left.

    They show the change, from half its size below the least value (or zero) up to the largest: bars
    from zero would hide the growth of a site that was large before.  A change under 0.1 % is a flat line.
    """
    if len(values) > width:
        # The largest of each stretch: a peak must not fall between two columns.
        cuts = [round(n * len(values) / width) for n in range(width + 1)]
        values = [max(values[low:high]) for low, high in pairwise(cuts)]
    top, least = max(values, default=0.0), min(values, default=0.0)
    if top <= 0:
        return "".ljust(width)
    if top - least <= 0.001 * top:
        return (_BARS[len(_BARS) // 2 - 1] * len(values)).rjust(width)
    bottom = max(least - (top - least) / 2, 0.0)
    steps = len(_BARS) - 1
    return "".join(_BARS[round((value - bottom) / (top - bottom) * steps)] for value in values).rjust(width)


def rate(growth: Estimate, unit: RateUnit) -> str:
    """`+1.5 MiB/s`, `-3.0 KiB/min`; 0 has no sign."""
    amount = short_size(growth.estimate * unit.seconds)
    if amount == "0 B":
        return "0"
    return f"{'+' if growth.estimate > 0 else ''}{amount}/{unit.name}"


def rate_interval(growth: Estimate, unit: RateUnit) -> str:
    """`0.9 to 2.1 MiB`, per unit of time of `rate`, 15 columns; "exact" for one without width."""
    if growth.low == growth.high:
        return "exact"
    low, high = growth.low * unit.seconds, growth.high * unit.seconds
    finite = [abs(end) for end in (low, high) if math.isfinite(end)]
    largest = max(finite, default=0.0)
    scale, size = next((s, u) for s, u in _SIZES if round(largest / s) < 1000 or u == "PiB")
    return f"{_figure(low / scale)} to {_figure(high / scale)} {size}"


def short_size(size: float) -> str:
    """As format_size; a whole number of its unit from 10 on, so that it takes 8 columns at most."""
    text = format_size(size)
    number, _, unit = text.rpartition(" ")
    if number.replace(".", "").lstrip("-").isdigit() and abs(float(number)) >= 10:
        return f"{float(number):.0f} {unit}"
    return text


def short_count(count: float) -> str:
    return format_count(count).replace(" M", "M")


def short_duration(seconds: float | None) -> str:
    """`0.4 s`, `12 s`, `3 min`, `2.1 h`, `4.0 d`: 6 columns at most."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    for size, name in ((60, "min"), (3600, "h"), (86400, "d")):
        amount = seconds / size
        if amount < 99.5 or name == "d":
            return f"{amount:.0f} {name}" if amount >= 9.95 or name == "min" else f"{amount:.1f} {name}"
    raise AssertionError("unreachable")


def title(info: Info, room: int) -> str:
    """The process, and how it is recorded; what does not fit is left out from the end."""
    java = f"Java {info.java_version}" if info.java_version else ""
    parts = [
        printable(part) for part in (f"PID {info.pid}", info.main_class, java, wording.sampling(info)) if part
    ]
    while len("  ".join(parts)) > room and len(parts) > 2:
        parts.pop()
    return clipped("  ".join(parts), room)


def clipped(text: str, room: int) -> str:
    return text if len(text) <= room else text[: max(room - 1, 0)] + "…"


def state(info: Info, over: bool) -> str:
    """Whether it goes on."""
    words = {
        "recording": "recording",
        "detached": "probe stopped",
        "exited": "process exited",
        "killed": "process was killed",
    }[info.ended]
    if over and info.ended == "recording":
        words = "recording ended"
    return f"{words}, {short_duration(info.duration_seconds)}"


def totals(view: View, width: int) -> list[str]:
    """RSS and live malloc blocks, each with its sparkline and growth; mappings behind, if there is room."""
    bars = min(max(width - 50, 8), 48)
    mapped = f"  mapped {short_size(view.mapped_bytes)}" if view.mapped_bytes and width >= 70 else ""
    lines = []
    for name, values, more in (
        ("RSS", [float(snapshot.rss_bytes) for snapshot in view.snapshots], ""),
        ("malloc", view.malloc_bytes, mapped),
    ):
        if name == "RSS" and not values[-1]:
            lines.append(f"{name:<6}{'unknown':>9}")
            continue
        growth = view.rate(values)
        grows = "" if growth is None else rate(Estimate(growth, growth, growth), view.names.rate_unit)
        lines.append(
            f"{name:<6}{format_size(values[-1]):>9}  {sparkline(values, bars)}  {grows:<11}{more}".rstrip()
        )
    return lines


def window(view: View) -> str:
    """What growth is measured over."""
    if view.baseline is not None:
        if not view.window:
            return "growth: since the baseline, marked just now"
        return f"growth: since the baseline, {short_duration(view.window)} ago"
    ago = view.now.time - view.names.time
    judged = f", as of {short_duration(ago)} ago" if ago >= _RECENT else ""
    if view.names.by_birth:
        return f"growth: of what survived, by its birth{judged}"
    return f"growth: over the last two thirds{judged}"


def pages(view: View) -> str:
    """How old the readings of RSS are that the answer takes in; "" where they are new, or there are none."""
    read = view.names.owners_time
    ago = 0.0 if read is None else view.now.time - read
    return f"RSS by owner: as of {short_duration(ago)} ago" if ago >= _RECENT else ""


def heading(row: SiteNow) -> str:
    """The site's name, and what tells it from others of its name."""
    return f"{label(row.suspect)} {printable(beside(row.marks, brief))}".rstrip()


def site_lines(row: SiteNow, view: View, site: int) -> list[str]:
    """One site in words and figures, above its stack."""
    suspect, unit = row.suspect, view.names.rate_unit
    sure = f", confidence {suspect.confidence:.0%}" if suspect.confidence else ""
    age = f", on average {format_duration(row.age)} old" if row.age is not None else ""
    held = wording.holding(suspect.site.kind, *view.live_now(site), view.shown_now(site), age)
    grows = f"{rate(row.growth, unit)} ({rate_interval(row.growth, unit)})"
    threads = ", ".join(printable(name) for name in suspect.site.threads)
    lines = [
        f"{suspect.verdict.upper()}{sure}  ({suspect.site.kind})",
        f"why        {printable(suspect.why)}",
        *([f"next       {suspect.next}"] if suspect.next else []),
        f"live       {held}",
        f"growth     {grows}; {window(view).partition(': ')[2]}",
        f"allocated  {format_size(row.allocated)} since the recording started",
        f"over time  {sparkline(row.trend, 48).strip()}",
        f"by age     {sparkline(view.births(site, 40), 40)}  live now, old to young",
    ]
    return [*lines, f"threads    {threads}"] if threads else lines


_VERDICTS: dict[Verdict, str] = {verdict: str(verdict) for verdict in MARKS} | {"cannot tell yet": "unclear"}


def _short(frame: Frame) -> str:
    return printable(brief(frame))


def _figure(value: float) -> str:
    if not math.isfinite(value):
        return "?"
    text = f"{value:.1f}" if abs(value) < 9.95 else f"{value:.0f}"
    return "0" if not text.strip("-0.") else text


def _line(width: int, cells: Sequence[str]) -> str:
    parts = []
    for column, cell in zip(columns(width), cells, strict=True):
        if not column.width:
            parts.append(cell)
        elif column.left:
            parts.append(cell[: column.width].ljust(column.width))
        else:
            parts.append(cell.rjust(column.width))
    line = " ".join(parts)
    return clipped(line, width).ljust(width)
