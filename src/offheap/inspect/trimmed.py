"""A process before and after malloc's free memory was returned."""

from __future__ import annotations

import time

from offheap.analysis.native_heap.results import Trimmed
from offheap.inspect.process import inspect_process
from offheap.probe.trim import trim


def trim_and_inspect(pid: int) -> Trimmed:
    """Errors as of `inspect_process` and `trim`."""
    before = inspect_process(pid, attach=False)
    began = time.monotonic()
    how = trim(pid)
    seconds = time.monotonic() - began
    after = inspect_process(pid, attach=False)
    rss = before.memory.rss, after.memory.rss
    return Trimmed(pid, before.name, how, seconds, *rss, before.native_heap, after.native_heap)
