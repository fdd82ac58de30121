"""The answer about Java objects in words."""

from __future__ import annotations

from offheap.analysis.java_heap.results import JavaHeapReport
from offheap.analysis.leaks import answer as of_ranking


def answer(found: JavaHeapReport) -> str:
    """One or two sentences for the first screen of every report."""
    if found.undecided:
        return f"{found.undecided[0].upper()}{found.undecided[1:]}."
    return of_ranking.answer(found.suspects)
