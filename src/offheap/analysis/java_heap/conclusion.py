"""The conclusion on the Java heap as a whole, and which of native memory and the Java heap leaks."""

from __future__ import annotations

from offheap.analysis.java_heap.results import JavaHeapReport
from offheap.analysis.leaks.conclusion import Kind, conclude

# By the conclusions on native memory and on the Java heap; no sentence if neither leaks.
_COMPARED: dict[tuple[Kind, Kind], str] = {
    ("leak", "leak"): "Native memory leaks, and so does the Java heap.",
    ("leak", "growing"): "Native memory leaks; the Java heap grows, and is not shown to leak.",
    ("leak", "no leak"): "Native memory leaks, the Java heap does not.",
    ("leak", "cannot tell yet"): "Native memory leaks; whether the Java heap leaks is not known yet.",
    ("growing", "leak"): "The Java heap leaks; native memory grows, and is not shown to leak.",
    ("no leak", "leak"): "The Java heap leaks, native memory does not.",
    ("cannot tell yet", "leak"): "The Java heap leaks; whether native memory leaks is not known yet.",
}


def java_conclusion(report: JavaHeapReport) -> Kind:
    """A leak counts in any case; without a possible verdict there is no other conclusion."""
    found = conclude(report.suspects).kind
    return "cannot tell yet" if report.undecided and found != "leak" else found


def compared(native: Kind, report: JavaHeapReport) -> str:
    """Which of the two leaks, as one sentence; "" where neither does."""
    return _COMPARED.get((native, java_conclusion(report)), "")
