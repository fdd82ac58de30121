"""Two histograms of the Java heap, some time apart."""

from __future__ import annotations

import time
from collections.abc import Callable

from offheap.analysis.owners.heap_growth import HeapGrowth, heap_growth
from offheap.jvm.listener import histogram
from offheap.jvm.listener.attach import AttachedVM
from offheap.jvm.texts import nmt


def compare_histograms(pid: int, seconds: float, on_first: Callable[[int], None]) -> HeapGrowth:
    """Each histogram makes the JVM collect its garbage; `on_first` gets the first one's number of classes."""
    first = histogram.take(pid)
    on_first(len(first.classes))
    time.sleep(seconds)
    last = histogram.take(pid)
    report = nmt.parse(AttachedVM(pid).jcmd("VM.native_memory summary scale=B"))
    return heap_growth(first, last, report)
