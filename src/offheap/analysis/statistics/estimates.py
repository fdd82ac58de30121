"""Totals from samples: Horvitz-Thompson estimates with 95 % intervals.

A block of s bytes is in a sampled recording with probability p = 1 - exp(-s/interval),
independently of every other block.  With n sampled blocks, each worth x (its bytes,
or 1 to count blocks), the total over all blocks is estimated by

    total = sum x/p,    variance = sum x^2 (1-p)/p^2          (Horvitz and Thompson, 1952)

The interval.  total +- 1.96 sqrt(variance) covers too rarely when few blocks were sampled, and may
reach below zero.  Instead the total is split into the seen part, sum x, and the unseen part:

    unseen = sum x (1-p)/p,    with the same variance

For equal blocks the number not seen, given n seen, is negative binomial with that mean and
variance (a Pascal waiting time per seen block); its usual continuous companion is the gamma
distribution with the same two moments.  So, with G(mean, variance) the gamma distribution,

    low  = seen + 2.5 %  quantile of G(unseen + m/2, variance + v/2) - block/2
    high = seen + 97.5 % quantile of G(unseen + m',  variance + v')  + block/2

where m, v are the mean and variance that one more block adds: x (1-p)/p and x^2 (1-p)/p^2, for m, v
of a typical block, for m', v' of the block with the largest unseen part (if the interval changes, of the
smallest block under the coarsest interval, even if these never met); block/2 is the continuity
correction (unseen blocks are whole blocks).  For small p and equal
blocks this is the interval of a Poisson count, and for several sizes the gamma interval of a weighted
sum of Poisson counts (Fay and Feuer, Statistics in Medicine 16, 1997) whose low end is of mid-P form
(Fay and Kim, Biometrical Journal 59, 2017): exact limits on both ends cover in 97 to 99 % of cases,
these in 95 to 96.  `seen` surely exists, so low is at least `seen`; an exact recording has nothing
unseen, so low == estimate == high.

tests/unit/figures/test_estimates.py measures over 1 to 100,000 blocks of 16 B to 10 MB: the interval covers
bytes in 93 to 99 % of runs for every mixture, and counts for equal blocks and moderate mixtures.  If the
blocks that dominate the count are so small that hardly one was sampled, the samples do not show the count,
and an upper end would be invented.  Two rules follow.  A count covers only the sampled call paths, each of
which makes blocks of about one size; a path without any sampled block is not counted.  And if the sampled
blocks of one call path differ in size by more than SIZES times, the count has no upper end (`of_counts`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.statistics.student import NORMAL_95

Floats = NDArray[np.float64]

# Probability of a block's sample: from here on rounding hides the interval between samples, which hardly
# matters there.
NEARLY_SURE = 0.99
# Intervals of which no block of a leak is sampled with a probability of 5 %: -ln 0.05 (the rule of three).
_INTERVALS_UNSEEN = 3.0
SIZES = 16.0  # factor by which a count's blocks may differ in size with an upper end


@dataclass(frozen=True, slots=True)
class Estimates:
    """Estimates by number: thousands of sites are judged, and only the few that are shown become objects."""

    estimate: Floats
    low: Floats
    high: Floats

    def at(self, number: int) -> Estimate:
        return Estimate(self.estimate.item(number), self.low.item(number), self.high.item(number))

    def first(self, count: int) -> Estimates:
        return Estimates(self.estimate[:count], self.low[:count], self.high[:count])

    def over(self, divisor: Floats) -> Estimates:
        """The estimates over `divisor`, such as seconds; divisors are above zero."""
        return Estimates(self.estimate / divisor, self.low / divisor, self.high / divisor)

    def where(self, mask: NDArray[np.bool_], others: Estimates) -> Estimates:
        """These estimates where `mask` is True, the others elsewhere."""
        return Estimates(
            np.where(mask, self.estimate, others.estimate),
            np.where(mask, self.low, others.low),
            np.where(mask, self.high, others.high),
        )

    def within(self, below: Floats, above: Floats) -> Estimates:
        """The estimates with intervals at least as wide as these distances."""
        return Estimates(
            self.estimate,
            np.minimum(self.low, self.estimate - below),
            np.maximum(self.high, self.estimate + above),
        )

    def less(self, lost: Estimates) -> Estimates:
        """`difference` element by element."""
        estimate = self.estimate - lost.estimate
        below = np.hypot(self.estimate - self.low, lost.high - lost.estimate)
        above = np.hypot(self.high - self.estimate, lost.estimate - lost.low)
        return Estimates(estimate, estimate - below, estimate + above)


def zeros(count: int) -> Estimates:
    return Estimates(np.zeros(count), np.zeros(count), np.zeros(count))


def _gamma_quantile(mean: Floats, variance: Floats, z: float) -> Floats:
    """Quantile, at the normal quantile `z`, of the gamma distribution of that mean and variance.

    Wilson and Hilferty (1931): the cube root of a gamma variable is nearly normal.
    """
    relative = variance / mean / mean  # 1/shape
    root = 1 - relative / 9 + z * np.sqrt(relative) / 3
    quantile: Floats = mean * np.maximum(root, 0.0) ** 3
    return quantile


def _intervals(
    seen: Floats,
    unseen: Floats,
    variance: Floats,
    block: Floats,
    most: tuple[Floats, Floats] | None = None,
    z: float = NORMAL_95,
) -> Estimates:
    """`block`: x of a typical block; `most`: m', v' above, those of a typical block if None.

    `z`: the normal quantile of both ends.
    """
    total = seen + unseen
    exact = (unseen <= 1e-12 * seen) | (variance <= 0)  # or rounding
    if exact.all():
        return Estimates(total, total, total)
    # Placeholders for exact groups, whose results are not used.
    unseen, variance, whole = (np.where(exact, 1.0, values) for values in (unseen, variance, total))
    share, scale = unseen / whole, variance / unseen
    typical = (scale * share, scale * scale * share)
    mean, spread = (np.where(exact, 1.0, values) for values in most) if most else typical
    low = _gamma_quantile(unseen + typical[0] / 2, variance + typical[1] / 2, -z) - block / 2
    high = _gamma_quantile(unseen + mean, variance + spread, z) + block / 2
    low = seen + np.minimum(np.maximum(low, 0.0), unseen)
    high = seen + np.maximum(high, unseen)
    return Estimates(total, np.where(exact, total, low), np.where(exact, total, high))


def _with_error(found: Estimates, unseen: Floats, error: float) -> Estimates:
    """The estimates where weights share an error beside chance: it is of the unseen part, which they tell."""
    if not error:
        return found
    beside = NORMAL_95 * error * unseen
    low = found.estimate - np.minimum(np.hypot(found.estimate - found.low, beside), unseen)
    return Estimates(found.estimate, low, found.estimate + np.hypot(found.high - found.estimate, beside))


def of_blocks(amounts: Floats, probabilities: Floats, error: float = 0.0) -> Estimate:
    """The total of `amounts` (bytes, or ones) over the sampled blocks and those not sampled.

    Both arrays have one entry per sampled block; probabilities are in (0, 1].
    """
    return of_groups(np.zeros(len(amounts), np.int64), amounts, probabilities, 1, error=error).at(0)


def of_groups(
    groups: NDArray[np.integer],
    amounts: Floats,
    probabilities: Floats,
    count: int,
    least: Floats | None = None,
    error: float = 0.0,
) -> Estimates:
    """of_blocks for each group 0..count-1; `groups` has the group of every sampled block.

    `least`: by group, the probability of the smallest block that may exist; if None, of the sampled blocks.
    `error`: the relative standard error of 1/probability, the same for all blocks (`_with_error`).
    Fastest for blocks sorted by group.
    """
    if not len(groups):
        return zeros(count)
    if (groups[1:] < groups[:-1]).any():
        order = np.argsort(groups, kind="stable")
        amounts, probabilities, groups = amounts[order], probabilities[order], groups[order]
    starts = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1])))
    missing = amounts * (1 - probabilities) / probabilities
    variances = missing * amounts / probabilities
    unseen = np.add.reduceat(missing, starts)
    most = np.maximum.reduceat(missing, starts), np.maximum.reduceat(variances, starts)
    if least is not None:
        amount, p = np.minimum.reduceat(amounts, starts), least[groups[starts]]
        most = np.maximum(most[0], amount * (1 - p) / p), np.maximum(most[1], amount**2 * (1 - p) / p**2)
    found = _intervals(
        np.add.reduceat(amounts, starts),
        unseen,
        np.add.reduceat(variances, starts),
        np.add.reduceat(missing * amounts, starts) / np.where(unseen > 0, unseen, 1.0),
        most,
    )
    found = _with_error(found, unseen, error)
    result = zeros(count)
    members = groups[starts]
    for column, values in (
        (result.estimate, found.estimate),
        (result.low, found.low),
        (result.high, found.high),
    ):
        column[members] = values
    return result


def of_counts(
    groups: NDArray[np.integer],
    sizes: Floats,
    probabilities: Floats,
    count: int,
    paths: NDArray[np.integer] | None = None,
    unmet: Floats | None = None,
    error: float = 0.0,
) -> Estimates:
    """The number of blocks, by group as in of_groups, from the sizes of the sampled blocks.

    `paths`: the call path of every sampled block, each in one group; None: a group is one path.
    `unmet`: by group, the probability of a block of its call paths without a block here, 1 if there are none:
    the interval includes such blocks.
    `high` is infinite if a part is unseen and the sampled sizes of one path differ more than SIZES times: a
    place that allocates both large and small blocks may have made any number of blocks too small to sample.
    """
    of = groups if paths is None else paths
    number = count if paths is None else int(of.max(initial=0)) + 1
    largest, smallest, coarsest = np.zeros(number), np.full(number, np.inf), np.zeros(number)
    np.maximum.at(largest, of, sizes)
    np.minimum.at(smallest, of, sizes)
    rare = probabilities < NEARLY_SURE
    np.maximum.at(coarsest, of[rare], -sizes[rare] / np.log1p(-probabilities[rare]))
    # Where each block is certain, an empty one is, too: there is no interval to divide its size by.
    ratio = np.divide(smallest, coarsest, out=np.full(number, np.inf), where=coarsest > 0)
    least = -np.expm1(-ratio)
    wide = largest > SIZES * smallest
    if paths is not None:
        group_of = np.full(number, -1, np.int64)
        group_of[of] = groups
        known = np.flatnonzero(group_of >= 0)
        least_of, wide_of = np.ones(count), np.zeros(count, np.bool_)
        np.minimum.at(least_of, group_of[known], least[known])
        np.logical_or.at(wide_of, group_of[known], wide[known])
        least, wide = least_of, wide_of
    if unmet is not None:
        least = np.minimum(least, unmet)
    found = of_groups(groups, np.ones(len(sizes)), probabilities, count, least, error)
    open_ended = wide & (found.high > found.estimate)
    return Estimates(found.estimate, found.low, np.where(open_ended, np.inf, found.high))


def of_many_sums(
    seen: Floats, unseen: Floats, variance: Floats, samples: Floats, z: float = NORMAL_95
) -> Estimates:
    """The intervals of blocks from sums over the samples alone: see above for each sum."""
    block = np.where(samples > 0, seen / np.maximum(samples, 1), 0.0)
    return _intervals(seen, unseen, variance, block, z=z)


def of_sums(seen: float, unseen: float, variance: float, samples: float) -> Estimate:
    """of_many_sums of one group."""
    values = [np.array([value], np.float64) for value in (seen, unseen, variance, samples)]
    return of_many_sums(values[0], values[1], values[2], values[3]).at(0)


@dataclass(frozen=True, slots=True)
class Parts:
    """The sums that of_blocks needs, so that groups of groups have the same interval.

    The sums of amounts, of m = amount (1-p)/p, of v = m amount/p and of m amount; the largest m and v.
    """

    seen: float = 0.0
    unseen: float = 0.0
    variance: float = 0.0
    weighted: float = 0.0
    most_unseen: float = 0.0
    most_variance: float = 0.0

    def with_(self, other: Parts) -> Parts:
        return Parts(
            self.seen + other.seen,
            self.unseen + other.unseen,
            self.variance + other.variance,
            self.weighted + other.weighted,
            max(self.most_unseen, other.most_unseen),
            max(self.most_variance, other.most_variance),
        )

    def estimate(self, error: float = 0.0) -> Estimate:
        def one(value: float) -> Floats:
            return np.array([value])

        block = self.weighted / self.unseen if self.unseen > 0 else 0.0
        most = one(self.most_unseen), one(self.most_variance)
        found = _intervals(one(self.seen), one(self.unseen), one(self.variance), one(block), most)
        return _with_error(found, one(self.unseen), error).at(0)


def parts_of_groups(
    groups: NDArray[np.integer], amounts: Floats, probabilities: Floats, count: int
) -> list[Parts]:
    """By group, as in of_groups."""
    missing = amounts * (1 - probabilities) / probabilities
    variances = missing * amounts / probabilities
    columns: list[Floats] = [
        np.bincount(groups, weights, minlength=count).astype(np.float64)
        for weights in (amounts, missing, variances, missing * amounts)
    ]
    for values in (missing, variances):
        most = np.zeros(count)
        np.maximum.at(most, groups, values)
        columns.append(most)
    return [Parts(*row) for row in np.array(columns).T.tolist()]


def of_many_totals(total: Floats, variance: Floats, samples: Floats) -> Estimates:
    """The intervals of totals from sums alone (the probe's counters per stack).

    For n equal blocks variance = total^2 (1-p)/n, which gives p and so the seen part, total * p;
    unequal blocks have a larger variance, and then no part counts as surely seen.
    """
    total = np.maximum(total, 0.0)
    relative = variance / np.where(total > 0, total, 1.0) ** 2
    exact = (total <= 0) | (relative < 1e-15) | (samples <= 0)
    unseen = np.where(exact, 0.0, total * np.minimum(relative * samples, 1.0))
    return of_many_sums(total - unseen, unseen, variance, samples)


def poisson_limits(counts: Floats) -> tuple[Floats, Floats]:
    """95 % limits of the mean of a Poisson variable, from a count above zero (Garwood 1936)."""
    return _gamma_quantile(counts, counts, -NORMAL_95), _gamma_quantile(counts + 1, counts + 1, NORMAL_95)


def hidden(interval_bytes: float | Floats, block_bytes: Floats) -> Floats:
    """The most bytes that exist without a sampled block, at 95 %.

    N blocks of s bytes all escape with probability exp(-N s/interval), which is 5 % at
    N s = 3 intervals (the rule of three).  `block_bytes` is the size of such blocks, 0 if
    unknown: a block of more than three intervals does not escape.  In an exact recording
    (interval_bytes 0) the limit is 0.
    """
    most = _INTERVALS_UNSEEN * np.maximum(interval_bytes, 0.0)
    known = block_bytes > 0
    block = np.where(known, block_bytes, 1.0)
    return np.where(known, np.floor(most / block) * block, most)


def interval_of(blocks: Floats, samples: Floats, block_bytes: Floats) -> Floats:
    """The mean interval at which so many of the blocks were sampled; 0: all of them, or none known.

    A budget moves the interval: what a start-up allocated was sampled sixteen times as rarely as what came
    later.
    """
    some = (samples > 0) & (samples < NEARLY_SURE * blocks)
    share = np.where(some, samples / np.where(some, blocks, 1.0), 0.5)
    found: Floats = np.where(some, -block_bytes / np.log1p(-share), 0.0)
    return found


def total(parts: list[Estimate]) -> Estimate:
    """The sum of independent estimates; each side's half-widths add up in squares.

    (Method of variance estimates recovery: Donner and Zou, Statistics in Medicine 31, 2012.)
    """
    estimate = sum(part.estimate for part in parts)
    below = math.sqrt(sum((part.estimate - part.low) ** 2 for part in parts))
    above = math.sqrt(sum((part.high - part.estimate) ** 2 for part in parts))
    return Estimate(estimate, estimate - below, estimate + above)


def difference(gained: Estimate, lost: Estimate) -> Estimate:
    """gained - lost with its interval, by the same method."""
    estimate = gained.estimate - lost.estimate
    below = math.hypot(gained.estimate - gained.low, lost.high - lost.estimate)
    above = math.hypot(gained.high - gained.estimate, lost.estimate - lost.low)
    return Estimate(estimate, estimate - below, estimate + above)
