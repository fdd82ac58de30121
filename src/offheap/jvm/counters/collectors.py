"""A JVM's collectors by their number and name in its performance data, as of JDK 11 to 27.

Collector 0 collects the young generation alone, 1 and 2 the whole heap or the old generation.  Shenandoah
counts each phase of every cycle as collector 1, "Shenandoah full", also those of young cycles.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# As recordings name them (recording/model.py, which this room does not know).
G1, GENERATIONAL_Z = "G1", "generational ZGC"

_GENERATIONAL = re.compile(r"-XX:ShenandoahGCMode=generational")
# Collectors of the whole heap beside the program.  JDK 11 of some vendors names ZGC's "stop-the-world".
_BESIDE = re.compile(r"cycle|phases|major|^CMS|^Z|^Shenandoah|^stop-the-world$")
# Serial and Parallel; G1's full collection.
_FULL = re.compile(r"MSC|PSParallelCompact|G1 stop-the-world full collections|.*full.*", re.IGNORECASE)


def generational_shenandoah(name: str, vm_arguments: str) -> bool:
    return name.startswith("Shenandoah") and _GENERATIONAL.search(vm_arguments) is not None


def kind_of(number: int, name: str, vm_arguments: str = "") -> str:
    """The kind of a collector's runs, unless their cause says more (cycles.py)."""
    if generational_shenandoah(name, vm_arguments):
        return "young"
    if name.startswith("Shenandoah"):
        return "concurrent"
    if number == 0:
        return "young"
    if _BESIDE.search(name):
        return "concurrent"
    # An unknown collector may free young objects alone.
    return "full" if _FULL.search(name) else "young"


def family(names: Iterable[str]) -> str:
    """G1, GENERATIONAL_Z, or "" for all others."""
    some = list(names)
    if any(name.startswith("ZGC minor") for name in some):
        return GENERATIONAL_Z
    return G1 if any(name.startswith("G1 ") for name in some) else ""
