"""Cycles of a collector of which the JVM counts the pauses (ZGC) or the phases (Shenandoah).

A cycle begins with the pause that starts to mark, and ends soon after the pause that starts to move objects
(zDriver.cpp, JDK 17 to 25).  It frees no object that is born between the two, so the time of a later pause
does not tell which objects the cycle has met.

Both may have generations.  Some causes make a major cycle of ZGC promote all objects first, and make
Shenandoah collect both generations: such a cycle is over the whole heap at once, like a full collection.
After another cycle of ZGC, objects that were not yet old stay; another one of Shenandoah may be a young one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from offheap.jvm.counters.collectors import generational_shenandoah

# By the collector's name, the fewest pauses of a cycle, and so many that one whole cycle is among them.
# Marking that a pause finds incomplete adds a pause; a major cycle that promotes all objects has eight.  A
# cycle of Shenandoah has 5 to 13 phases.  JDK 11 of some vendors names ZGC "stop-the-world".
_PAUSES = {
    re.compile(r"Z concurrent cycle pauses|ZGC minor collection pauses|stop-the-world"): (3, 5),
    re.compile(r"ZGC major collection pauses"): (5, 15),
    re.compile(r"Shenandoah (?:partial|full)"): (3, 40),
}
_MAJOR = "ZGC major collection pauses"
# should_preclean_young in zDriver.cpp, as gcCause.cpp writes the causes.  A stall is left out: it is a cause
# of minor collections too, and the JVM tells the last cause of both.
_OF_ALL = frozenset(
    {
        "System.gc()",
        "Diagnostic Command",
        "JvmtiEnv ForceGarbageCollection",
        "Heap Dump Initiated GC",
        "Heap Inspection Initiated GC",
        "Metadata GC Clear Soft References",
    }
)


@dataclass(slots=True)
class Cycles:
    """The pauses of cycles that may not have ended.

    least   pauses of a cycle
    enough  pauses with a whole cycle among them
    causes  whether the cause tells if a cycle is over the whole heap at once
    """

    least: int
    enough: int
    causes: bool
    _pauses: list[tuple[float, float, int]] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, vm_arguments: str = "") -> Cycles | None:
        """None: the JVM counts this collector's collections, or not all pauses of a cycle are known."""
        causes = name == _MAJOR or generational_shenandoah(name, vm_arguments)
        found = (cls(*pauses, causes) for names, pauses in _PAUSES.items() if names.fullmatch(name))
        return next(found, None)

    def add(self, began: float, ended: float, count: int) -> None:
        """`count` pauses since the call before: the earliest begin of the first, and the end of the last."""
        self._pauses.append((began, ended, count))

    def take(self, *, at_rest: bool) -> tuple[float, float] | None:
        """When the pauses of whole cycles began and ended, of several as if they were one.

        at_rest  no collection runs.  A poll may see no rest between two cycles.
        """
        count = sum(count for _, _, count in self._pauses)
        if count < self.enough and not at_rest:
            return None
        # Fewer are the end of a cycle whose begin nobody saw.
        whole = (self._pauses[0][0], self._pauses[-1][1]) if count >= self.least else None
        self._pauses.clear()
        return whole

    def of_all(self, cause: str) -> bool:
        """Whether a cycle of this cause is over the whole heap at once."""
        return self.causes and cause in _OF_ALL
