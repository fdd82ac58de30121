"""Which sites grow otherwise in NEW than in OLD: by the births of survivors, not by what is live at the end.

End states of two runs differ by what happens to be in use, and by how long each ran.  A leak tells by its
survivors: blocks of every age stay, born at a rate.  So a change of growth is beyond chance if one side
leaks or grows there (`site_verdicts`), and either

- that side leaks, the other neither leaks nor grows, the interval of the change of growth excludes zero,
  and the end states do not speak against it, or
- so many survivors on one side and so few on the other would come by chance too rarely: of n of both, each
  is NEW's with the share that NEW has of the time, weighed by how finely it was sampled (the conditional
  test of two Poisson rates, Przyborowski and Wilenski, Biometrika 31, 1940).  Survivors that come in
  waves count for fewer (`Histories.dispersion`), and over all sites that have any the share of false
  changes is held at 1 % (Benjamini and Hochberg 1995).

A site that frees in batches shows neither growth nor a verdict soon.  Sampled, not HotSpot's own, it changed
as well if the counts say so and its survivors come at more than twice the rate.

Survivors are those born after a third of the time, before which is the start-up, but for the last
sixteenth, which may be merely in use.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.diff.results import GrowthChange
from offheap.analysis.leaks.leaks import Ranking, ranking
from offheap.analysis.sites.grouping import Grouping
from offheap.analysis.sites.sites import group
from offheap.analysis.statistics import estimates
from offheap.analysis.statistics.estimates import Estimates, Floats
from offheap.analysis.verdicts.verdict_reasons import Verdict
from offheap.recording.model import Recording

_FALSE_DISCOVERIES = 0.01  # beside the 5 % of the end states: both tests are asked of each site
_OLD_ENOUGH = 0.94  # of the time: what was born since may be merely in use, as `power` has it
_SUSPECT: tuple[Verdict, ...] = ("leak", "growing")

Rank = Callable[[Grouping | None], Ranking]


@dataclass(frozen=True)
class Growths:
    """One recording's sites, by the number that both recordings share.

    verdicts the worst of the sites of a number; None where the recording has none of it
    rate       bytes a unit of `extent`
    kept       bytes a unit of survivors born in the judged part: where much is freed in batches, these tell
    by_jvm     whether HotSpot itself wanted the memory
    survivors  sampled, born in the judged part of the time, fewer where they came in waves
    per_sample bytes that one of them stands for; 0 where there are none
    block      bytes of one of them
    extent     the seconds, or the requests, of the judged part
    interval mean bytes between samples, 0: exact
    """

    verdicts: list[Verdict | None]
    rate: Estimates
    kept: Estimates
    by_jvm: NDArray[np.bool_]
    survivors: Floats
    per_sample: Floats
    block: Floats
    extent: float
    interval: int


@dataclass(frozen=True)
class GrowthChanges:
    """By site number.

    change how beyond chance, "" if not
    certain  bytes a unit that it surely changed by
    alike    whether the site leaks or grows in both, at rates whose difference may be nothing: that such ends
             differ is chance, even where every block is recorded
    """

    old: Growths
    new: Growths
    rate: Estimates
    change: list[GrowthChange]
    certain: Floats
    alike: NDArray[np.bool_]


def growths(
    recording: Recording,
    numbers: NDArray[np.int64],
    count: int,
    requests: float | None,
    rank: Rank | None = None,
    *,
    by_its_own: bool,
) -> Growths:
    """`numbers`: by stack, its site's in both recordings; `requests`: that were served, None: by second.

    rank        of Java objects; None: `ranking`
    by_its_own  the numbers follow the blocks of the other recording: verdicts are of this one's own sites
    """
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=count))[:-1]
    members = [part.tolist() for part in np.split(order, ends)]
    grouping = Grouping(numbers, members)
    ranked = rank(grouping) if rank else ranking(recording, grouping=grouping)
    history = ranked.history
    worst = (_own(recording, ranked, rank) if by_its_own else ranked).worst(numbers)
    verdicts = [worst.get(number) for number in range(count)]
    seconds = recording.info.live_seconds
    per = 1.0 if requests is None else seconds / requests
    start = np.full(count, int(np.abs(history.times - history.times[-1] / 3).argmin()))
    end = np.full(count, int(np.abs(history.times - history.times[-1] * _OLD_ENOUGH).argmin()))
    samples = history.sampled(start, end)
    some = np.maximum(samples, 1)
    found = history.found(start, end)
    extent = float(history.times[end[0]] - history.times[start[0]]) / per if count else 0.0
    return Growths(
        verdicts=verdicts,
        rate=ranked.rates.over(np.array(1 / per)),
        survivors=samples / history.dispersion(start, end),
        kept=found.over(np.array(max(extent, 1e-9))),
        by_jvm=ranked.by_jvm,
        per_sample=found.estimate / some,
        block=history.mean_size(start, end),
        extent=extent,
        interval=recording.info.interval_bytes,
    )


def _own(recording: Recording, shared: Ranking, rank: Rank | None) -> Ranking:
    """The recording's ranking as `offheap leaks` has it, which is `shared` where the sites are the same."""
    if rank:
        return rank(None)
    own, numbers = group(recording), shared.sites.grouping.of_stack
    pairs = np.unique(np.stack((own.of_stack, numbers)), axis=1).shape[1]
    same = pairs == len(np.unique(own.of_stack)) == len(np.unique(numbers))
    return shared if same else ranking(recording, grouping=own)


