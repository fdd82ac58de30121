"""Owners over time for people: first and last bytes, the rate with its interval, the verdict."""

from __future__ import annotations

import math
import textwrap

from rich.console import Console
from rich.text import Text

from offheap.analysis.owners.accounts import TITLES
from offheap.analysis.owners.results import OwnerGrowth, OwnersGrowth
from offheap.quantities import PER_SECOND, format_duration, format_size
from offheap.report.text.printable import printable
from offheap.report.text.width import NARROW, width

_TITLE, _LABEL = 30, 11
_STYLES = {"stable": "green", "cannot tell yet": "yellow"}


def print_growth(out: Console, found: OwnersGrowth, heading: str) -> None:
    """`heading`: of what process, a line."""
    out.print(Text(printable(heading), "bold"))
    out.print()
    out.print(Text(f"{_title('')}{'at first':>10}{'at last':>10}   growth (95 %)", "dim"))
    for one in found.owners:
        if one.bytes or one.first_bytes:
            title = next((t for name, t in TITLES.items() if name == one.owner), one.owner)
            _print_owner(out, title, one)
    _print_owner(out, "RSS", found.rss)
    out.print()
    verdict = found.verdict
    style = _STYLES.get(verdict.kind, "red")
    span = f"{found.readings} readings in {format_duration(found.seconds)}"
    out.print(
        Text.assemble((f"{'verdict':<{_LABEL}}", "bold"), (verdict.kind, f"bold {style}"), f"  ({span})")
    )
    print_fact(out, "why", verdict.why)
    for named in verdict.grown[1:]:
        size = format_size if named.unit == "bytes" else "{:.0f}".format
        print_fact(out, "", f"also {named.name}: {size(named.before)} to {size(named.after)} {named.unit}")
    if verdict.needs_seconds:
        print_fact(out, "needs", f"some {format_duration(verdict.needs_seconds)}")
    for number, command in enumerate(verdict.next):
        print_fact(out, "" if number else "next", command)


def _print_owner(out: Console, title: str, one: OwnerGrowth) -> None:
    line = f"{_title(printable(title))}{format_size(one.first_bytes):>10}{format_size(one.bytes):>10}   "
    growth = one.growth
    if growth is None:
        out.print(Text(line))
        return
    sure = growth.low > 0 or growth.high < 0
    low, estimate, high = map(PER_SECOND.format, (growth.low, growth.estimate, growth.high))
    # The growth that may have gone unseen is as much of an answer as the growth that was seen.
    unseen = f"none above {high}" if math.isfinite(growth.high) else "not known"
    unseen = unseen if growth.high >= 1 else "none"
    rate = f"{estimate} ({low} to {high})" if sure else unseen
    out.print(Text.assemble(line, (rate, "" if sure else "dim")), soft_wrap=True)


def _title(text: str) -> str:
    """The first cell of a row; on a narrow terminal a line of its own."""
    if width() >= NARROW:
        return f"{text[:_TITLE]:<{_TITLE}}"
    return f"{text}\n" if text else ""


def print_fact(out: Console, label: str, fact: str) -> None:
    """A line, or several, below the table."""
    lines = textwrap.wrap(printable(fact), width() - _LABEL, break_long_words=False, break_on_hyphens=False)
    for number, line in enumerate(lines):
        out.print(Text.assemble((f"{label if not number else '':<{_LABEL}}", "bold"), line), soft_wrap=True)
