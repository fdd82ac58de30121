"""Who leaks: a verdict on every site, with its confidence and the figures behind it.

docs/verdicts.md has the mathematics in words.  In short, over a site's own time (from its first
allocation to the end), with thirds and eras cut by `history`:

growth       over the last two thirds: bytes born since and alive, less bytes freed since.  Its 95 %
             interval is the wider of what sampling explains and what the scatter between eras explains.
survivors    blocks alive at the end, by birth.  A leak leaves some from every era; what is only in
             use leaves young ones; what came at the start leaves old ones.
slowing      the last third grew less than 0.6 of what the middle third grew, beyond chance.

Without snapshots (a bare live file) growth is the rate at which survivors were born, the youngest
fifth left out because it holds what is merely in use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from offheap.analysis import frames
from offheap.analysis.history import History, histories
from offheap.analysis.results import Estimate, Site, Suspect, Verdict
from offheap.analysis.sites import group, sites
from offheap.quantities import format_count, format_duration, format_rate, format_size
from offheap.recording.model import Recording

_CLASSES: dict[Verdict, int] = {
    "leak": 0,
    "growing": 1,
    "cannot tell yet": 2,
    "steady": 3,
    "startup": 3,
    "freed": 4,
}

_FEWEST_SURVIVORS = 5  # sampled, born in the first two thirds: fewer may be chance
_SHORTEST = 3.0  # seconds of a site's own time
_SLOWING = 0.6
_FEWEST_STEPS = 6
# 97.5 % quantiles of Student's t by degrees of freedom.
_T = (0.0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)


@dataclass(frozen=True, slots=True)
class _Judgement:
    verdict: Verdict
    confidence: float
    growth: Estimate  # bytes per second
    old: Estimate
    why: str


def suspects(recording: Recording) -> list[Suspect]:
    """Every site that holds or held memory, the worst first.

    Order: leak, growing, cannot tell yet, then steady and startup, then freed; within a verdict the
    application's sites before those HotSpot has for itself; within those the lower bound of growth.
    """
    grouping = group(recording)
    judged: list[tuple[tuple[float, ...], Suspect]] = []
    for site, history in zip(sites(recording, grouping), histories(recording, grouping), strict=True):
        if not site.allocated_bytes.high and not site.live_bytes.high:
            continue
        by_jvm = frames.by_jvm(site.stack)
        judgement = _judge(site, history, by_jvm)
        suspect = Suspect(
            rank=0,
            verdict=judgement.verdict,
            confidence=judgement.confidence,
            site=site,
            blamed=frames.blamed(site.stack),
            growth_bytes_per_second=judgement.growth,
            old_bytes=judgement.old,
            why=judgement.why,
        )
        order = (
            _CLASSES[suspect.verdict],
            by_jvm,
            -max(judgement.growth.low, 0.0),
            -site.live_bytes.estimate,
        )
        judged.append((order, suspect))
    judged.sort(key=lambda pair: pair[0])
    return [replace(suspect, rank=rank) for rank, (_, suspect) in enumerate(judged, 1)]


def _judge(site: Site, history: History, by_jvm: bool) -> _Judgement:
    end = len(history.times) - 1
    a, b, late = history.at(1 / 3), history.at(2 / 3), history.at(0.8)
    seconds = history.seconds(history.first, end)
    old = history.survivors(0, late)
    live = site.live_bytes
    if live.estimate == 0:
        what = f"nothing of the {format_size(site.allocated_bytes.estimate)} allocated is live"
        return _Judgement("freed", _freed_confidence(site), Estimate(0.0, 0.0, 0.0), old, what)
    growth = _growth(history, a, end)
    survivors = history.sampled(history.first, b)
    if seconds < _SHORTEST or not (history.first < a < b < end):
        why = f"known for {format_duration(seconds)} only"
        return _Judgement("cannot tell yet", 0.0, growth, old, why)

    first, middle, last = _thirds(history, a, b, end)
    populated = _populated(history, a, late)
    if (
        history.live
        and not (growth.low > 0 and last.low > 0)
        and site.allocated_bytes.estimate > 5 * live.estimate
    ):
        # Heavy churn drowns the net growth of its site, not the even layer of survivors beneath it.
        layer = _layer(history, a, b, late)
        if layer and growth.low <= layer.estimate <= growth.high and last.high >= layer.estimate:
            growth, middle, last = layer, layer, layer
    # With snapshots the last third has to show it too (one-sided 90 %); without, the youngest say little.
    grows = growth.low > 0 and (_normal(last.estimate, last.low) > 0.9 or not history.live)
    stalled = last.high < 0.5 * growth.estimate
    slows = _fades(middle, last, _SLOWING) or (
        _ratio(first, middle) < 0.4 and _ratio(middle, last) < _SLOWING
    )
    early_share = _share(history.survivors(0, a).estimate, live.estimate)
    sure = _normal(growth.estimate, growth.low)
    amounts = f"{format_size(live.estimate)} live in {_blocks(site)}"
    rate = format_rate(growth.estimate)

    # Old blocks that had gone before the middle third speak against a leak: this site does free.
    keeps = not _fades(middle, first, 0.25)
    if by_jvm and grows:
        # HotSpot's own tables and arenas grow as the logarithm of time: only a straight line is a leak.
        slows = slows or _ratio(first, middle) < 0.7 or _ratio(middle, last) < 0.7
    if not history.live:
        # Only births are known: blocks that live for a while and are freed leave ever fewer of the old.
        keeps = keeps and not _fades(last, middle, 0.8) and _ratio(last, middle) > 0.5
    enough = survivors >= (_FEWEST_SURVIVORS if not by_jvm else 4 * _FEWEST_SURVIVORS) and populated >= 0.4
    rises = middle.estimate > 0 and not stalled

    if grows and enough and rises and keeps and not slows:
        confidence = min(sure, 1 - 1 / (survivors + 2), 0.99)
        age = format_duration(history.seconds(late, end))
        why = (
            f"live bytes grow by {rate} to the end and blocks of every age stay: "
            f"{format_size(old.estimate)} of {amounts} older than {age}"
        )
        return _Judgement("leak", confidence, growth, old, why)
    early = early_share >= 0.6 and _crowded(history.sampled(history.first, a), history.sampled(0, end))
    if early and (not grows or slows or _share(growth.estimate * seconds, live.estimate) < 0.2):
        third = format_duration(history.seconds(history.first, a))
        share = f"{early_share:.0%} of {amounts} came in the first {third}"
        why = f"{share}; {'it grows ever more slowly' if grows else 'no growth since'}"
        confidence = 0.8 * sure if grows else _flat(growth, live, seconds)
        return _Judgement("startup", confidence, growth, old, why)
    if grows and by_jvm and slows:
        why = f"the JVM's own, growing ever more slowly: {amounts}, {rate} of late"
        return _Judgement("startup", 0.8 * sure, growth, old, why)
    if growth.low > 0 and survivors >= 2 and rises:
        if slows:
            reason = "but ever more slowly"
        elif not keeps:
            reason = "but the oldest blocks were freed"
        elif not enough:
            reason = f"but only {survivors} sampled blocks are old"
        else:
            reason = "but hardly of late"
        why = f"live bytes grow by {rate}, {reason}: {amounts}"
        return _Judgement("growing", 0.9 * sure, growth, old, why)
    # No growth that chance would not explain: is that because there is none, or too little data?
    wide = growth.high * seconds > 0.5 * max(live.estimate, 1.0) and history.sampled(0, end) < 20
    if wide and not early and site.allocated_bytes.estimate < 4 * live.estimate:
        why = (
            f"{amounts}, too few samples to tell growth from chance ({format_count(history.sampled(0, end))})"
        )
        return _Judgement("cannot tell yet", 0.0, growth, old, why)
    allocated = site.allocated_bytes.estimate
    gone = max(allocated - live.estimate, 0.0)
    why = f"{format_size(gone)} of {format_size(allocated)} allocated was freed again; {amounts}"
    if _share(gone, allocated) < 0.05:
        why = f"{amounts}, no growth that chance would not explain"
    return _Judgement("steady", _flat(growth, live, seconds), growth, old, why)


def _growth(history: History, a: int, end: int) -> Estimate:
    """Bytes per second over the last two thirds, with its 95 % interval."""
    if not history.live:
        return _rate(history, history.survivors(a, history.at(0.8)), a, max(history.at(0.8), a + 1))
    return _rate(history, history.net(a), a, end)


def _rate(history: History, amount: Estimate, start: int, end: int) -> Estimate:
    seconds = max(history.seconds(start, end), 1e-9)
    steps = history.steps(start, end)
    mean, low, high = amount.estimate / seconds, amount.low / seconds, amount.high / seconds
    if history.live and len(steps) < _FEWEST_STEPS and not history.freed_since(start).estimate:
        # A busy recorder leaves too few snapshots for their scatter to tell.  A site that freed
        # nothing grows by its births alone: what they vary by is known.
        scatter = 1.96 * abs(mean) / math.sqrt(max(history.sampled(start, end), 1))
    else:
        scatter = _standard_error(steps) * (_T[min(len(steps) - 1, len(_T) - 1)] if steps else 0.0)
    return Estimate(mean, min(low, mean - scatter), max(high, mean + scatter))


def _layer(history: History, a: int, b: int, late: int) -> Estimate | None:
    """The rate at which survivors were born, if all ages have it; the youngest fifth is merely in use."""
    if not history.first < a < b < late:
        return None
    rates = [
        history.survivors(start, end).estimate / history.seconds(start, end)
        for start, end in ((history.first, a), (a, b), (b, late))
    ]
    born, seconds = history.survivors(a, late), history.seconds(a, late)
    steps = history.births(a, late)
    scatter = _T[min(len(steps) - 1, len(_T) - 1)] * _standard_error(steps)
    rate, low, high = born.estimate / seconds, born.low / seconds, born.high / seconds
    layer = Estimate(rate, min(low, rate - scatter), max(high, rate + scatter))
    return layer if layer.low > 0 and min(rates) > 0.6 * max(rates[1:]) else None


def _thirds(history: History, a: int, b: int, end: int) -> tuple[Estimate, Estimate, Estimate]:
    """Bytes per second that each third left: net growth with snapshots, survivors without."""

    def rate(amount: Estimate, start: int, stop: int) -> Estimate:
        # Births come by chance too: n of them vary by sqrt(n) even where every block is recorded.
        chance = 1.96 * abs(amount.estimate) / math.sqrt(max(history.sampled(start, stop), 1))
        seconds = max(history.seconds(start, stop), 1e-9)
        return Estimate(
            amount.estimate / seconds,
            min(amount.low, amount.estimate - chance) / seconds,
            max(amount.high, amount.estimate + chance) / seconds,
        )

    first = rate(history.survivors(history.first, a), history.first, a)
    if not history.live:
        late = max(history.at(0.8), b + 1)
        return first, rate(history.survivors(a, b), a, b), rate(history.survivors(b, late), b, late)
    net = history.net(a)
    middle = history.live[b] - history.live[a]
    # What freed in both halves is in both: half of the variance each, nearly.
    below, above = (net.estimate - net.low) * math.sqrt(0.5), (net.high - net.estimate) * math.sqrt(0.5)
    return first, rate(Estimate(middle, middle - below, middle + above), a, b), rate(history.net(b), b, end)


def _populated(history: History, start: int, end: int) -> float:
    """The share of eras that left survivors, of those that were expected to with the samples there are."""
    eras = end - start
    samples = history.sampled(start, end)
    if eras <= 0 or not samples:
        return 0.0
    # n samples thrown at random into k eras fill k (1 - (1 - 1/k)^n) of them.
    return float(history.filled(start, end) / (eras * (1 - (1 - 1 / eras) ** samples)))


def _fades(before: Estimate, after: Estimate, share: float) -> bool:
    """Whether `after` is below `share` of `before`, beyond chance (one-sided 95 %)."""
    gap = share * before.estimate - after.estimate
    error = math.hypot(share * (before.estimate - before.low), after.high - after.estimate) / 1.96
    return gap > 1.64 * error and gap > 0


def _crowded(early: int, samples: int) -> bool:
    """Whether more samples fell into the first third than chance puts there (two standard deviations)."""
    return samples >= 4 and early - samples / 3 > 2 * math.sqrt(samples * 2 / 9)


def _ratio(before: Estimate, after: Estimate) -> float:
    return after.estimate / before.estimate if before.estimate > 0 else math.inf


def _standard_error(values: list[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))


def _normal(estimate: float, low: float) -> float:
    """Probability that the quantity is above zero, from its estimate and lower 95 % limit."""
    error = (estimate - low) / 1.96
    if error <= 0:
        return 1.0 if estimate > 0 else 0.5
    return 0.5 * (1 + math.erf(estimate / error / math.sqrt(2)))


def _flat(growth: Estimate, live: Estimate, seconds: float) -> float:
    """How sure it is that growth stays under a fifth of what is live, over the site's own time."""
    limit = 0.2 * live.estimate / seconds
    return min(_normal(limit - growth.estimate, limit - growth.high), 0.99)


def _freed_confidence(site: Site) -> float:
    return min(1 - _share(site.live_bytes.high, site.allocated_bytes.estimate), 0.99)


def _share(part: float, whole: float) -> float:
    return min(max(part / whole, 0.0), 1.0) if whole > 0 else 0.0


def _blocks(site: Site) -> str:
    return f"{format_count(site.live_blocks.estimate)} {'mappings' if site.kind == 'mmap' else 'blocks'}"
