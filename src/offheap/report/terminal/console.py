"""The console that every report at a terminal writes to."""

from __future__ import annotations

from rich.console import Console

from offheap.report.text.width import output


def console() -> Console:
    """Standard output.  Lines are broken between words alone: a folded name cannot be searched."""
    return Console(file=output(), soft_wrap=True, highlight=False, markup=False, emoji=False)
