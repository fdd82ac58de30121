"""How the commands that only read a recording get it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offheap.recording.model import Recording


def read(path: str) -> Recording:
    """Load a recording for a command that reports on it and ends.

    Such a command makes a million small objects, none in a cycle and none to be freed before the end:
    the collector would go through all of them again and again, for a third of the command's time.
    """
    import gc

    from offheap.recording import load

    gc.disable()
    return load(path)
