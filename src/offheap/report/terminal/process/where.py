"""`offheap where` for people: owners with bars, readable in 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from offheap.analysis.owners.accounts import TITLES, Accounts, Owner, Part, total_bytes
from offheap.proc.cgroup import Cgroup
from offheap.quantities import format_duration, format_size
from offheap.report.terminal.process import native_heap
from offheap.report.text.printable import printable
from offheap.report.text.width import NARROW, width

_BAR, _TITLE, _LABEL = 28, 30, 11
_MOST_PARTS = 40
_EIGHTHS = " ▏▎▍▌▋▊▉"
_STYLES: dict[Owner, str] = {
    "java-heap": "green",
    "direct-buffers": "yellow",
    "malloc": "red",
    "anonymous": "red",
    "mapped-files": "blue",
    "shared-libraries": "blue",
    "jars": "blue",
}


_COUNTED: dict[Owner, str] = {"direct-buffers": "blocks", "jvm-malloc": "blocks", "malloc": "blocks"}


def print_where(out: Console, accounts: Accounts, *, full: bool = False) -> None:
    """Every owner with its share; `full` adds what its memory is made of."""
    memory = accounts.memory
    version = f", Java {accounts.java_version}" if accounts.java_version else ""
    out.print(
        Text(
            f"{format_size(memory.rss)} RSS of {printable(f'{accounts.name} (pid {accounts.pid}{version})')}",
            "bold",
        )
    )
    out.print()
    largest = max([holding.bytes for holding in accounts.holdings] + [accounts.unattributed_bytes, 1])
    for holding in accounts.holdings:
        style = _STYLES.get(holding.owner, "cyan")
        _print_line(out, TITLES[holding.owner], holding.bytes, accounts, largest, style)
        if full:
            _print_parts(out, holding.parts, _COUNTED.get(holding.owner, "ranges"))
    _print_line(out, "unattributed", accounts.unattributed_bytes, accounts, largest, "magenta")
    if full:
        _print_parts(out, accounts.unattributed)
    out.print()
    beside = f"PSS {format_size(memory.pss)}, swap {format_size(memory.swap)}, "
    _print_fact(out, "beside", beside + f"on transparent huge pages {format_size(memory.huge)}")
    if accounts.cgroup:
        _print_fact(out, "cgroup", _cgroup(accounts.cgroup))
    asked = ", ".join(accounts.sources)
    _print_fact(out, "from", "/proc" + (f"; the JVM's {asked}" if asked else ""))
    counted = {holding.owner for holding in accounts.holdings if holding.counted}
    if counted - {"direct-buffers"}:
        _print_fact(out, "malloc", "its pages are split by what Native Memory Tracking counts in them")
    elif counted:
        _print_fact(out, "malloc", "direct buffers are what the JDK counts of them, taken off its blocks")
    if accounts.native_heap:
        for sentence in native_heap.sentences(accounts.native_heap):
            _print_fact(out, "malloc", sentence)
    for sentence in accounts.missing:
        _print_fact(out, "not told", sentence)
    cost = f"; the JVM's answers cost it {format_size(accounts.cost_bytes)}" if accounts.cost_bytes else ""
    _print_fact(out, "cost", f"reading took {format_duration(accounts.seconds)}, nothing was stopped{cost}")
    if full and accounts.native_heap:
        native_heap.print_tables(out, accounts.native_heap)


def _print_line(out: Console, title: str, size: int, accounts: Accounts, largest: int, style: str) -> None:
    share = accounts.share(size)
    if width() < NARROW:
        out.print(Text(f"{format_size(size):>10}{share:>7.1%}  {title}"))
        return
    line = Text(f"{title:<{_TITLE}}{format_size(size):>10}{share:>7.1%}  ")
    line.append(_bar(size / largest), style)
    out.print(line)


def _print_parts(out: Console, parts: Sequence[Part], counted: str = "ranges") -> None:
    for part in parts[:_MOST_PARTS]:
        times = f" ({part.ranges:,} {counted})" if part.ranges > 1 else ""
        out.print(Text(f"{format_size(part.bytes):>14}  {printable(part.name)}{times}", "dim"))
    left = parts[_MOST_PARTS:]
    if left:
        out.print(
            Text(f"{format_size(total_bytes(left)):>14}  in {len(left)} more (--json has them all)", "dim")
        )


def _bar(share: float) -> str:
    eighths = round(share * _BAR * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _cgroup(cgroup: Cgroup) -> str:
    limit = "no limit" if cgroup.limit is None else f"limit {format_size(cgroup.limit)}"
    used = f"; {cgroup.usage / cgroup.limit:.0%}" if cgroup.limit else ""
    kernel = "" if cgroup.kernel is None else f", kernel {format_size(cgroup.kernel)}"
    return (
        f"version {cgroup.version}, {limit}, usage {format_size(cgroup.usage)}{used} "
        f"(anonymous {format_size(cgroup.anonymous)}, page cache {format_size(cgroup.page_cache)}{kernel})"
    )


def _print_fact(out: Console, label: str, fact: str) -> None:
    lines = textwrap.wrap(printable(fact), width() - _LABEL, break_long_words=False, break_on_hyphens=False)
    for number, line in enumerate(lines):
        out.print(Text.assemble((f"{label if not number else '':<{_LABEL}}", "bold"), line))
