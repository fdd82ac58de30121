"""What a gate returns: passed, failed, or that the recording does not tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from offheap.analysis.leaks.conclusion import Conclusion
from offheap.analysis.leaks.results import Suspect
from offheap.recording.model import Info

Outcome = Literal["passed", "failed", "cannot tell"]


@dataclass(frozen=True, slots=True)
class Check:
    """One condition.

    name      as the option that asked for it: `max-growth 1.0 MiB/min`, `no-new-leaks`
    why       one sentence with the figures
    suspects  the sites behind a failure, the worst first
    """

    name: str
    outcome: Outcome
    why: str
    suspects: tuple[Suspect, ...] = ()


@dataclass(frozen=True, slots=True)
class Gate:
    """All conditions for one recording.

    found    what the recording says as a whole, and what it can exclude; without the sites left out
    ignored  how many sites were left out because a suppression covers them
    used     the suppressions, by their place in what was given, that covered such a site
    java     as `found`, of Java objects; None where the recording has none, or no limit is about them
    """

    info: Info
    found: Conclusion
    checks: tuple[Check, ...]
    ignored: int
    used: frozenset[int]
    java: Conclusion | None = None

    @property
    def outcome(self) -> Outcome:
        """Failed if one condition failed, else whether all could be told."""
        outcomes = {check.outcome for check in self.checks}
        return "failed" if "failed" in outcomes else "cannot tell" if "cannot tell" in outcomes else "passed"
