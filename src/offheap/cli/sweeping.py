"""Removes what killed commands and programs left behind, before a command turns to a process."""

from __future__ import annotations


def sweep() -> None:
    """Removes stale files that nobody will ask for; cheap where nothing is left.

    A command that may read a live file does not call this before: the file could be the one to remove.
    """
    from offheap.probe.live_files import folders

    # The sweep imports numpy: 0.2 s of CPU.
    if folders.worth_sweeping():
        from offheap.probe.live_files import stale_files

        stale_files.sweep()
