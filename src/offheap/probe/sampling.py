"""The sampling as requested and as it runs: the choices of `--interval`, `--budget`, `--exact`."""

from __future__ import annotations

from dataclasses import dataclass

from offheap.probe.contract import Mode
from offheap.probe.live_files.header import Header
from offheap.quantities import format_share, format_size


@dataclass(frozen=True, slots=True)
class Sampling:
    """None, None, False: no choice.  With a budget the interval is the least one."""

    interval: int | None = None
    budget: float | None = None
    exact: bool = False

    def fits(self, now: Sampling) -> bool:
        """Whether a running recording has the requested sampling."""
        if self.exact or now.exact:
            return self in (now, Sampling())
        if self.budget is not None and self.budget != now.budget:
            return False
        # An interval without a budget is fixed.
        fixed = self.interval is not None and self.budget is None
        return self.interval in (None, now.interval) and not (fixed and now.budget is not None)

    def __str__(self) -> str:
        if self.exact:
            return "--exact"
        budget = [f"--budget {format_share(self.budget)}"] if self.budget is not None else []
        interval = [f"--interval {_option(self.interval)}"] if self.interval is not None else []
        return " ".join(budget + interval) or "the default sampling"


def running(header: Header) -> Sampling:
    """The sampling of a live file."""
    if header.mode is Mode.EXACT:
        return Sampling(exact=True)
    budget = None if header.budget is None else round(header.budget.share, 6)
    return Sampling(int(header.intervals[1]), budget)


def _option(size: int) -> str:
    text = format_size(size).replace(" ", "").replace(".0", "")
    return text.removesuffix("B") if size < 1024 else text
