"""Live files that were removed and those that were kept, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from offheap.quantities import format_duration, format_size
from offheap.report.text.lines import put
from offheap.report.text.printable import printable
from offheap.report.text.width import width, wrapped
from offheap.report.text.wording import plural

if TYPE_CHECKING:
    from offheap.probe.live_files.stale_files import LiveFileFound

_MOST = 5  # in `offheap ps`


def print_files(out: Console, found: Sequence[LiveFileFound], *, dry_run: bool) -> None:
    """Two lines a file, then the sum."""
    gone = [file for file in found if not file.kept]
    for file in [*gone, *(file for file in found if file.kept)]:
        put(out, printable(str(file.path)))
        verb = "kept" if file.kept else "would be removed" if dry_run else "removed"
        why = file.kept or f"its process, PID {file.pid}, no longer exists"
        about = (
            f"{format_size(file.bytes)}, of {file.user}, {format_duration(file.seconds)} old; {verb}: {why}"
        )
        for line in wrapped(about, indent=4):
            put(out, line)
    if found:
        put(out)
    total = format_size(sum(file.bytes for file in gone))
    kept = f"; {len(found) - len(gone)} kept" if len(found) > len(gone) else ""
    if not gone:
        summary = f"nothing to remove{kept}"
    elif dry_run:
        summary = f"{len(gone)} would be removed ({total}){kept}; `offheap clean` removes them"
    else:
        summary = f"{len(gone)} removed ({total}){kept}"
    for line in wrapped(summary):
        put(out, line)


def print_stale(out: Console, found: Sequence[LiveFileFound]) -> None:
    """Those that belong to nobody, for `offheap ps`."""
    size = format_size(sum(file.bytes for file in found))
    text = (
        f"{plural(len(found), 'stale live file')} of {size}; `offheap clean` removes them, "
        "`offheap leaks FILE` reads one:"
    )
    for line in wrapped(text):
        put(out, line)
    for file in found[:_MOST]:
        about = f"  {format_size(file.bytes):>9}  {format_duration(file.seconds):>12} old"
        path = printable(str(file.path))
        for line in [f"{about}  {path}"] if len(about) + 2 + len(path) <= width() else [about, f"    {path}"]:
            put(out, line)
    if len(found) > _MOST:
        put(out, f"  and {len(found) - _MOST} more: offheap clean --dry-run")
