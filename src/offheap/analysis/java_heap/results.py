"""What the Java objects of a recording say, which reports render."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nlargest

from offheap.analysis.java_heap.java_ranking import JavaRanking
from offheap.analysis.leaks.results import Suspect
from offheap.analysis.statistics.estimate import Estimate
from offheap.recording.model import CollectionKind, JavaHeapState


@dataclass(frozen=True, slots=True)
class Totals:
    bytes: Estimate
    objects: Estimate


@dataclass(frozen=True, slots=True)
class Books:
    """The survivors beside the heap in use after the last collection, as the JVM itself counts it.

    heap_bytes   in use after the collection
    heap_source  of this figure: `hsperfdata`
    seconds      since the start of the recording: the reading of `heap_bytes`
    estimate     bytes of the survivors
    explained    share of the heap: 1 is all of it
    agrees       whether the rest can be explained
    why          the explanation of the rest, or the contradiction, as one sentence
    """

    heap_bytes: float
    heap_source: str
    seconds: float
    estimate: Estimate
    explained: Estimate
    agrees: bool
    why: str


@dataclass(frozen=True, slots=True)
class ClassTotal:
    """The objects of one class, `byte[]` or `java.lang.String`."""

    name: str
    live_bytes: Estimate
    live_objects: Estimate
    uncollected_bytes: Estimate


@dataclass(frozen=True, slots=True)
class AfterCollection:
    """A collection, or the last of several between two snapshots.

    seconds     since the start of the recording: the start of the collection
    live_bytes  of the objects that survived it
    heap_bytes  in use after it, by the JVM; None where that is not known
    """

    seconds: float
    kind: CollectionKind
    live_bytes: Estimate
    heap_bytes: float | None


@dataclass(frozen=True, slots=True)
class JavaHeapReport:
    """The Java heap of a recording.

    suspects           the sites of Java objects, the worst first; what is live there survived a collection
    survivors          objects born before the last collection, which it did not free: the live ones
    uncollected        younger objects: not known to be live
    books              None: the heap in use is not known, or no collection ran
    classes            most live bytes first, then most uncollected
    after_collections  by time
    coverage           sentences: what the figures leave out, and why
    undecided          why no verdict is possible, and what makes one possible; "" if there are verdicts
    scaled             the factor by which live bytes were multiplied; None: they are estimates
    """

    state: JavaHeapState
    suspects: JavaRanking
    survivors: Totals
    uncollected: Totals
    books: Books | None
    classes: tuple[ClassTotal, ...]
    after_collections: tuple[AfterCollection, ...]
    coverage: tuple[str, ...]
    undecided: str = ""
    scaled: float | None = None

    @property
    def suspicious(self) -> int:
        """How many sites leak or grow; none without verdicts."""
        counts = self.suspects.counts()
        return 0 if self.undecided else counts["leak"] + counts["growing"]

    def share(self, suspect: Suspect) -> float:
        """The part (0..1) of the survivors that a site keeps."""
        whole = self.survivors.bytes.estimate
        return suspect.site.live_bytes.estimate / whole if whole else 0.0

    def largest(self, top: int | None) -> list[Suspect]:
        """So many sites, or all, most live bytes first; of equal ones the worst first."""
        most = len(self.suspects) if top is None else top
        return nlargest(most, self.suspects, key=lambda one: one.site.live_bytes.estimate)
