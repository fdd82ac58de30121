"""The layer of survivors beneath the churn of a site: born at one rate, of all ages.

Heavy churn drowns the net growth of its site, not the even layer of survivors beneath it.  If the layer is
more precise than net growth and agrees with it, the layer is the growth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.statistics.estimates import Estimates, Floats, poisson_limits
from offheap.analysis.statistics.trend import STRAIGHT, trend
from offheap.analysis.verdicts import evidence
from offheap.analysis.verdicts.signs import ratio
from offheap.analysis.verdicts.site_history import Boundaries, Histories
from offheap.analysis.verdicts.site_rates import IN_USE, Rates, seen

Bools = NDArray[np.bool_]

LIKELY = 0.5  # probability that growth goes on unchanged
_CHURNS = 5.0  # allocated over live bytes: the site frees four fifths or more
# The same for a site whose level rises as the layer does.  Where less is freed, net growth is mostly the
# layer, and its own interval decides.
_FREES = 2.5
_RISES = 0.5  # of the lower end of the layer: the level of a cache that is full and replaces does not rise
# Probability that survivors come ever faster: above it they die in time.  A leak has its share at any load.
_RISING = 0.2
# Allocated over live bytes: where a site frees more than 49 of 50, too few of the survivors are sampled to
# tell how fast they come.  The twenty of a leak under 1 GB/s seem to rise in one of eight recordings.
_HEAVY = 50.0
_LIFETIMES = 20  # mean lifetimes: with an exponential distribution hardly any block lives longer
_LAST_IN_USE = 0.94  # of a site's time: blocks born later may be in use, at any length of life


@dataclass(frozen=True, slots=True)
class Course:
    """By site number: the rates, from the layer if it is the growth, and whether they go on.

    goes_on  the probability that births go on and old blocks stay
    dies     whether old blocks are likely to die, judged by those that died
    layered  whether the rates are the layer's
    sign     of the layer: the probability that there is one
    bends    whether the thirds are no straight line
    """

    rates: Rates
    goes_on: Floats
    dies: Bools
    layered: Bools
    sign: Floats
    bends: Bools


def course(
    history: Histories,
    net: Rates,
    a: Boundaries,
    b: Boundaries,
    *,
    live: Estimates,
    allocated: Estimates,
    on_jvm_threads: Bools,
    age: float,
) -> Course:
    """The most precise rates of each site.

    net              as `site_rates` has them
    a, b             the ends of the first and the middle third of each site's time
    live, allocated  bytes: live at the end, and allocated in total
    on_jvm_threads, age     as of `site_verdicts.judge`
    """
    bends = _bends(net.first.estimate, net.middle.estimate, net.last.estimate)
    if history.live is None:
        # Only survivors are known: their rates are the growth already.
        goes_on = evidence.even(history, history.first, history.at(IN_USE), on_jvm_threads, age=age)
        no = np.zeros(len(goes_on), np.bool_)
        return Course(net, goes_on, no, no, np.zeros(len(goes_on)), bends)
    end, growth = history.end, net.growth
    used = _in_use(history, allocated)
    layer, thirds, ordered = _layer(history, a, b, used)
    sharper = layer.high - layer.low < growth.high - growth.low
    churns = allocated.estimate > _CHURNS * live.estimate
    frees = allocated.estimate > _FREES * live.estimate
    drowned = (sharper | ~((growth.low > 0) & (net.last.low > 0))) & frees
    fits = (growth.low <= layer.estimate) & (layer.estimate <= growth.high)
    stays = evidence.stays(history, a, b)
    until = np.where(drowned, used, end)
    even = np.maximum(
        evidence.even(history, a, until, on_jvm_threads, age=age),
        # A start-up allocates more at first than it leaks; for all others this is a third more samples.
        evidence.even(history, history.first, until, on_jvm_threads, age=age),
    )
    goes_on = np.minimum(stays, even)
    # The last third is half of the time that growth covers: its error by chance is sqrt(2) times as large.
    chance = np.hypot(math.sqrt(2) * (growth.high - growth.estimate), layer.estimate - layer.low)
    lately = net.last.estimate + chance >= layer.estimate
    layered = drowned & ordered & (goes_on > LIKELY) & fits & lately
    heavy = allocated.estimate > _HEAVY * live.estimate
    layered &= heavy | (evidence.rises(history, history.first, used) <= _RISING)
    for number in np.flatnonzero(layered & ~churns).tolist():
        layered[number] = _rises(history, number, float(layer.low[number]))
    stayed = seen(history, history.survivors(a, used), a, used)
    clear = ordered & fits & (goes_on > LIKELY) & churns
    sharper = stayed.high - stayed.low < net.grown.high - net.grown.low
    return Course(
        Rates(
            growth=layer.where(layered, growth),
            grown=stayed.where(layered | (clear & sharper), net.grown),
            first=net.first,
            middle=layer.where(layered, net.middle),
            last=layer.where(layered, net.last),
        ),
        goes_on,
        dies=stays <= LIKELY,
        layered=layered,
        sign=-np.expm1(-history.sampled(a, used) / history.dispersion(a, used)),
        bends=np.where(layered, _bends(*thirds), bends),
    )


def _rises(history: Histories, number: int, least: float) -> bool:
    """Whether the level of a site's live bytes may rise by `least` bytes a second, and rises by half of it.

    Garbage that waits for collections makes the level a saw-tooth: the trend's interval is wide, but its
    estimate does not follow a single tooth, as net growth between two moments does.
    """
    assert history.live is not None
    first = int(history.first[number])
    found = trend(history.times[first:], history.live[number, first:])
    return found is not None and found.rate.estimate > _RISES * least and found.rate.high >= least


def _bends(first: Floats, middle: Floats, last: Floats) -> Bools:
    result: Bools = (ratio(first, middle) < STRAIGHT) | (ratio(middle, last) < STRAIGHT)
    return result


def _in_use(history: Histories, allocated: Estimates) -> Boundaries:
    """The boundary after which blocks may be merely in use: the youngest fifth, or less if lives are short.

    Live bytes over bytes allocated per second are the mean lifetime (Little's law); twenty are enough.
    """
    assert history.live is not None
    part = history.live.mean(axis=1) / np.maximum(allocated.estimate, 1.0)  # of the site's time
    return history.at(np.clip(1 - _LIFETIMES * part, IN_USE, _LAST_IN_USE))


def _layer(
    history: Histories, a: Boundaries, b: Boundaries, late: Boundaries
) -> tuple[Estimates, tuple[Floats, Floats, Floats], Bools]:
    """The rate of survivors' births until `late`, that of each third, and whether all ages have survivors."""
    one, two, three = (
        history.survivors(start, end).estimate / np.maximum(history.seconds(start, end), 1e-9)
        for start, end in ((history.first, a), (a, b), (b, late))
    )
    layer = history.survivors(a, late).over(np.maximum(history.seconds(a, late), 1e-9))
    # Poisson limits stay above zero for a few samples, unlike the normal limits of `site_rates`.
    count = np.maximum(history.sampled(a, late) / history.dispersion(a, late), 1.0)
    low, high = poisson_limits(count)
    each = layer.estimate / count
    layer = layer.within(each * (count - low), each * (high - count))
    ordered = (history.first < a) & (a < b) & (b < late)
    populated = (one > 0) & (two > 0) & (three > 0)
    return layer, (one, two, three), ordered & (layer.low > 0) & populated
