"""Lines that the reports of a recording share: labelled fields, what was recorded, what was lost."""

from __future__ import annotations

from rich.console import Console

from offheap.analysis.sites.results import Live
from offheap.analysis.totals.stats import Stats
from offheap.quantities import format_size
from offheap.report.text import wording
from offheap.report.text.lines import put
from offheap.report.text.printable import printable
from offheap.report.text.width import width

LABEL = 11  # columns


def print_recording(out: Console, stats: Stats) -> None:
    print_field(out, "recording", f"{wording.process(stats.info)}; {wording.mode(stats.info)}")
    print_field(
        out,
        "seen",
        f"live {_short_live(stats.live)}; {format_size(stats.allocated_bytes.estimate)} allocated "
        f"in {wording.plural(stats.sites, 'site')}; {wording.samples(stats)}",
    )
    print_gaps(out, stats)


def print_gaps(out: Console, stats: Stats) -> None:
    print_field(out, "lost", "; ".join(stats.losses) or "nothing")
    for index, sentence in enumerate(stats.coverage):
        print_field(out, "" if index else "not seen", sentence)


def print_field(out: Console, label: str, value: str, indent: int = 0) -> None:
    for index, line in enumerate(_lines(value, width() - indent - LABEL)):
        put(out, (f"{' ' * indent}{'' if index else label:<{LABEL}}", "dim"), line)


def _lines(value: str, room: int) -> list[str]:
    from textwrap import wrap

    return wrap(printable(value), room, break_long_words=False, break_on_hyphens=False) or [""]


def print_wrapped(out: Console, value: str, style: str) -> None:
    for line in _lines(value, width()):
        put(out, (line, style))


def _short_live(live: Live) -> str:
    malloc = f"malloc {format_size(live.malloc_bytes.estimate)}"
    if not live.mapped_bytes.estimate:
        return malloc
    return f"{malloc}, mapped {format_size(live.mapped_bytes.estimate)} of address space"
