"""What the ranking of sites returns and reports render."""

from __future__ import annotations

from dataclasses import dataclass

from offheap.analysis.sites.results import Site
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.verdicts.verdict_reasons import Verdict
from offheap.recording.model import Frame


@dataclass(frozen=True, slots=True)
class Suspect:
    """A site with its verdict.  `why` is one sentence with the figures behind the verdict.

    called    the library's outermost method that `blamed` called, None where it called none
    triggers  of an agent's callback: the Java methods that ran when it was called, most live bytes first
    object_class  of Java objects: `byte[]`, `java.lang.String`; "" of native memory
    """

    rank: int
    verdict: Verdict
    confidence: float  # 0..1
    site: Site
    blamed: Frame  # the frame a person should look at: the application's, not the allocator's wrapper
    growth_bytes_per_second: Estimate
    # What the recording saw it grow by, where it freed nothing: without the chance by which births come.
    grown_bytes_per_second: Estimate
    old_bytes: Estimate  # live bytes born before the last fifth of the recording
    why: str
    # A Java object may own it, and no collection is known to have run that would have freed it.
    waits_for_gc: bool = False
    called: Frame | None = None
    triggers: tuple[Frame, ...] = ()
    seconds_to_limit: Estimate | None = None  # by this growth alone; None: no limit is known, or no growth
    next: str = ""  # what would tell, or bounds it; "" where nothing is known
    object_class: str = ""