def growth_changes(old: Growths, new: Growths, holds_more: Floats) -> GrowthChanges:
    """NEW against OLD, site by site; `holds_more`: what NEW's end has more than OLD's, below zero less."""
    block = np.maximum(old.block, new.block)
    rates = [_with_hidden(side, block) for side in (old, new)]
    change = rates[1].less(rates[0])
    tested = (old.survivors > 0) | (new.survivors > 0)
    suspects = np.array(
        [
            not {before, after}.isdisjoint(_SUSPECT)
            for before, after in zip(old.verdicts, new.verdicts, strict=True)
        ],
        np.bool_,
    )
    # What HotSpot keeps differs from run to run, and where every block is recorded, blocks born together
    # are no samples: there only a verdict makes it a change.  All that are asked count.
    by_counts = ~(old.by_jvm | new.by_jvm) & (min(old.interval, new.interval) > 0)
    asked = np.flatnonzero(tested & (suspects | by_counts))
    probability = np.ones(len(tested))
    probability[asked] = _probability(old, new, block, asked)
    order = asked[np.argsort(probability[asked], kind="stable")]
    count = max(int(tested.sum()), 1)
    passed = np.flatnonzero(probability[order] <= _FALSE_DISCOVERIES * np.arange(1, len(order) + 1) / count)
    beyond = np.zeros(len(probability), np.bool_)
    beyond[order[: passed[-1] + 1 if len(passed) else 0]] = True
    # Where one side leaks and the other cannot tell, or holds as much, the counts have to tell.
    more, fewer = holds_more > 0, holds_more < 0
    kinds: list[GrowthChange] = []
    kept, by_kept = new.kept.less(old.kept), np.zeros(len(tested), np.bool_)
    for number, (before, after) in enumerate(zip(old.verdicts, new.verdicts, strict=True)):
        up, down, sure = bool(change.low[number] > 0), bool(change.high[number] < 0), bool(beyond[number])
        kind: GrowthChange = ""
        if up and after == "leak" and before not in _SUSPECT:
            kind = "leaks" if sure or (more[number] and before != "cannot tell yet") else ""
        elif down and before == "leak" and after not in _SUSPECT:
            kind = "leaks no more" if sure or (fewer[number] and after != "cannot tell yet") else ""
        elif sure and up and after in _SUSPECT:
            kind = "faster"
        elif sure and down and before in _SUSPECT:
            kind = "slower"
        elif sure and by_counts[number] and kept.low[number] > old.kept.estimate[number]:
            kind, by_kept[number] = "faster", True
        elif sure and by_counts[number] and kept.high[number] < -new.kept.estimate[number]:
            kind, by_kept[number] = "slower", True
        kinds.append(kind)
    change = kept.where(by_kept, change)
    old = replace(old, rate=old.kept.where(by_kept, old.rate))
    new = replace(new, rate=new.kept.where(by_kept, new.rate))
    certain = np.maximum(np.maximum(change.low, -change.high), 0.0)
    both = np.array(
        [
            before in _SUSPECT and after in _SUSPECT
            for before, after in zip(old.verdicts, new.verdicts, strict=True)
        ],
        np.bool_,
    )
    return GrowthChanges(old, new, change, kinds, certain, both & (certain == 0))


def _with_hidden(side: Growths, block: Floats) -> Estimates:
    """The rate, with room for what may hide between samples where the side has no such site."""
    absent = np.array([verdict is None for verdict in side.verdicts], np.bool_)
    none = np.zeros(len(absent))
    most = estimates.hidden(side.interval, block) / max(side.extent, 1e-9)
    return Estimates(none, none, most).where(absent, side.rate)


def _probability(old: Growths, new: Growths, block: Floats, asked: NDArray[np.int64]) -> Floats:
    """For each of these sites: the chance that survivors differ so much, or more, if the rates were equal."""
    weights = []
    size = np.where(block[asked] > 0, block[asked], 1.0)
    for side in (old, new):
        # As power.bytes_per_sample has it.
        expected = size / -np.expm1(-size / side.interval) if side.interval else size
        per_sample = side.per_sample[asked]
        weights.append(side.extent / np.where(per_sample > 0, per_sample, expected))
    share = weights[1] / (weights[0] + weights[1])
    of_new, of_both = new.survivors[asked], old.survivors[asked] + new.survivors[asked]
    found = np.ones(len(asked))
    # Within two standard deviations nothing passes: most sites are not judged one by one.
    far = np.flatnonzero(np.abs(of_new - share * of_both) > 2 * np.sqrt(of_both * share * (1 - share)))
    for place in far.tolist():
        found[place] = _two_sided(of_new.item(place), of_both.item(place), share.item(place))
    return found


def _two_sided(of_new: float, of_both: float, share: float) -> float:
    """Twice the smaller tail of a binomial count; halves of a wave's survivors round against a change."""
    number = math.floor(of_both)
    if number < 1 or not 0 < share < 1:
        return 1.0
    more = of_new > share * of_both
    least = min(math.floor(of_new if more else of_both - of_new), number)
    return min(1.0, 2 * _tail(least, number, share if more else 1 - share))


def _tail(least: int, number: int, share: float) -> float:
    """P(X >= least) of X binomial; beyond thousands the sum of its largest terms is enough."""
    chosen = range(least, min(number, least + 2000) + 1)
    whole = math.lgamma(number + 1)
    terms = (
        whole
        - math.lgamma(k + 1)
        - math.lgamma(number - k + 1)
        + k * math.log(share)
        + (number - k) * math.log1p(-share)
        for k in chosen
    )
    return math.fsum(math.exp(term) for term in terms)
