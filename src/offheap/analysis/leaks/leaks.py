"""Who leaks: every site with its verdict, its confidence and one sentence with the figures behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, overload

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.leaks.capacities import advice
from offheap.analysis.leaks.reasons_in_words import why
from offheap.analysis.leaks.reconcile import Level, level
from offheap.analysis.leaks.results import Suspect
from offheap.analysis.leaks.time_to_limit import Room, room
from offheap.analysis.owners.results import OwnersGrowth
from offheap.analysis.owners.verdict import judge as judge_owners
from offheap.analysis.sites.grouping import Grouping
from offheap.analysis.sites.sites import SiteTable, table
from offheap.analysis.stacks.blame import blamed, called, nobody_called
from offheap.analysis.stacks.callbacks import callback
from offheap.analysis.stacks.frames import class_of
from offheap.analysis.stacks.origins import origins
from offheap.analysis.stacks.packages import Application
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.statistics.estimates import Estimates
from offheap.analysis.totals import totals
from offheap.analysis.totals.stats import lost_samples
from offheap.analysis.verdicts.collected import collected
from offheap.analysis.verdicts.power import Power, growth_limits, new_site_limit, wave_limits
from offheap.analysis.verdicts.site_history import Histories, histories
from offheap.analysis.verdicts.site_verdicts import judge
from offheap.analysis.verdicts.survival import Survival, survival
from offheap.analysis.verdicts.verdict_reasons import (
    VERDICTS,
    Judgements,
    Reason,
    Verdict,
    of_java_heap,
    without_births,
)
from offheap.quantities import PER_MINUTE, RateUnit, rate_unit
from offheap.recording.model import Frame, Recording

_MAY_BE_FREED = "a collection might still free it (--gc rules that out)"
# As numbers: an array of reasons holds those.
_FILLING = frozenset(map(int, (Reason.FILLS, Reason.SLOWS, Reason.EVICTS)))
_COLLECT = "offheap attach PID --gc asks for a collection and judges what survives it"
_OWNERS = {True: "Java objects own it", False: "Java objects may own it"}

# The order of verdicts in every report, the worst first.
SERIOUSNESS: dict[Verdict, int] = {
    "leak": 0,
    "growing": 1,
    "cannot tell yet": 2,
    "steady": 3,
    "startup": 3,
    "freed": 4,
}


def suspects(recording: Recording) -> list[Suspect]:
    """Every site that holds or held memory, the worst first: `ranking`, each as an object."""
    return list(ranking(recording))


# Replaces judgements by those that a live view lets stand; a site's key is the first of its stacks.
Settle = Callable[[Judgements, Sequence[int]], Judgements]


def ranking(
    recording: Recording,
    limit_bytes: int | None = None,
    settle: Settle | None = None,
    grouping: Grouping | None = None,
) -> Ranking:
    """Every site that holds or held memory, the worst first.

    Order: leak, growing, cannot tell yet, then steady and startup, then freed; within a verdict the
    application's sites before those HotSpot has for itself; within those the lower bound of growth.
    `limit_bytes`: of memory; None: the container's, if the recording has one.
    `settle`: how a live view changes the judgements, see `standing_verdict`.
    `grouping`: of the stacks; None: into sites.
    """
    sites = table(recording, grouping)
    wanted = origins(recording, sites.shown)
    history = histories(recording, sites.grouping)
    age = recording.info.process_age + float(history.times[-1])
    asked = recording.info.after_collection
    survived = None if asked else survival(recording, sites.grouping.of_stack, len(sites))
    seen = collected(
        recording,
        sites,
        history,
        survived,
        below=wanted.below,
        owned=wanted.owned,
        classes=wanted.classes,
    )
    judgements = judge(sites, history, wanted.by_jvm, wanted.on_jvm_threads, seen, age=age)
    judgements = of_java_heap(judgements, wanted.java_heap)
    if not recording.info.births:
        judgements = without_births(judgements)
    if settle:
        judgements = settle(judgements, [members[0] for members in sites.grouping.members])
    return Ranking(
        sites,
        judgements,
        order(sites, judgements, wanted.by_jvm),
        hidden=np.maximum(growth_limits(sites, history, judgements.growth), wave_limits(sites, history)),
        by_jvm=wanted.by_jvm,
        history=history,
        _below=wanted.below,
        _owned=wanted.owned | seen.batches,
        _survival=survived,
        room=room(recording, limit_bytes),
    )


def order(sites: SiteTable, judgements: Judgements, by_jvm: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The numbers of sites that hold or held memory, by rank: see `ranking`."""
    ranks = np.lexsort(
        (
            -sites.live_bytes.estimate,
            -np.maximum(judgements.growth.low, 0.0),
            by_jvm,
            np.array([SERIOUSNESS[VERDICTS[reason]] for reason in Reason])[judgements.reason],
        )
    )
    known = (sites.allocated_bytes.high != 0) | (sites.live_bytes.high != 0)
    chosen: NDArray[np.int64] = ranks[known[ranks]]
    return chosen


