"""Figures scaled to the heap in use: each keeps its share of the estimate.

The heap in use also has older objects and the JVM's own.  Scaling shows the contents of the heap if the
unknown objects resemble the known ones.  Growth stays as estimated: older objects do not grow in number.
"""

from __future__ import annotations

from dataclasses import replace

from offheap.analysis.java_heap.java_ranking import JavaRanking
from offheap.analysis.java_heap.results import AfterCollection, ClassTotal, JavaHeapReport, Totals
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.statistics.estimates import Estimates


def scaled(found: JavaHeapReport) -> JavaHeapReport:
    """Live bytes of sites, classes and totals times heap in use over estimate; unchanged without books."""
    if found.books is None or found.books.estimate.estimate <= 0:
        return found
    factor = found.books.heap_bytes / found.books.estimate.estimate
    return replace(
        found,
        suspects=_ranking(found.suspects, factor),
        survivors=Totals(_times(found.survivors.bytes, factor), _times(found.survivors.objects, factor)),
        classes=tuple(_of_class(one, factor) for one in found.classes),
        after_collections=tuple(_after(one, factor) for one in found.after_collections),
        scaled=factor,
    )


def _ranking(ranked: JavaRanking, factor: float) -> JavaRanking:
    sites = ranked.sites
    sites = replace(
        sites,
        live_bytes=_all(sites.live_bytes, factor),
        live_blocks=_all(sites.live_blocks, factor),
        live_bytes_of=sites.live_bytes_of * factor,
    )
    return replace(ranked, sites=sites)


def _of_class(one: ClassTotal, factor: float) -> ClassTotal:
    return replace(
        one, live_bytes=_times(one.live_bytes, factor), live_objects=_times(one.live_objects, factor)
    )


def _after(one: AfterCollection, factor: float) -> AfterCollection:
    return replace(one, live_bytes=_times(one.live_bytes, factor))


def _times(one: Estimate, factor: float) -> Estimate:
    return Estimate(one.estimate * factor, one.low * factor, one.high * factor)


def _all(some: Estimates, factor: float) -> Estimates:
    return Estimates(some.estimate * factor, some.low * factor, some.high * factor)
