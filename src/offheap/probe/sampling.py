"""The sampling as requested and as it runs: `--interval`, `--budget`, `--exact` and `--java-heap`."""

from __future__ import annotations

from dataclasses import dataclass

from offheap.probe.contract import JAVA_CODE, Mode
from offheap.probe.live_files.header import Header
from offheap.quantities import format_share, format_size


@dataclass(frozen=True, slots=True)
class Sampling:
    """None and False: no choice.  With a budget the interval is the least one.

    java_interval  the least one of Java objects: it rises when they are thinned
    """

    interval: int | None = None
    budget: float | None = None
    exact: bool = False
    java_heap: bool = False
    java_interval: int | None = None

    def fits(self, now: Sampling) -> bool:
        """Whether a running recording has the requested sampling."""
        if self.java_heap and not now.java_heap:
            return False
        # A recording that follows no Java objects, although requested, has no interval of theirs.
        if None not in (self.java_interval, now.java_interval) and self.java_interval != now.java_interval:
            return False
        if self.exact or now.exact:
            return self.exact == now.exact or (self.interval, self.budget, self.exact) == (None, None, False)
        if self.budget is not None and self.budget != now.budget:
            return False
        # An interval without a budget is fixed.
        fixed = self.interval is not None and self.budget is None
        return self.interval in (None, now.interval) and not (fixed and now.budget is not None)

    def __str__(self) -> str:
        exact = ["--exact"] if self.exact else []
        budget = [f"--budget {format_share(self.budget)}"] if self.budget is not None else []
        interval = [f"--interval {_option(self.interval)}"] if self.interval is not None else []
        java = ["--java-heap"] if self.java_heap else []
        if self.java_interval is not None:
            java = [f"--java-heap-interval {_option(self.java_interval)}"]
        return " ".join(exact + budget + interval + java) or "the default sampling"


def running(header: Header) -> Sampling:
    """The sampling of a live file."""
    java = header.java_heap
    java_interval = int(header.intervals[JAVA_CODE]) if java and java.state == "followed" else None
    if header.mode is Mode.EXACT:
        return Sampling(exact=True, java_heap=java is not None, java_interval=java_interval)
    budget = None if header.budget is None else round(header.budget.share, 6)
    return Sampling(int(header.intervals[1]), budget, False, java is not None, java_interval)


def _option(size: int) -> str:
    text = format_size(size).replace(" ", "").replace(".0", "")
    return text.removesuffix("B") if size < 1024 else text
