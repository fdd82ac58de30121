"""What grows in every young JVM, and so proves nothing yet.

HotSpot loads classes and compiles code for minutes, longer if it gets little CPU.  Meanwhile the code cache,
metaspace and the malloc of both grow, first in a straight line and later as the logarithm of the age.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from offheap.analysis.owners.results import Grown, Kind
from offheap.recording.model import OwnersOverTime

AGE = "age"  # the gauge: seconds since the process started
# Seconds.  A server of some thousand classes that shares two CPUs with two busy processes compiles that long.
WARM_UP = 300.0
# Seconds of a watch of a process younger than that, within which a cache that fills may grow in a straight
# line: RocksDB's, of 24 MB, was taken for a leak in 42 % of watches of half a minute, in 25 % of those of a
# minute, and in none of two minutes.
FILLS = 120.0
# Seconds between the first and the last look of such a watch, where others are so busy that one takes 10 s.
_LOOKS_APART = FILLS - 20.0
FILLED: tuple[Kind, ...] = ("native-malloc", "direct-buffers")
# What malloc gains with metaspace and the code cache, over what these gain: arenas, symbols, tables, what the
# compilers hold for each method.
_MALLOC_BESIDE = 2.0
_COMPILED: tuple[str, ...] = ("code-cache", "metaspace", "class-space")
# More loaders of one class than a program makes as it starts.
_FEWEST_LOADERS = 10
# Reflection makes a class loader for each method that is called often, before JDK 18.
_REFLECTION = re.compile(r"\.DelegatingClassLoader$")


def age(over: OwnersOverTime) -> float | None:
    """The age of the process at the last reading, in seconds; None if unknown."""
    ages = over.gauges.get(AGE)
    known = ages[np.isfinite(ages)] if ages is not None else np.zeros(0)
    return float(known[-1]) if len(known) else None


def is_young(over: OwnersOverTime) -> bool:
    found = age(over)
    return found is not None and found < WARM_UP


def may_fill(over: OwnersOverTime) -> bool:
    """Whether caches and pools of the process may still fill, and no look is old enough to tell."""
    return is_young(over) and float(over.times[-1] - over.times[0]) < _LOOKS_APART


def warms(
    over: OwnersOverTime, kind: Kind, owners: Sequence[str], gained: float, loaders: Sequence[Grown]
) -> bool:
    """Whether so many bytes more are what a JVM of that age gains anyway."""
    if not is_young(over):
        return False
    if kind == "code-cache" or owners == ("jvm-malloc",):
        return True
    if kind == "metaspace":
        return not any(
            one.unit == "loaders"
            and one.after - one.before >= _FEWEST_LOADERS
            and not _REFLECTION.search(one.name)
            for one in loaders
        )
    if owners == ("malloc",) and "jvm-malloc" not in over.names:
        return gained <= _MALLOC_BESIDE * _compiled(over)
    return False


def _compiled(over: OwnersOverTime) -> float:
    """What classes and code gained in the last two thirds."""
    begin, end = over.times[0], over.times[-1]
    start = int(np.searchsorted(over.times, begin + (end - begin) / 3))
    chosen = [at for at, name in enumerate(over.names) if name in _COMPILED]
    held = over.bytes[:, chosen].sum(axis=1)
    return max(float(held[-1] - held[min(start, len(held) - 1)]), 0.0)
