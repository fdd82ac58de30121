"""`offheap where --all`: a line for each JVM."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from offheap.analysis.owners.accounts import JVMAccounts, Owner
from offheap.report.text.printable import printable

_MIB = 1 << 20
# The owners that differ most between JVMs; the rest is in one column, so that a line sums to RSS.
_COLUMNS: tuple[tuple[str, tuple[Owner, ...]], ...] = (
    ("HEAP", ("java-heap",)),
    ("META", ("metaspace", "class-space", "cds")),
    ("DIRECT", ("direct-buffers",)),
    ("MALLOC", ("malloc", "jvm-malloc")),
    ("FREE", ("malloc-free",)),
)


def print_all(out: Console, found: Sequence[JVMAccounts]) -> None:
    """The largest first."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("PID", "RSS", *(heading for heading, _ in _COLUMNS), "REST"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("MAIN", overflow="fold")
    for one in sorted(found, key=lambda one: -one.accounts.memory.rss if one.accounts else 0):
        name = Text(printable(one.name) or "?")
        if one.accounts is None:
            name.append(f" {printable(one.error)}", "dim")
            table.add_row(str(one.pid), *[""] * (len(_COLUMNS) + 2), name)
            continue
        groups, rest = one.accounts.by_group(owners for _, owners in _COLUMNS)
        sizes = (one.accounts.memory.rss, *groups, rest)
        table.add_row(str(one.pid), *(f"{size / _MIB:,.0f}" for size in sizes), name)
    out.print(table)
    out.print(Text("in MiB; META is metaspace, class space and CDS, FREE what malloc keeps free", "dim"))
