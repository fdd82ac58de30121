"""The verdict that stands of a recording that grows: it changes when the evidence has held, not at once.

Each reading judges a site anew, and near a threshold one says leak and the next says growing.  A person who
reads the screen needs one answer, and to know when it has changed:

- the first leak stands at once: nobody waits for an alarm
- the first `growing` needs `READINGS` readings in a row: in the first seconds every buffer that fills grows
- `freed` comes and goes at once: whether anything is live is a fact, not an inference
- `cannot tell yet` gives way to `steady` and `startup` at once: it is the lack of a verdict
- any other verdict replaces the one that stands once no reading has agreed with that for `hold` seconds

Pure: times come from the recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from offheap.analysis.verdicts.verdict_reasons import VERDICTS, Judgements, Reason, Verdict

READINGS = 2  # in a row: one reading may be chance

# A verdict rests on the last two thirds of the recording's time.  After another third of that time half of
# what it rests on is new, so that what still disagrees is no longer the same chance.
HOLD_SHARE = 1 / 3
HOLD_LEAST = 5.0  # seconds: over less time one burst of allocations decides what readings say
HOLD_MOST = 60.0  # seconds: nobody watches longer for a leak that was fixed

# How much a verdict alarms.  The first rise to a level shows sooner than a fall from it.
_ALARM: dict[Verdict, int] = {
    "freed": 0,
    "startup": 0,
    "steady": 0,
    "cannot tell yet": 0,
    "growing": 1,
    "leak": 2,
}


@dataclass(frozen=True, slots=True)
class Standing:
    """The verdict that stands for one site.

    reason      with its verdict, as the last reading that agreed with it judged
    highest     the most alarming verdict that ever stood
    against     readings in a row that disagreed, the first of them at `since` seconds
    rising      the last readings in a row that saw a more alarming verdict than ever stood
    """

    reason: Reason
    confidence: float
    highest: int
    against: int = 0
    since: float = 0.0
    rising: int = 0

    @property
    def verdict(self) -> Verdict:
        return VERDICTS[self.reason]


def hold(seconds: float) -> float:
    """How long a verdict has to be contradicted until it falls, at so many seconds of the recording."""
    return min(max(HOLD_SHARE * seconds, HOLD_LEAST), HOLD_MOST)


def settled(before: Standing | None, reason: Reason, confidence: float, time: float) -> Standing:
    """What stands after a reading that judged so at `time` seconds of the recording."""
    verdict = VERDICTS[reason]
    alarm = _ALARM[verdict]
    if before is None:
        return Standing(reason, confidence, alarm)
    fresh = Standing(reason, confidence, max(alarm, before.highest))
    if "freed" in (verdict, before.verdict) or verdict == before.verdict:
        return fresh
    if before.verdict == "cannot tell yet" and not alarm:
        return fresh
    against = before.against + 1
    since = before.since if before.against else time
    rising = before.rising + 1 if alarm > before.highest else 0
    first_leak = verdict == "leak" and rising > 0
    if first_leak or rising >= READINGS or (against >= READINGS and time - since >= hold(time)):
        return fresh
    return replace(before, against=against, since=since, rising=rising)


class Standings:
    """The standing verdict of each site, by a key that stays the same from reading to reading."""

    def __init__(self) -> None:
        self._of: dict[int, Standing] = {}

    def settle(self, judged: Judgements, keys: Sequence[int], time: float) -> Judgements:
        """The judgements with the verdicts that stand; `seen` keeps what this reading alone says."""
        self._of = {
            key: settled(self._of.get(key), Reason(reason), confidence, time)
            for key, reason, confidence in zip(
                keys, judged.seen.tolist(), judged.confidence.tolist(), strict=True
            )
        }
        stand = [self._of[key] for key in keys]
        return replace(
            judged,
            reason=np.array([one.reason for one in stand], np.int64),
            confidence=np.array([one.confidence for one in stand], np.float64),
        )
