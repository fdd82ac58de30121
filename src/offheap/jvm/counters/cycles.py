"""Cycles of a collector of which the JVM counts the pauses: ZGC.

A cycle begins with the pause that starts to mark, and ends soon after the pause that starts to move objects
(zDriver.cpp, JDK 17 to 25).  It frees no object that is born between the two, so the time of a later pause
does not tell which objects the cycle has met.

Of generational ZGC, the causes of some major cycles make it promote all objects first.  Such a cycle is over
the whole heap at once, like a full collection; after another one, objects that were not yet old stay.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# By the collector's name, the fewest pauses of a cycle, and so many that one whole cycle is among them.
# Marking that a pause finds incomplete adds a pause; a major cycle that promotes all objects has eight.
_PAUSES = {
    re.compile(r"Z concurrent cycle pauses|ZGC minor collection pauses"): (3, 5),
    re.compile(r"ZGC major collection pauses"): (5, 15),
}
_MAJOR = "ZGC major collection pauses"
# should_preclean_young in zDriver.cpp, as gcCause.cpp writes the causes.  A stall is left out: it is a cause
# of minor collections too, and the JVM tells the last cause of both.
_PROMOTES = frozenset(
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
    major   whether it collects the generations one after the other
    """

    least: int
    enough: int
    major: bool
    _pauses: list[tuple[float, float, int]] = field(default_factory=list)

    @classmethod
    def of(cls, name: str) -> Cycles | None:
        """None: the JVM counts this collector's collections, or not all pauses of a cycle are known."""
        found = (cls(*pauses, name == _MAJOR) for names, pauses in _PAUSES.items() if names.fullmatch(name))
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

    def promotes(self, cause: str) -> bool:
        """Whether a cycle of this cause is over the whole heap at once."""
        return self.major and cause in _PROMOTES
