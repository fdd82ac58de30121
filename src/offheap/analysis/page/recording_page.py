"""What the HTML page of a recording shows, computed: `report/html` writes it and computes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.java_heap.conclusion import compared, java_conclusion
from offheap.analysis.java_heap.results import JavaHeapReport
from offheap.analysis.java_heap.settled.settled_recording import with_java_objects
from offheap.analysis.leaks.conclusion import Conclusion, Kind, also, conclude
from offheap.analysis.leaks.leaks import Ranking, ranking
from offheap.analysis.leaks.results import Suspect
from offheap.analysis.leaks.rss_beside_leak import rss_note
from offheap.analysis.sites.results import Live
from offheap.analysis.stacks.namesakes import Mark, apart
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.statistics.estimates import Floats
from offheap.analysis.totals import totals as whole
from offheap.analysis.totals.call_graph import CallGraph, call_graph
from offheap.analysis.totals.downsampled_series import (
    DownsampledSeries,
    DownsampledSiteSeries,
    downsampled_series,
    downsampled_site_series,
)
from offheap.analysis.totals.stack_totals import StackTotals, ThreadShares, stack_totals, thread_shares
from offheap.quantities import PER_MINUTE, RateUnit, rate_unit
from offheap.recording.model import MMAP, Recording

# The table leaves out sites after these, the flame graph does not; the page says how many there are.
# A site takes 250 to 600 bytes of the page: 1.2 MB at most, in a file that a mail can carry.
MOST_SUSPECTS = 2000
# Snapshots in the chart of the process: more than a screen has columns.
MOST_SNAPSHOTS = 2000
# A stack of more threads counts for the threads that hold most of it.
MOST_THREADS = 4

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PageSites:
    """The sites in a table of the page, the worst first.

    suspects   the sites in the table, at most MOST_SUSPECTS
    count      of all suspects, shown or not
    over_time  one row for each suspect shown
    namesakes  for each suspect shown the marks that distinguish it from others of its name
    """

    suspects: tuple[Suspect, ...]
    count: int
    over_time: DownsampledSiteSeries
    namesakes: list[tuple[Mark, ...]]


@dataclass(frozen=True, slots=True)
class JavaHeapOnPage:
    """The Java heap beside native memory.

    kind      the conclusion on the Java heap
    compared  which of both memories leaks, as a sentence; "" where neither does
    """

    report: JavaHeapReport
    kind: Kind
    compared: str
    table: PageSites


@dataclass(frozen=True, slots=True)
class ProcessOverTime:
    """The process at some snapshots; first and last are among them.

    time       seconds since the start
    rss_bytes  0 where RSS is not known
    others     live bytes of malloc and of mappings, in two rows, of the sites that the headline is not about
    suspected  the same, of the sites that the headline is about
    """

    time: Floats
    rss_bytes: Integers
    others: Floats
    suspected: Floats


@dataclass(frozen=True, slots=True)
class RecordingPage:
    """Everything that the page shows.

    everything  the recording, with the Java objects that the last collection left
    also        what else grows, as sentences; "" if nothing does
    used        the stacks of `everything` that hold or ever allocated something
    totals, series, threads  of all stacks of `everything`
    limit_bytes, seconds_to_limit  of memory, None where none is known, and when all leaks together reach it
    rate_unit   of every rate in the page
    call_graph  of what is live, None where nothing is
    """

    recording: Recording
    everything: Recording
    live_bytes: Estimate
    live_blocks: Estimate
    by_kind: Live
    rate_unit: RateUnit
    rss_note: str
    conclusion: Conclusion
    also: str
    limit_bytes: int | None
    seconds_to_limit: Estimate | None
    used: Integers
    totals: StackTotals
    series: DownsampledSeries
    threads: ThreadShares
    table: PageSites
    process: ProcessOverTime
    java: JavaHeapOnPage | None
    call_graph: CallGraph | None

    def places(self) -> Integers:
        """Where each stack of `everything` is among those of the page; -1 for those left out."""
        place = np.full(len(self.totals.allocated_bytes), -1, np.int64)
        place[self.used] = np.arange(len(self.used))
        return place


def recording_page(
    recording: Recording,
    suspects: Sequence[Suspect],
    limit_bytes: int | None = None,
    seconds_to_limit: Estimate | None = None,
    java: JavaHeapReport | None = None,
) -> RecordingPage:
    """`suspects`: the recording's ranking, or some suspects of one; `java`: what its Java objects say."""
    live_bytes, live_blocks = whole.live(recording)
    everything = with_java_objects(recording)
    totals = stack_totals(everything)
    unit = _rate_unit([*suspects[:MOST_SUSPECTS], *(java.suspects[:MOST_SUSPECTS] if java else ())])
    ranked = replace(suspects if isinstance(suspects, Ranking) else ranking(recording), unit=unit)
    if isinstance(suspects, Ranking):
        suspects = ranked
    if java:
        java = replace(java, suspects=replace(java.suspects, unit=unit))
    conclusion = conclude(ranked)
    table = _table(everything, suspects)
    of_java = (
        JavaHeapOnPage(
            report=java,
            kind=java_conclusion(java),
            compared=compared(conclusion.kind, java),
            table=_table(everything, java.suspects),
        )
        if java
        else None
    )
    return RecordingPage(
        recording=recording,
        everything=everything,
        live_bytes=live_bytes,
        live_blocks=live_blocks,
        by_kind=whole.live_by_kind(recording),
        rate_unit=unit,
        rss_note=rss_note(recording, suspects),
        conclusion=conclusion,
        also=also(conclusion, ranked.rate_unit),
        limit_bytes=limit_bytes,
        seconds_to_limit=seconds_to_limit,
        used=np.flatnonzero(totals.allocated_bytes > 0),
        totals=totals,
        series=downsampled_series(everything),
        threads=thread_shares(everything, MOST_THREADS),
        table=table,
        process=_process(recording, table.suspects),
        java=of_java,
        call_graph=call_graph(recording) if len(recording.live) else None,
    )


def spread(count: int, most: int) -> Integers:
    """Indices of at most `most` of `count` in even steps; the first and the last are among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def _table(everything: Recording, suspects: Sequence[Suspect]) -> PageSites:
    shown = tuple(suspects[:MOST_SUSPECTS])
    sites = [suspect.site for suspect in shown]
    return PageSites(
        suspects=shown,
        count=len(suspects),
        over_time=downsampled_site_series(everything, sites),
        namesakes=apart(sites, [suspect.blamed for suspect in shown]),
    )


def _rate_unit(suspects: Sequence[Suspect]) -> RateUnit:
    """As Ranking.rate_unit has it, of suspects that were taken out of one."""
    rates = [one.growth_bytes_per_second.estimate for one in suspects if one.verdict in ("leak", "growing")]
    return rate_unit(rates) if rates else PER_MINUTE


def _process(recording: Recording, shown: Sequence[Suspect]) -> ProcessOverTime:
    rows = recording.process[spread(len(recording.process), MOST_SNAPSHOTS)]
    # The suspects that the headline is about.
    worst = [one for one in shown if one.verdict == shown[0].verdict in ("leak", "growing")]
    # Two series: the address space that a JVM reserves would hide what malloc holds.
    mapped = recording.stack_kinds == MMAP
    suspected = np.zeros(len(mapped), np.bool_)
    suspected[[stack for suspect in worst for stack in suspect.site.stacks]] = True
    held = whole.live_over_time(recording, 2 * mapped + suspected, 4, rows["time"])
    return ProcessOverTime(rows["time"], rows["rss_bytes"], others=held[[0, 2]], suspected=held[[1, 3]])
