"""The rate X that a recording excludes: a leak of rate X would have been reported.

X is the larger of two rates, each at 95 %:

a new site   Samples of a leak come by chance.  `site_verdicts` reports a site that freed nothing, at least as
             "growing", if the site is older than SHORTEST seconds and if the last two thirds of its own
             time have a sample each and FEWEST_OF_LATE together.  `samples_needed` is the mean number of
             samples at which 95 of 100 recordings report the site; X is that number, times the bytes
             that a sample stands for, over the time.
an old site  Blocks that leaked in a part of the time are alive at the end: they are at most the survivors
             that were born in that part.  For each unreported site, the least of four upper limits: those
             of the survivors of three parts of the time, and that of its net growth (`growth_limits`).
             Only its growth limits a site that freed nothing and takes blocks in waves (`wave_limits`).

X assumes a leak through the whole recording at an even rate, in blocks of at most BLOCK_BYTES.
Larger blocks are rarer: a leak in blocks of s bytes may be `samples_needed` x s / seconds larger than X.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from offheap.analysis.sites.sites import SiteTable, latest_rows
from offheap.analysis.statistics.estimates import Estimates, Floats
from offheap.analysis.statistics.student import DEVIATIONS_95
from offheap.analysis.verdicts.signs import FEWEST_SURVIVORS
from offheap.analysis.verdicts.site_history import Histories
from offheap.analysis.verdicts.verdict_rules import FEWEST_OF_LATE, SHORTEST
from offheap.quantities import format_duration, format_size, round_up_seconds

PROBABILITY = 0.95  # that a leak of X is reported
# Bytes per second, the default limit: 4 MiB a minute fill 1 GiB within a working day.  A recording of
# a minute or two under the default budget excludes this rate, even in a program that churns 100 MB/s.
DEFAULT_LIMIT = (4 << 20) / 60
# Without a bound on block sizes no recording excludes a leak: one block of 1 GiB may still come.
BLOCK_BYTES = 4096.0
# Parts of the time, as shares, in which survivors are counted.  Data loaded at the start is in the first.
# Blocks in use at the end are in the last sixteenth, which no part has, and then in the third part.
_PARTS = ((0.0, 1 / 3), (1 / 3, 0.8), (2 / 3, 0.94))
# The least of four upper limits counts, so each has a quarter of the error probability.
_DOUBT = (1 - PROBABILITY) / 4
_NORMAL = 2.2414  # quantile of 1 - _DOUBT
# The shortest run for which a gate is planned: tests and short soaks are longer.
EXPECTED_SECONDS = 20.0
# A few old blocks raise the rate that an existing site may hide: the plan is for half the limit.
_MARGIN = 2.0
# Bytes.  At 1 GB/s that is 16,000 samples a second, some 2 % of a CPU: a coarser interval saves nothing.
_COARSEST = 64 << 10
# Samples of a leak: where so many are not enough, the recording is too short for any number.
_MOST_SAMPLES = 1e6
# Share of the births before the longest pause that came after it: of three like waves one comes after two.
_NEXT_WAVE = 0.5
_EXACT = 1e-3  # share of the samples that the search may miss: far less than their chance
_STEPS = 400  # of the integral over the time of a leak's first sample


@dataclass(frozen=True, slots=True)
class Power:
    """Rates in bytes a second.

    new_site        least rate of a leak that is reported at a new stack; infinite: too short for any verdict
    existing_site   highest rate of a leak that an existing stack may hide
    seconds         length of the recording
    interval_bytes  mean, of the size class with the coarsest sampling; 0: exact
    """

    new_site: float
    existing_site: float
    seconds: float
    interval_bytes: int

    @property
    def bytes_per_second(self) -> float:
        """X."""
        return max(self.new_site, self.existing_site)

    def excludes(self, limit: float) -> bool:
        """Whether the recording would have reported every leak of this rate."""
        return self.bytes_per_second <= limit

    def seconds_for(self, limit: float) -> float:
        """The length of a recording at which X falls to `limit`, if no more memory stays than now.

        The samples needed, the bytes that may hide between samples and the live bytes stay the same; only the
        time that divides them grows.
        """
        if limit <= 0:
            return math.inf
        new_site = samples_needed(math.inf) * bytes_per_sample(self.interval_bytes) / limit
        return round_up_seconds(max(2 * SHORTEST, new_site, self.seconds * self.existing_site / limit))


def new_site_limit(seconds: float, interval_bytes: float) -> float:
    """The least rate at which a leak at a new stack is reported with 95 %."""
    needed = samples_needed(seconds)
    return needed * bytes_per_sample(interval_bytes) / seconds if math.isfinite(needed) else math.inf


def bytes_per_sample(interval_bytes: float, block_bytes: float = BLOCK_BYTES) -> float:
    """The bytes that a sampled block stands for: s / (1 - e^(-s/interval)), s in an exact recording."""
    return block_bytes / -math.expm1(-block_bytes / interval_bytes) if interval_bytes > 0 else block_bytes


@cache
def samples_needed(seconds: float) -> float:
    """The mean number of samples of a leak at which 95 of 100 recordings of this length report the leak."""
    if seconds <= SHORTEST:
        return math.inf
    low, high = 0.0, 1.0
    while reported(high, seconds) < PROBABILITY:
        low, high = high, high * 2
        if high > _MOST_SAMPLES:
            return math.inf
    while high - low > _EXACT * high:
        middle = (low + high) / 2
        low, high = (low, middle) if reported(middle, seconds) >= PROBABILITY else (middle, high)
    return high


def reported(samples: float, seconds: float) -> float:
    """The probability that a leak with this expected number of samples is reported.

    The first sample comes after the share u of the time, with the density n e^(-nu); there the site's own
    time begins, which is cut into thirds.
    """
    latest = 1 - SHORTEST / seconds
    u = (np.arange(_STEPS) + 0.5) / _STEPS * latest
    third = samples * (1 - u) / 3
    none = np.exp(-third)
    enough = (1 - none) ** 2  # one in the middle third and one in the last
    for many in range(2, FEWEST_OF_LATE):
        enough -= none**2 * third**many * (2.0**many - 2) / math.factorial(many)
    return float((samples * np.exp(-samples * u) * enough).sum() * latest / _STEPS)


def interval_for(limit: float, seconds: float) -> float:
    """The coarsest mean interval that excludes `limit` after `seconds`; 0: only an exact recording does.

    An interval below BLOCK_BYTES becomes 0: for such blocks its X is nearly that of an exact recording.
    """
    bytes_each = limit * seconds / samples_needed(seconds)
    # A sample of blocks much smaller than the interval stands for the interval and half a block.
    interval = bytes_each - BLOCK_BYTES / 2
    return float(2 ** int(math.log2(interval))) if interval >= BLOCK_BYTES else 0.0


@dataclass(frozen=True, slots=True)
class Precision:
    """interval_bytes  mean bytes between samples; 0: exact"""

    interval_bytes: int
    why: str


def precision(limit: float, seconds: float | None = None) -> Precision:
    """The sampling interval with which a gate at `limit` is decided after `seconds`.

    seconds: None if the run time of the program is unknown
    """
    expected = EXPECTED_SECONDS if seconds is None else seconds
    interval = min(round(interval_for(limit / _MARGIN, expected)), _COARSEST)
    if interval:
        how = f"recording a sample every {format_size(interval)}"
    else:
        how = "recording every block, as --exact does"
    gate = f"a leak of {format_size(limit * 60)}/min within {format_duration(expected)}"
    return Precision(interval, f"{how}: to show or exclude {gate}")


def growth_limits(sites: SiteTable, history: Histories, growth: Estimates) -> Floats:
    """By site, the rate of a leak that the site may hide: the least of four upper limits, together at 95 %.

    growth: bytes per second, as judged
    """
    unseen = _unseen(sites)
    limits = growth.estimate + (growth.high - growth.estimate) * _NORMAL / DEVIATIONS_95
    start, end = history.times[0], history.times[-1]
    for shares in _PARTS:
        low, high = (int(np.abs(history.times - start - share * (end - start)).argmin()) for share in shares)
        if low < high:
            survivors = history.found(low, high, _NORMAL).high
            most = np.where(history.sampled(low, high) > 0, survivors, unseen)
            limits = np.minimum(limits, most / (history.times[high] - history.times[low]))
    return np.maximum(limits, 0.0)


def wave_limits(sites: SiteTable, history: Histories) -> Floats:
    """By site, the rate of a leak in waves: of a site that freed nothing, whose next wave may be due.

    A leak that comes in a batch every half minute leaves parts of the time without a birth, which
    `growth_limits` would take as an upper limit.  0 of other sites.
    """
    a, end = history.at(1 / 3), history.end
    enough = (sites.samples <= history.sampled(0, end)) & (history.sampled(a, end) >= FEWEST_SURVIVORS)
    again = np.zeros(len(sites), np.bool_)
    again[enough] = [_may_come(history, site) for site in np.flatnonzero(enough).tolist()]
    # A site that is new has hardly any time of its own: a few blocks in it are no rate.
    seconds = np.maximum(history.seconds(a, end), (history.times[-1] - history.times[0]) / 3)
    limits: Floats = np.where(again, history.found(a, end, _NORMAL).high / np.maximum(seconds, SHORTEST), 0.0)
    return limits


def _may_come(history: Histories, site: int) -> bool:
    """Whether the next wave may be due: the last births are no longer ago than the longest pause.

    A start-up, or a cache that fills, takes ever less: after the longest pause less than before.
    """
    counts = np.diff(history.samples[site])
    filled = np.flatnonzero(counts)
    born = history.times[1:][filled]
    if len(born) < 2:
        return False
    pauses = np.diff(born)
    longest = int(pauses.argmax())
    after = float(counts[filled[longest + 1 :]].sum())
    before = float(counts[filled[: longest + 1]].sum())
    return after >= _NEXT_WAVE * before and bool(history.times[-1] - born[-1] <= pauses[longest])


def _unseen(sites: SiteTable) -> Floats:
    """By site, the bytes of blocks that may all have escaped the sampling, at the worst of its stacks.

    n blocks of s bytes all escape with probability e^(-n s/interval).
    """
    latest = latest_rows(sites.recording)
    stacks = np.flatnonzero(latest >= 0)
    rows = sites.recording.series[latest[stacks]]
    samples, blocks = rows["samples"].astype(np.float64), rows["allocated_blocks"]
    taken = (samples > 0) & (blocks > samples * (1 + 1e-9))  # all are sampled: none escapes
    samples, blocks = np.where(taken, samples, 1.0), np.where(taken, blocks, 2.0)
    size = np.maximum(np.where(taken, rows["allocated_bytes"], 2.0) / blocks, 1.0)
    interval = -size / np.log1p(-samples / blocks)
    escape = np.where(taken, np.floor(interval * -math.log(_DOUBT) / size) * size, 0.0)
    most = np.zeros(len(sites))
    np.maximum.at(most, sites.grouping.of_stack[stacks], escape)
    return most
