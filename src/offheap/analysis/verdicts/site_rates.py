"""The growth rate of a site: over the last two thirds of its time, and in each third.

With snapshots it is net growth: bytes born since and alive, less bytes freed since.  Without snapshots (a
bare live file) it is the rate of survivors' births, without the youngest fifth, which holds blocks that are
merely in use.  Each 95 % interval is the wider of two: the one from sampling and the one from the scatter
between eras.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from offheap.analysis.statistics import student
from offheap.analysis.statistics.estimates import Estimates, Floats
from offheap.analysis.statistics.student import DEVIATIONS_95
from offheap.analysis.verdicts.site_history import Boundaries, Histories

IN_USE = 0.8  # of a site's time: blocks born later may be merely in use


@dataclass(frozen=True, slots=True)
class Rates:
    """By site number, bytes per second.

    growth  over the last two thirds
    grown   observed growth of live bytes: for a site that freed nothing, without the randomness of births
    first, middle, last  rate of each third: net growth with snapshots, survivors without
    """

    growth: Estimates
    grown: Estimates
    first: Estimates
    middle: Estimates
    last: Estimates


def rates(history: Histories, a: Boundaries, b: Boundaries) -> Rates:
    """`a`, `b`: the ends of the first and the middle third of each site's time."""
    growth = _growth(history, a)
    return Rates(growth, _grown(history, growth, a), *_thirds(history, a, b))


def seen(history: Histories, amount: Estimates, start: Boundaries, end: Boundaries | int) -> Estimates:
    """The observed rate of blocks that stay: one block more or less is chance, at the cuts in time."""
    seconds = np.maximum(history.seconds(start, end), 1e-9)
    edge = history.mean_size(start, end) / seconds
    return amount.over(seconds).within(edge, edge)


def _growth(history: Histories, a: Boundaries) -> Estimates:
    """Bytes per second over the last two thirds, with its 95 % interval."""
    if history.live is None:
        until = history.at(IN_USE)
        return _rate(
            history, history.survivors(a, until), a, np.minimum(np.maximum(until, a + 1), history.end)
        )
    return _rate(history, history.net(a), a, history.end)


def _grown(history: Histories, growth: Estimates, a: Boundaries) -> Estimates:
    if history.live is None:
        return growth
    nothing_freed = history.freed_since(a).estimate == 0
    return seen(history, history.net(a), a, history.end).where(nothing_freed, growth)


def _rate(history: Histories, amount: Estimates, start: Boundaries, end: Boundaries | int) -> Estimates:
    seconds = np.maximum(history.seconds(start, end), 1e-9)
    rate = amount.over(seconds)
    error, steps = history.scatter(start, end)
    scatter = error * np.where(steps > 1, student.quantiles(steps - 1), 0.0)  # one step has no scatter
    if history.live is not None:
        # A site that freed nothing grows by its births alone: their variance is known, and needs
        # neither many snapshots nor Student's wide margin for few.
        nothing_freed = history.freed_since(start).estimate == 0
        scatter = np.where(nothing_freed, _births_error(history, rate, start, end), scatter)
    return rate.within(scatter, scatter)


def _births_error(history: Histories, rate: Estimates, start: Boundaries, end: Boundaries | int) -> Floats:
    """Half a 95 % interval of a rate of survivors, from their number and the unevenness of their births."""
    samples = history.sampled(start, end) / history.dispersion(start, end)
    error: Floats = DEVIATIONS_95 * np.abs(rate.estimate) / np.sqrt(np.maximum(samples, 1))
    return error


def _thirds(history: Histories, a: Boundaries, b: Boundaries) -> tuple[Estimates, Estimates, Estimates]:
    def rate(amount: Estimates, start: Boundaries, stop: Boundaries | int) -> Estimates:
        # Births are random too: n of them vary by sqrt(n) even in an exact recording.
        chance = (
            DEVIATIONS_95 * np.abs(amount.estimate) / np.sqrt(np.maximum(history.sampled(start, stop), 1))
        )
        return amount.within(chance, chance).over(np.maximum(history.seconds(start, stop), 1e-9))

    first = rate(history.survivors(history.first, a), history.first, a)
    if history.live is None:
        late = np.minimum(np.maximum(history.at(IN_USE), b + 1), history.end)
        return first, rate(history.survivors(a, b), a, b), rate(history.survivors(b, late), b, late)
    net = history.net(a)
    middle = history.live_at(b) - history.live_at(a)
    # Frees are in both halves: each has nearly half of the variance.
    below, above = (net.estimate - net.low) * math.sqrt(0.5), (net.high - net.estimate) * math.sqrt(0.5)
    return (
        first,
        rate(Estimates(middle, middle - below, middle + above), a, b),
        rate(history.net(b), b, history.end),
    )
