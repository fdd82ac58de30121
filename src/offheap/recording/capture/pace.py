"""How often the recorder reads the live file and asks who holds the RSS, by the CPU that each took.

Snapshots and readings have a share of one CPU each at first, and without a budget.  Under a budget the
recorder takes what sampling leaves.  The budget is a share of the CPU that the process uses, or of one CPU if
the process uses less, and the probe keeps half a CPU's budget free (probe/sampling/budget.c).
"""

from __future__ import annotations

from dataclasses import dataclass

from offheap.recording.model import Budget

# Shares of one CPU: a snapshot, or the write of the live set, that took c seconds of CPU is not repeated
# before c / share seconds are over.  CPU time counts, not elapsed time: on a busy machine a snapshot mostly
# waits, and ten seconds would pass without one.  Naming does not count, since the first snapshot names most
# frames.
_SNAPSHOTS = 0.05
_SNAPSHOTS_WHEN_ASKED = 0.5  # `every` is the user's choice of the cost
_READINGS = 0.02  # of the owners of RSS: each walks the whole address space

SETTLED_SECONDS = 10.0  # a budget bounds the recorder from this age on
# Parts of what the budget leaves.  Snapshots have the larger one: they tell between which two of them a block
# was freed, and so whether a collection freed it.
_PART_OF_SNAPSHOTS, _PART_OF_READINGS = 0.6, 0.4
# The part of the share to aim at, since the next snapshot may cost more than the last.
_AIM = 0.95

# Seconds since the recorder began -> seconds between snapshots.
_CADENCE = ((60.0, 1.0), (600.0, 5.0), (3600.0, 15.0), (float("inf"), 30.0))
_READING_SECONDS = 2.0  # between readings, at least
# The cost of waiting is averaged over at least this time, so that one poll does not look like a high rate.
_FEW_SECONDS = 5.0
# The longest pause that the budget may cause: a small budget pays for less than one snapshot a minute.
_RAREST_SECONDS = 30.0


@dataclass
class Pace:
    """`age` is the seconds since the recorder began, `used` the CPU seconds that its process has used."""

    every: float | None  # seconds between snapshots, where the user has chosen them
    _paid: float = 0.0  # CPU seconds of snapshots and readings since `_settled`
    _settled: tuple[float, float] | None = None  # age and CPU seconds of the process, once it has settled

    def pay(self, seconds: float) -> None:
        """Takes the CPU seconds of a snapshot or a reading, naming included."""
        self._paid += seconds

    def settle(self, age: float, used: float) -> bool:
        """Whether the recorder has settled just now: the next snapshot and reading have other dates."""
        if self._settled is not None or age < SETTLED_SECONDS:
            return False
        self._settled, self._paid = (age, used), 0.0
        return True

    def until_snapshot(self, cost: float, left: float | None, age: float, used: float) -> float:
        """Seconds from the beginning of a snapshot that cost so much to the next one."""
        return max(self.every or _cadence(age), self.until_live_set(cost, left, age, used))

    def until_live_set(self, cost: float, left: float | None, age: float, used: float) -> float:
        share = _SNAPSHOTS if self.every is None else _SNAPSHOTS_WHEN_ASKED
        return self._seconds(cost, share, _PART_OF_SNAPSHOTS, left, age, used)

    def until_reading(self, cost: float, left: float | None, age: float, used: float) -> float:
        return max(
            _READING_SECONDS,
            _cadence(age),
            self._seconds(cost, _READINGS, _PART_OF_READINGS, left, age, used),
        )

    def _seconds(
        self, cost: float, share: float, part: float, left: float | None, age: float, used: float
    ) -> float:
        if self.every is not None or left is None or self._settled is None:
            return cost / share
        since, at_first = self._settled
        # The cost of polls between snapshots and readings.
        waiting = (used - at_first - self._paid) / max(age - since, _FEW_SECONDS)
        bounded = min(share, part * (_AIM * left - waiting))
        return min(cost / bounded, _RAREST_SECONDS) if bounded > 0 else _RAREST_SECONDS


def left(budget: Budget | None, seconds: float) -> float | None:
    """The share of one CPU that sampling has left of the budget in so many seconds; None without a budget."""
    if budget is None or seconds <= 0:
        return None
    return (budget.share * max(budget.cpu_seconds, seconds) - budget.spent_seconds) / seconds


def _cadence(age: float) -> float:
    return next(seconds for until, seconds in _CADENCE if age < until)
