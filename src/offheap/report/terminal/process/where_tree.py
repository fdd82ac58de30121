"""`offheap where --tree`: owners, the names below them, and the addresses behind those, the largest first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from offheap.analysis.owners.accounts import TITLES, Accounts, Owner, Placed, total_bytes
from offheap.quantities import format_size
from offheap.report.text.printable import printable

_MOST_NAMES, _MOST_RANGES = 20, 10


def print_tree(out: Console, accounts: Accounts) -> None:
    """malloc's pages are one owner here: blocks of several lie on the same page."""
    held: defaultdict[Owner | None, defaultdict[str, list[Placed]]] = defaultdict(lambda: defaultdict(list))
    for one in accounts.ranges:
        held[one.owner][one.name].append(one)
    out.print()
    root = Tree(_line(accounts.memory.rss, "RSS"), guide_style="dim")
    everything = {
        owner: [one for ranges in names.values() for one in ranges] for owner, names in held.items()
    }
    for owner in sorted(held, key=lambda owner: -total_bytes(everything[owner])):
        title = TITLES[owner] if owner else "unattributed"
        branch = root.add(_line(total_bytes(everything[owner]), title, "bold"))
        names = sorted(held[owner].items(), key=lambda item: -total_bytes(item[1]))
        for name, ranges in names[:_MOST_NAMES]:
            _add_ranges(branch.add(_line(total_bytes(ranges), name)), ranges)
        _add_rest(branch, [one for _, ranges in names[_MOST_NAMES:] for one in ranges])
    out.print(root)


def _add_ranges(branch: Tree, ranges: Sequence[Placed]) -> None:
    largest = sorted(ranges, key=lambda one: -one.bytes)
    for one in largest[:_MOST_RANGES]:
        branch.add(_line(one.bytes, f"{one.start:#014x}-{one.end:#014x} {one.permissions}", "dim"))
    _add_rest(branch, largest[_MOST_RANGES:])


def _add_rest(branch: Tree, left: Sequence[Placed]) -> None:
    if left:
        branch.add(_line(total_bytes(left), f"{len(left)} more ranges (--json has them all)", "dim"))


def _line(size: int, text: str, style: str = "") -> Text:
    return Text(f"{format_size(size):>9}  {printable(text)}", style)
