"""How often the recorder reads the live file and asks who holds the RSS, by the CPU that it takes.

At first, and without a budget, each has a share of one CPU.  Under a budget the recorder takes what sampling
leaves: the budget is a share of the CPU that the process uses, or of one CPU where the process uses less, and
the probe keeps to that less half of what is due to one CPU (probe/sampling/budget.c).
"""

from __future__ import annotations

from dataclasses import dataclass

from offheap.recording.model import Budget

# Of one CPU: a snapshot, or the live set's part of it, that took c seconds of CPU is not repeated before
# c / share seconds have gone by.  Not of the clock's: where the CPUs are busy most of that is waiting, and
# ten seconds would go by unseen.  Naming is left out: the first snapshot names most frames, later ones
# hardly any.
_SNAPSHOTS = 0.05
_SNAPSHOTS_WHEN_ASKED = 0.5  # with `every` someone has chosen what it may cost
_LOOKS = 0.02  # at who holds the RSS, which walk the whole address space

SETTLED_SECONDS = 10.0  # from then on a budget bounds the recorder
# Parts of what the budget leaves.  Snapshots have the larger one: they tell between which two of them a block
# was freed, and so whether a collection has freed it.
_PART_OF_SNAPSHOTS, _PART_OF_LOOKS = 0.6, 0.4
# Of that, what to aim at: the next snapshot may cost more than the last.
_AIM = 0.95

# Seconds since the recorder began -> seconds between snapshots.
_CADENCE = ((60.0, 1.0), (600.0, 5.0), (3600.0, 15.0), (float("inf"), 30.0))
_LOOK_SECONDS = 2.0  # between looks, at least
# Of fewer the time that the recorder takes to wait says nothing: one snapshot would be all of it.
_FEW_SECONDS = 5.0
# Nothing is rarer than this for want of CPU: a small budget leaves less than one snapshot a minute costs.
_RAREST_SECONDS = 30.0


@dataclass
class Pace:
    """`age` is the seconds since the recorder began, `used` the CPU seconds that its process has used."""

    every: float | None  # seconds between snapshots, where the user has chosen them
    _paid: float = 0.0  # CPU seconds of snapshots and looks since `_settled`
    _settled: tuple[float, float] | None = None  # age and CPU seconds of the process, once it has settled

    def pay(self, seconds: float) -> None:
        """A snapshot or a look took so many seconds of CPU, naming included."""
        self._paid += seconds

    def settle(self, age: float, used: float) -> None:
        if self._settled is None and age >= SETTLED_SECONDS:
            self._settled, self._paid = (age, used), 0.0

    def until_snapshot(self, cost: float, left: float | None, age: float, used: float) -> float:
        """Seconds from the beginning of a snapshot that cost so much to the next one."""
        return max(self.every or _cadence(age), self.until_live_set(cost, left, age, used))

    def until_live_set(self, cost: float, left: float | None, age: float, used: float) -> float:
        share = _SNAPSHOTS if self.every is None else _SNAPSHOTS_WHEN_ASKED
        return self._seconds(cost, share, _PART_OF_SNAPSHOTS, left, age, used)

    def until_look(self, cost: float, left: float | None, age: float, used: float) -> float:
        return max(_LOOK_SECONDS, _cadence(age), self._seconds(cost, _LOOKS, _PART_OF_LOOKS, left, age, used))

    def _seconds(
        self, cost: float, share: float, part: float, left: float | None, age: float, used: float
    ) -> float:
        if self.every is not None or left is None or self._settled is None:
            return cost / share
        since, at_first = self._settled
        # What the recorder takes between snapshots and looks: it waits, and reads a few numbers.
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
