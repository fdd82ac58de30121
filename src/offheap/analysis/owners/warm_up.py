"""Growth that every young JVM shows, and that proves nothing yet.

HotSpot loads classes and compiles code for minutes, longer with little CPU.  During that time the code cache,
metaspace and the malloc of both grow, first in a straight line and later as the logarithm of the age.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from offheap.analysis.owners.results import Grown, Kind
from offheap.recording.model import OwnersOverTime

AGE = "age"  # the gauge: seconds since the process started
# Seconds.  A server of some thousand classes that shares two CPUs with two busy processes compiles this long.
WARM_UP = 300.0
# Seconds of readings of a process younger than WARM_UP in which a cache that fills may grow in a straight
# line: RocksDB's cache of 24 MB looks like a leak in 42 % of runs of half a minute, in 25 % of runs of a
# minute, and in no run of two minutes.
FILLS = 120.0
# The same between the first and the last reading, on a machine so busy that one reading takes 10 s.
_LEAST_SPAN = FILLS - 20.0
FILLED: tuple[Kind, ...] = ("native-malloc", "direct-buffers")
# malloc's gain with metaspace and the code cache, over the gain of these: arenas, symbols, tables, the
# compilers' data of each method.
_MALLOC_BESIDE = 2.0
# Bytes that malloc keeps of what the compilers of a young JVM freed: up to 38 MiB in 30 programs, in steps
# as the largest methods are compiled.
_KEPT_OF_COMPILERS = 40.0 * (1 << 20)
_COMPILED: tuple[str, ...] = ("code-cache", "metaspace", "class-space")
# More loaders of one class than a program makes at its start.
_FEWEST_LOADERS = 10
# Before JDK 18, reflection makes a class loader for each method that is called often.
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
    """Whether caches and pools of the process may still fill, which the readings are too short to exclude."""
    return is_young(over) and float(over.times[-1] - over.times[0]) < _LEAST_SPAN


def warms(
    over: OwnersOverTime, kind: Kind, owners: Sequence[str], gained: float, loaders: Sequence[Grown]
) -> bool:
    """Whether a JVM of this age gains so many bytes without a leak."""
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
    if kind == "allocator-retention":
        return gained <= _KEPT_OF_COMPILERS
    if owners == ("malloc",) and "jvm-malloc" not in over.names:
        return gained <= _MALLOC_BESIDE * _compiled(over)
    return False


def _compiled(over: OwnersOverTime) -> float:
    """The gain of classes and code in the last two thirds."""
    begin, end = over.times[0], over.times[-1]
    start = int(np.searchsorted(over.times, begin + (end - begin) / 3))
    chosen = [at for at, name in enumerate(over.names) if name in _COMPILED]
    held = over.bytes[:, chosen].sum(axis=1)
    return max(float(held[-1] - held[min(start, len(held) - 1)]), 0.0)
