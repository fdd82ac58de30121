"""Live files that were removed and those that were kept, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from offheap.quantities import format_duration, format_size
from offheap.report.text.lines import put
from offheap.report.text.printable import printable
from offheap.report.text.width import width, wrapped
from offheap.report.text.wording import plural

if TYPE_CHECKING:
    from offheap.probe.live_files.stale_files import Survey

_MOST = 5  # in `offheap ps`


def print_files(out: Console, found: Survey, *, dry_run: bool) -> None:
    """Two lines a file, then the sum."""
    gone, kept = found.stale, [file for file in found.files if file.kept]
    for file in [*gone, *kept]:
        put(out, printable(str(file.path)))
        verb = "kept" if file.kept else "would be removed" if dry_run else "removed"
        why = file.kept or f"its process, PID {file.pid}, no longer exists"
        about = (
            f"{format_size(file.bytes)}, of {file.user}, {format_duration(file.seconds)} old; {verb}: {why}"
        )
        for line in wrapped(about, indent=4):
            put(out, line)
    if found.files:
        put(out)
    total = format_size(found.stale_bytes)
    besides = f"; {len(kept)} kept" if kept else ""
    if not gone:
        summary = f"nothing to remove{besides}"
    elif dry_run:
        summary = f"{len(gone)} would be removed ({total}){besides}; `offheap clean` removes them"
    else:
        summary = f"{len(gone)} removed ({total}){besides}"
    for line in wrapped(summary):
        put(out, line)


def print_stale(out: Console, found: Survey) -> None:
    """Those that belong to nobody, for `offheap ps`."""
    files, size = found.files, format_size(found.stale_bytes)
    text = (
        f"{plural(len(files), 'stale live file')} of {size}; `offheap clean` removes them, "
        "`offheap leaks FILE` reads one:"
    )
    for line in wrapped(text):
        put(out, line)
    for file in files[:_MOST]:
        about = f"  {format_size(file.bytes):>9}  {format_duration(file.seconds):>12} old"
        path = printable(str(file.path))
        for line in [f"{about}  {path}"] if len(about) + 2 + len(path) <= width() else [about, f"    {path}"]:
            put(out, line)
    if len(files) > _MOST:
        put(out, f"  and {len(files) - _MOST} more: offheap clean --dry-run")