@dataclass(frozen=True)
class Ranking(Sequence[Suspect]):
    """Suspects by rank, each made when asked for: of ten thousand sites a report shows ten.

    thing   what a site allocates, in the singular
    waits   a sentence for an answer about a site that no collection is known to have met
    finer   the option that sets the sampling interval
    hidden  by site number: the rate of a leak that may be hidden in it, bytes a second
    by_jvm  by site number: whether HotSpot itself wanted the memory
    history of the sites, by number
    unit    of rates in words; None: the one that suits what leaks or grows here
    """

    thing: ClassVar[str] = "block"
    finer: ClassVar[str] = "--interval"
    waits: ClassVar[str] = "Java objects may own it: a garbage collection might still free it."

    sites: SiteTable
    _judgements: Judgements
    _order: NDArray[np.int64]  # site numbers by rank
    hidden: NDArray[np.float64]
    by_jvm: NDArray[np.bool_]
    history: Histories
    _below: NDArray[np.bool_]
    _owned: NDArray[np.bool_]
    _survival: Survival | None = None  # None: nobody counted the JVM's collections, or one was asked for
    room: Room | None = None  # to the limit of memory
    unit: RateUnit | None = None

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, index: int) -> Suspect: ...
    @overload
    def __getitem__(self, index: slice) -> list[Suspect]: ...
    def __getitem__(self, index: int | slice) -> Suspect | list[Suspect]:
        if isinstance(index, slice):
            return [self._suspect(place) for place in range(len(self))[index]]
        return self._suspect(range(len(self))[index])

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """By rank."""
        return [VERDICTS[Reason(reason)] for reason in self._judgements.reason[self._order].tolist()]

    def worst(self, numbers: NDArray[np.int64]) -> dict[int, Verdict]:
        """The worst verdict by number; `numbers`: by stack, of a site that more recordings share."""
        found: dict[int, Verdict] = {}
        for place, verdict in enumerate(self.verdicts):  # the worst first
            for stack in self.sites.grouping.members[self.number(place)]:
                found.setdefault(int(numbers[stack]), verdict)
        return found

    def notable(self, most: int) -> Iterator[Suspect]:
        """At most so many, by rank: what leaks, grows or cannot be told yet, and the largest others."""
        classes = np.array([SERIOUSNESS[verdict] for verdict in self.verdicts], np.int64)
        live = self.sites.live_bytes.estimate[self._order]
        first = np.lexsort((-live, classes > SERIOUSNESS["cannot tell yet"]))
        # Rank goes by verdict, not by size.
        notable = int((classes <= SERIOUSNESS["cannot tell yet"]).sum())
        first[:notable] = np.arange(notable)
        return (self._suspect(place) for place in sorted(first[:most].tolist()))

    def growing(self, without: Collection[int] = ()) -> list[int]:
        """By rank, the application's sites that grow and are not shown to leak; without these ranks.

        HotSpot's own growth, which nobody asked for, is not the application's.
        """
        return [
            place
            for place, verdict in enumerate(self.verdicts)
            if verdict == "growing"
            and place not in without
            and (self[place].blamed.kind != "jvm" or not self.by_jvm[self.number(place)])
        ]

    def power(self, without: Collection[int] = ()) -> Power:
        """What the recording can exclude, of the application's sites but for those with these ranks."""
        info = self.sites.recording.info
        reported = np.array([verdict in ("leak", "growing") for verdict in self.verdicts], np.bool_)
        asked = ~reported & ~self.by_jvm[self._order]
        asked[list(without)] = False
        numbers = self._order[asked]
        worst = int(numbers[self.hidden[numbers].argmax()]) if len(numbers) else None
        seconds = info.live_seconds
        # A lost sample may be one of the leak's.
        taken = totals.samples(self.sites.recording)
        missing = (taken + self.lost_samples) / max(taken, 1)
        return Power(
            new_site=new_site_limit(seconds, info.interval_bytes) * missing,
            existing_site=float(self.hidden[worst]) * missing if worst is not None else 0.0,
            seconds=seconds,
            interval_bytes=info.interval_bytes,
        )

    @property
    def lost_samples(self) -> int:
        """Samples that should be among those of these sites, and were lost."""
        return lost_samples(self.sites.recording.info)

    @cached_property
    def owners(self) -> OwnersGrowth | None:
        """Who holds RSS, judged by levels alone; None where nobody read it."""
        over = self.sites.recording.owners
        return judge_owners(over) if len(over.times) and over.names else None

    def level(self, without: Collection[int] = ()) -> Level | None:
        """Pages that grow beyond what the sites with these ranks, which are known, grow by; None: none do."""
        known = [self.growth(place) for place in without if self.verdicts[place] in ("leak", "growing")]
        return level(self.sites.recording, self.owners, known)

    def grew_most(self, without: Collection[int] = ()) -> str:
        """The site whose live blocks grew most, and its verdict: `Foo.bar (40 KiB/s, steady)`; "" if none."""
        rates = self._judgements.growth.estimate[self._order]
        rates[list(without)] = 0.0
        place = int(rates.argmax()) if len(rates) else -1
        if place < 0 or rates[place] <= 0:
            return ""
        suspect = self[place]
        rate = PER_MINUTE.format(suspect.growth_bytes_per_second.estimate)
        return f"{suspect.blamed.name} ({rate}, {suspect.verdict})"

    def uncollected(self, place: int) -> bool:
        """Whether Java objects may own it, which are not known to have met a collection."""
        ran, number = self._survival, int(self._order[place])
        return self[place].waits_for_gc and (ran is None or not ran.any[number])

    @cached_property
    def rate_unit(self) -> RateUnit:
        """The unit of all rates in a report: that of what leaks or grows; the minute where nothing does."""
        if self.unit:
            return self.unit
        suspicious = [*self.growths("leak"), *self.growths("growing")]
        return rate_unit(growth.estimate for growth in suspicious) if suspicious else PER_MINUTE

    def seconds_to_limit(self) -> Estimate | None:
        """Until all that leak together reach the limit; None without one, or without a leak."""
        return self.room.together(self.growths("leak")) if self.room else None

    def number(self, place: int) -> int:
        """A site's number, by rank."""
        return int(self._order[place])

    @property
    def rates(self) -> Estimates:
        """Growth in bytes a second, by site number."""
        return self._judgements.growth

    def growth(self, place: int) -> Estimate:
        """Bytes a second, by rank."""
        return self._judgements.growth.at(self.number(place))

    def growths(self, verdict: Verdict) -> list[Estimate]:
        """Bytes a second of the sites with this verdict, by rank."""
        numbers = self._order[[of == verdict for of in self.verdicts]]
        return [self._judgements.growth.at(number) for number in numbers.tolist()]

    def counts(self) -> Counter[Verdict]:
        """How many sites got each verdict, the worst first."""
        return Counter(self.verdicts)

    def live_bytes(self) -> dict[Verdict, float]:
        """Estimated, by verdict."""
        held: dict[Verdict, float] = {}
        for verdict, live in zip(
            self.verdicts, self.sites.live_bytes.estimate[self._order].tolist(), strict=True
        ):
            held[verdict] = held.get(verdict, 0.0) + live
        return held

    def _suspect(self, place: int) -> Suspect:
        number = int(self._order[place])
        site = self.sites.site(number)
        judged = self._judgements
        verdict = self.verdicts[place]
        growth = judged.growth.at(number)
        chosen = blamed(site.stack, self._application)
        asked = verdict in ("leak", "growing") and self._below[number]
        waits, survived = self._collected(number) if asked else (False, "")
        return Suspect(
            rank=place + 1,
            verdict=verdict,
            confidence=float(judged.confidence[number]),
            site=site,
            blamed=chosen,
            called=called(site.stack, chosen),
            triggers=self._triggers(number, site.stack),
            growth_bytes_per_second=growth,
            grown_bytes_per_second=judged.grown.at(number),
            old_bytes=judged.old.at(number),
            why="; ".join(
                filter(
                    None,
                    (
                        self._why(number),
                        survived,
                        self._kept(number),
                        nobody_called(site.stack, self._application),
                    ),
                )
            ),
            waits_for_gc=waits,
            seconds_to_limit=self.room.seconds(growth)
            if self.room and verdict in ("leak", "growing")
            else None,
            next=self._next(number, site.stack, waits),
            object_class=class_of(site.stack),
        )

    @cached_property
    def _application(self) -> Application:
        return Application.of(self.sites.recording.info)

    def _triggers(self, number: int, stack: Sequence[Frame]) -> tuple[Frame, ...]:
        """The Java methods that ran when an agent's callback was called, most live bytes first."""
        if callback(stack) is None:
            return ()
        recording, held = self.sites.recording, self.sites.held_by_stack(number)
        found: dict[Frame, None] = {}
        for member in sorted(held, key=lambda each: -held[each]):
            java = [frame for frame in recording.stack(member) if frame.kind == "java"]
            if java:
                found.setdefault(blamed(java, self._application))
        return tuple(found)

    def _next(self, number: int, stack: Sequence[Frame], waits: bool) -> str:
        """What tells a leak from garbage, or from a cache."""
        judged = self._judgements
        fills = judged.may_fill[number] or judged.seen.item(number) in _FILLING
        bound = advice(stack) if fills else ""
        ended = self.sites.recording.info.ended in ("exited", "killed")
        collect = f"when it runs again, {_COLLECT}" if ended else _COLLECT
        return "; ".join(each for each in (collect if waits else "", bound) if each)

    def _collected(self, number: int) -> tuple[bool, str]:
        """Whether a collection might still free what Java objects may own, and why."""
        ran = self._survival
        if self.sites.recording.info.after_collection:
            return False, "it survived a full collection"
        owner = _OWNERS[bool(self._owned[number])]
        if ran is None:
            return True, f"{owner}: {_MAY_BE_FREED}"
        if ran.old[number]:
            return False, "it survived a collection of the whole heap"
        if ran.any[number]:
            times = "1 collection" if ran.count == 1 else f"{ran.count} collections"
            if not self._owned[number]:
                return False, f"it survived {times}"
            return True, f"it survived {times}; a full collection might still free it (--gc rules that out)"
        return True, f"{owner}: {_MAY_BE_FREED}"

    def _kept(self, number: int) -> str:
        """Says that the verdict is an earlier reading's; "" if it is this one's."""
        judged = self._judgements
        if judged.reason.item(number) == judged.seen.item(number):
            return ""
        stands, seen = (VERDICTS[Reason(of[number])] for of in (judged.reason, judged.seen))
        return (
            f"{seen} by this reading alone, which has to hold before it replaces {stands}"
            if seen != stands
            else ""
        )

    def _why(self, number: int) -> str:
        return why(self._judgements, self.sites, number, self.rate_unit, self.thing)
