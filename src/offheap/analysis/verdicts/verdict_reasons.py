"""The reason of a site's verdict and the figures behind it, as `site_verdicts.judge` returns them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.statistics.estimates import Estimates, Floats

Verdict = Literal["leak", "growing", "steady", "startup", "freed", "cannot tell yet"]
Bools = NDArray[np.bool_]


class Reason(IntEnum):
    """The reason of a site's verdict."""

    NOTHING_LIVE = 0
    SHORT = 1
    LEAKS = 2
    CAME_EARLY = 3
    JVM_SLOWS = 4
    SLOWS = 5
    OLDEST_FREED = 6
    FEW_OLD = 7
    HARDLY_OF_LATE = 8
    NOTHING_FREED = 9
    FEW_SAMPLES = 10
    STEADY = 11
    OLD_DIE = 12
    MAY_END = 13
    JVM_KEEPS_LITTLE = 14
    UNCOLLECTED = 15
    SURVIVES = 16
    COLLECTED = 17
    WAITS = 18
    EVICTS = 19
    FILLS = 20
    SOME_SURVIVES = 21
    NO_COLLECTION = 22
    BIRTHS_UNKNOWN = 23
    JAVA_HEAP = 24
    LOADED = 25


VERDICTS: dict[Reason, Verdict] = {
    Reason.NOTHING_LIVE: "freed",
    Reason.SHORT: "cannot tell yet",
    Reason.LEAKS: "leak",
    Reason.CAME_EARLY: "startup",
    Reason.JVM_SLOWS: "startup",
    Reason.SLOWS: "growing",
    Reason.OLDEST_FREED: "growing",
    Reason.FEW_OLD: "growing",
    Reason.HARDLY_OF_LATE: "growing",
    Reason.NOTHING_FREED: "growing",
    Reason.FEW_SAMPLES: "cannot tell yet",
    Reason.STEADY: "steady",
    Reason.OLD_DIE: "growing",
    Reason.MAY_END: "growing",
    Reason.JVM_KEEPS_LITTLE: "growing",
    Reason.UNCOLLECTED: "growing",
    Reason.SURVIVES: "leak",
    Reason.COLLECTED: "steady",
    Reason.WAITS: "growing",
    Reason.EVICTS: "growing",
    Reason.FILLS: "growing",
    Reason.SOME_SURVIVES: "growing",
    Reason.NO_COLLECTION: "cannot tell yet",
    Reason.BIRTHS_UNKNOWN: "growing",
    Reason.JAVA_HEAP: "steady",
    Reason.LOADED: "growing",
}


@dataclass(frozen=True, slots=True)
class Judgements:
    """By site number: the verdict's reason, its confidence (0..1), and the figures behind both.

    `seen` is the reason by these figures alone; `reason` differs while a live view keeps an older verdict.
    """

    reason: NDArray[np.int64]  # Reason
    seen: NDArray[np.int64]  # Reason
    confidence: Floats
    growth: Estimates  # bytes per second
    grown: Estimates  # as `growth`; for a site that freed nothing, without the randomness of births
    grows: Bools
    old: Estimates  # live bytes born before the last fifth
    seconds: Floats  # the site's own time
    first_third: Floats  # seconds
    last_fifth: Floats  # seconds
    early_share: Floats  # of live bytes, born in the first third
    survivors: Floats  # sampled, born in the first two thirds
    samples: Floats  # sampled and alive
    passed: Estimates  # live bytes that have met a collection, for a site that frees at collections
    bound: Floats  # live bytes at the end of births, if births go on falling; else infinite
    may_fill: Bools  # looks like a leak, but a cache that fills looks the same


def of_java_heap(judged: Judgements, pages: Bools) -> Judgements:
    """The judgements without suspects among the JVM's pages of the Java heap; `pages`: by site.

    The JVM commits them in a straight line up to -Xmx, whatever the program keeps.
    """
    grows = np.isin(judged.reason, [reason for reason, one in VERDICTS.items() if one in ("leak", "growing")])
    reason = np.where(pages & grows, Reason.JAVA_HEAP, judged.reason)
    return replace(judged, reason=reason, seen=reason)


def without_births(judged: Judgements) -> Judgements:
    """The judgements where it is not known which blocks are old: growth is shown then, survival is not."""
    of_births = (
        *(Reason.LEAKS, Reason.SURVIVES, Reason.OLDEST_FREED, Reason.FEW_OLD),
        *(Reason.HARDLY_OF_LATE, Reason.NOTHING_FREED, Reason.OLD_DIE),
    )
    shown = np.isin(judged.reason, of_births) & judged.grows
    reason = np.where(shown, Reason.BIRTHS_UNKNOWN, judged.reason)
    return replace(judged, reason=reason, seen=reason)
