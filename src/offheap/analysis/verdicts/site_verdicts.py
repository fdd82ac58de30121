"""The verdict on every site at once, in arrays: docs/verdicts.md has the mathematics in words.

Over a site's own time (from its first allocation to the end), with thirds and eras cut by `site_history`:

growth       over the last two thirds: bytes born since and alive, less bytes freed since (`site_rates`).
survivors    blocks alive at the end, by birth.  A leak leaves survivors of every era; blocks merely in
             use are young; blocks from the start are old (`survivor_layer`).
evidence     do births go on at one rate, do old blocks stay: `evidence` has both probabilities.
slowing      the last third grew less than 0.6 of the middle third's growth, beyond chance; or births fall,
             mildly but surely; or the site begins to free old blocks (`signs`).
collections  memory that Java objects may own is judged by the blocks that met a collection: `collected`.

`verdict_rules` has the rules in their order, `verdict_reasons` the results; this module adds the confidence.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.sites.sites import SiteTable
from offheap.analysis.statistics.estimates import Floats, zeros
from offheap.analysis.verdicts import collected, evidence, signs, site_rates, survivor_layer
from offheap.analysis.verdicts.collected import Collected
from offheap.analysis.verdicts.signs import LEAKS_TO_CACHES, MOST_SURE
from offheap.analysis.verdicts.site_history import Histories
from offheap.analysis.verdicts.site_rates import IN_USE
from offheap.analysis.verdicts.survivor_layer import LIKELY
from offheap.analysis.verdicts.verdict_reasons import Judgements, Reason
from offheap.analysis.verdicts.verdict_rules import Growing, Question, growing, reasons

Bools = NDArray[np.bool_]

_FILLING = 2.0  # seconds; divided by a process's age: the doubt that growing memory is merely being filled
# Memory that grows in a straight line may be a cache far from its bound, at any age of the process.  This is
# the doubt about a site that is known for a minute or less; it falls in inverse proportion later: a cache
# that takes minutes to fill is as likely to take ten times as long.
_CACHE_DOUBT, _CACHE_SECONDS = 0.1, 60.0
_MOST_SURE_OF_FEW = 0.95  # that collections free a site, by the blocks that they freed
# The kinds of growth that are no leak have less confidence than growth itself.
_START_UP, _OTHERWISE = 0.8, 0.9


def judge(
    sites: SiteTable, history: Histories, by_jvm: Bools, on_jvm_threads: Bools, seen: Collected, *, age: float
) -> Judgements:
    """Every site.

    by_jvm       whether HotSpot itself wanted the memory
    on_jvm_threads      whether HotSpot wanted it on its own thread, without a request of a Java method
    seen         the evidence of collections
    age          of the process, in seconds
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return _judge(sites, history, by_jvm, on_jvm_threads, seen, age)


def _judge(
    sites: SiteTable, history: Histories, by_jvm: Bools, on_jvm_threads: Bools, seen: Collected, age: float
) -> Judgements:
    a, b, late, end = history.at(1 / 3), history.at(2 / 3), history.at(IN_USE), history.end
    live = sites.live_bytes
    course = survivor_layer.course(
        history,
        site_rates.rates(history, a, b),
        a,
        b,
        live=live,
        allocated=sites.allocated_bytes,
        on_jvm_threads=on_jvm_threads,
        age=age,
    )
    kept = collected.kept(history, seen, live, on_jvm_threads, age=age)
    asked = Question(sites, history, by_jvm, on_jvm_threads, seen, kept, course, a, b, age)
    found = growing(asked)
    flat = signs.flat(course.rates.growth, live, asked.seconds)
    reason = reasons(asked, found, flat)
    of_kept = np.isin(reason, (Reason.SURVIVES, Reason.SOME_SURVIVES))
    nothing = zeros(len(reason))
    growth, grown = (
        nothing.where(reason == Reason.NOTHING_LIVE, kept.growth.where(of_kept, value))
        for value in (course.rates.growth, course.rates.grown)
    )
    # A straight line does not show how far the bound of a cache is.
    cache = 1 - _CACHE_DOUBT * np.minimum(1.0, _CACHE_SECONDS / np.maximum(asked.seconds, 1e-9))
    # Memory that has grown since the start of a young process may soon be full.
    of_age = np.clip(1 - _FILLING / max(age, _FILLING), LIKELY, MOST_SURE)
    most_sure = np.minimum.reduce((np.full(len(reason), of_age), cache, seen.most_sure))
    return Judgements(
        reason=reason,
        seen=reason,
        confidence=_confidence(asked, found, reason, most_sure, flat),
        growth=growth,
        grown=grown,
        grows=found.grows,
        old=history.survivors(0, late),
        seconds=asked.seconds,
        first_third=history.seconds(history.first, a),
        last_fifth=history.seconds(late, end),
        early_share=signs.share(history.survivors(0, a).estimate, live.estimate),
        survivors=found.survivors,
        samples=asked.samples,
        passed=history.survivors(0, seen.passed),
        bound=live.estimate * evidence.ends_at(history, history.first),
        may_fill=(reason == Reason.LEAKS) & (most_sure >= cache),
    )


def _confidence(
    asked: Question, found: Growing, reason: NDArray[np.int64], most_sure: Floats, flat: Floats
) -> Floats:
    """How sure each verdict is.

    `most_sure`: the highest confidence of a leak; `flat`: as in `verdict_rules.reasons`.
    """
    history, sites, kept, course = asked.history, asked.sites, asked.kept, asked.course
    growth = course.rates.growth
    of_kept = np.isin(reason, (Reason.SURVIVES, Reason.SOME_SURVIVES))
    goes_on = np.where(reason == Reason.SURVIVES, kept.goes_on, course.goes_on)
    # A few samples do not exclude a rate that falls mildly.
    falls = np.minimum(
        evidence.fades(history, history.first, history.end), evidence.fades(history, asked.a, history.end)
    )
    steady = np.where(course.layered | of_kept, 1.0, LEAKS_TO_CACHES / (LEAKS_TO_CACHES + falls))
    # Laplace's rule of succession: none of this many old survivors was freed.
    stays = 1 - 1 / (found.survivors + 2)
    return np.select(
        [
            reason == Reason.NOTHING_LIVE,
            np.isin(reason, (Reason.LEAKS, Reason.SURVIVES)),
            (reason == Reason.JVM_SLOWS) | ((reason == Reason.CAME_EARLY) & found.grows),
            np.isin(reason, (Reason.CAME_EARLY, Reason.STEADY)),
            reason == Reason.COLLECTED,
            reason == Reason.WAITS,
            np.isin(reason, (Reason.SHORT, Reason.FEW_SAMPLES)),
        ],
        [
            np.minimum(1 - signs.share(sites.live_bytes.high, sites.allocated_bytes.estimate), MOST_SURE),
            np.minimum.reduce((found.sure, goes_on, steady, stays, most_sure)),
            _START_UP * found.sure,
            flat,
            # The same rule: hardly any of n blocks that met a collection stayed.
            np.minimum(1 - 1 / (kept.met + 2), _MOST_SURE_OF_FEW),
            # `found.sure` is about the survivors of collections here, and these blocks have met none.
            _OTHERWISE * signs.above_zero(growth.estimate, growth.low),
            0.0,
        ],
        _OTHERWISE * found.sure,
    )
