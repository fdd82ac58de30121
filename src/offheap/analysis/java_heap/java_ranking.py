"""Who keeps Java objects: the ranking of their sites, by what survived collections.

The mathematics is that of native memory (docs/verdicts.md), applied to the objects that survived the last
collection, which freed unused objects.  Garbage in the old generation stays: it waits for a collection of the
whole heap, and accumulates at one rate like a leak.  So a site leaks only if the survivors of the last
collection of the whole heap also say so.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.java_heap import levels_and_shares
from offheap.analysis.java_heap.settled.last_collection import Ran, as_of, ran
from offheap.analysis.java_heap.settled.settled_history import settled_histories
from offheap.analysis.leaks.leaks import Ranking, order
from offheap.analysis.leaks.reasons_in_words import why
from offheap.analysis.sites.grouping import Grouping
from offheap.analysis.sites.sites import SiteTable, group, table
from offheap.analysis.statistics.estimates import Floats, zeros
from offheap.analysis.verdicts.collected import DOUBTED, Collected
from offheap.analysis.verdicts.power import Power, growth_limits
from offheap.analysis.verdicts.site_history import Histories, histories
from offheap.analysis.verdicts.site_verdicts import judge
from offheap.analysis.verdicts.survivor_layer import LIKELY
from offheap.analysis.verdicts.verdict_reasons import Judgements, Reason
from offheap.quantities import format_duration, format_size
from offheap.recording.model import Frame, Recording

Bools = NDArray[np.bool_]

_COLLECT = (
    "offheap attach PID --java-heap --gc asks for a collection of the whole heap and judges what survives it"
)
_NO_LEAK = 0.9  # confidence that growth is no leak, as of the other kinds of growth that are none
_FILLING = frozenset(map(int, (Reason.FILLS, Reason.SLOWS, Reason.EVICTS)))


def java_ranking(recording: Recording, grouping: Grouping | None = None) -> JavaRanking:
    """Every site of Java objects that survived the last collection, or died, the worst first.

    `recording`: the whole one; `grouping`: of the stacks; None: into sites.
    """
    java = recording.java or without_objects(recording)
    known = ran(recording)
    survivors = as_of(java, known.last)
    grouping = grouping or group(survivors)
    sites = table(survivors, grouping)
    if not len(known.until):
        return _undecided(sites)
    history = settled_histories(survivors, grouping, known)
    confirmed, sure = _by_whole_heap(java, grouping, known)
    judgements = _judge(sites, history, ~confirmed, sure)
    leaks = judgements.reason == Reason.LEAKS
    confidence = np.where(leaks, np.minimum(judgements.confidence, sure), judgements.confidence)
    judgements = replace(judgements, confidence=confidence)
    none = np.zeros(len(sites), np.bool_)
    return JavaRanking(
        sites,
        judgements,
        order(sites, judgements, none),
        hidden=growth_limits(sites, history, judgements.growth),
        by_jvm=none,
        history=history,
        _below=~none,
        _owned=~none,
        collections=known,
    )


def without_objects(recording: Recording) -> Recording:
    """A recording of Java objects without any: nothing was followed."""
    return replace(
        recording,
        live=recording.live[:0],
        series=recording.series[:0],
        process=recording.process[:0],
        java=None,
    )


def _by_whole_heap(java: Recording, grouping: Grouping, known: Ran) -> tuple[Bools, Floats]:
    """By site, whether it leaks by what survived collections of the whole heap, and how sure that is.

    If the last collection was of the whole heap, its survivors decide alone.  An early one does not count:
    sessions of a minute look like a leak at a collection after half a minute.  If kinds are unknown, a leak
    may be garbage that waits.
    """
    count, last = len(grouping.members), known.last_whole
    if last is None:
        return np.ones(count, np.bool_), np.full(count, DOUBTED)
    if last >= known.last:
        return np.ones(count, np.bool_), np.ones(count)
    if not known.whole_lately:
        return np.zeros(count, np.bool_), np.ones(count)
    then = as_of(java, last)
    history = settled_histories(then, grouping, known)
    found = _judge(table(then, grouping), history, np.zeros(count, np.bool_), np.ones(count))
    return found.reason == Reason.LEAKS, found.confidence


def _judge(sites: SiteTable, history: Histories, uncollected: Bools, sure: Floats) -> Judgements:
    none = np.zeros(len(sites), np.bool_)
    seen = replace(Collected.nothing(len(sites)), uncollected=uncollected, most_sure=sure)
    age = sites.recording.info.process_age + float(history.times[-1])
    return _examined(judge(sites, history, none, none, seen, age=age), history)


def _examined(found: Judgements, history: Histories) -> Judgements:
    """The judgements, with the questions of `levels_and_shares` asked about each leak."""
    reason, confidence = found.reason.copy(), found.confidence.copy()
    for number in np.flatnonzero(np.isin(reason, (Reason.LEAKS, Reason.UNCOLLECTED))).tolist():
        level = levels_and_shares.level(history, number)
        if level is not None:
            if level.high < found.growth.low[number]:
                reason[number], confidence[number] = Reason.OLD_DIE, _NO_LEAK
            elif level.low <= 0 or level.low > found.growth.high[number]:
                # The survivors of a leak raise the level; nothing else raises it for long.
                reason[number], confidence[number] = Reason.MAY_END, _NO_LEAK
            continue
        same = levels_and_shares.one_share(history, number)
        if same <= LIKELY:
            reason[number], confidence[number] = Reason.OLD_DIE, _NO_LEAK
        elif reason[number] == Reason.LEAKS:
            confidence[number] = min(confidence[number], same)
    return replace(found, reason=reason, seen=reason, confidence=confidence)


def _undecided(sites: SiteTable) -> JavaRanking:
    """No collection ran: no object is known to be live."""
    count = len(sites)
    history = histories(sites.recording, sites.grouping)
    none = np.zeros(count, np.bool_)
    found = judge(sites, history, none, none, Collected.nothing(count), age=sites.recording.info.process_age)
    open_ = np.full(count, Reason.NO_COLLECTION)
    nothing, zero = np.zeros(count), zeros(count)
    judgements = replace(
        found, reason=open_, seen=open_, confidence=nothing, growth=zero, grown=zero, may_fill=none
    )
    allocated = sites.allocated_bytes.estimate
    ranks = np.argsort(-allocated, kind="stable")
    return JavaRanking(
        sites,
        judgements,
        ranks[allocated[ranks] > 0],
        hidden=np.full(count, math.inf),
        by_jvm=none,
        history=history,
        _below=~none,
        _owned=~none,
    )


@dataclass(frozen=True)
class JavaRanking(Ranking):
    """Sites of Java objects; what is live at one survived the last collection.

    collections  None: none ran
    """

    thing: ClassVar[str] = "object"
    finer: ClassVar[str] = "--java-heap-interval"
    waits: ClassVar[str] = "A collection of the whole heap might still free it."

    collections: Ran | None = None

    def power(self, without: Collection[int] = ()) -> Power:
        found = super().power(without)
        return found if self.collections else replace(found, new_site=math.inf)

    @property
    def lost_samples(self) -> int:
        return self.sites.recording.info.lost.get("lost_objects", 0)

    def uncollected(self, place: int) -> bool:
        return self[place].waits_for_gc

    def _collected(self, number: int) -> tuple[bool, str]:
        ran = self.collections
        if ran is None or not ran.kinds:
            return True, "which collections ran is not known: one of the whole heap might still free it"
        if Reason(self._judgements.seen[number]) == Reason.UNCOLLECTED:
            return True, ""
        if (ran.last_whole or 0.0) <= 0:
            return True, "it survived young collections only: one of the whole heap might still free it"
        if not ran.whole_lately:
            since = format_duration(ran.last - (ran.last_whole or 0.0))
            return True, (
                f"only young collections ran in the last {since}: one of the whole heap might still free it"
            )
        return False, "it survived a collection of the whole heap"

    def _next(self, number: int, stack: Sequence[Frame], waits: bool) -> str:
        judged = self._judgements
        reason = Reason(judged.reason[number])
        steps = []
        if waits or reason == Reason.NO_COLLECTION:
            ended = self.sites.recording.info.ended in ("exited", "killed")
            steps.append(f"when it runs again, {_COLLECT}" if ended else _COLLECT)
        if judged.may_fill[number] or judged.seen.item(number) in _FILLING:
            steps.append("if it is a cache, compare its entries with its bound")
        if reason == Reason.LEAKS:
            steps.append(
                "jcmd PID GC.heap_dump heap.hprof, in a heap dump tool, shows what holds the objects"
            )
        return "; ".join(steps)

    def _why(self, number: int) -> str:
        judged = self._judgements
        if Reason(judged.seen[number]) != Reason.UNCOLLECTED:
            return why(judged, self.sites, number, self.rate_unit, self.thing)
        rate = self.rate_unit.format(float(judged.growth.estimate[number]))
        live = format_size(float(self.sites.live_bytes.estimate[number]))
        return (
            f"live bytes grow by {rate}, but by the last collection of the whole heap that is not shown: "
            f"{live} survived young collections, and may be garbage that waits"
        )
