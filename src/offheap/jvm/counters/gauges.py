"""Counters of hsperfdata that tell growth from garbage: collections, memory after them, classes.

Names as of JDK 11 to 27: generation 1 is the old generation, or the only one.  ZGC on JDK 11 counts no
collections.  A JVM updates the spaces at the end of each collection, and eden in between.
"""

from __future__ import annotations

import re
import time

from offheap.jvm.counters.collectors import GENERATIONAL_Z, family, kind_of
from offheap.jvm.counters.hsperfdata import PerfData

_USED = re.compile(r"sun\.gc\.generation\.\d+\.space\.\d+\.used", re.ASCII)
_OLD = "sun.gc.generation.1."
_COLLECTIONS = re.compile(r"sun\.gc\.collector\.(\d+)\.invocations", re.ASCII)


def spaces(performance: PerfData) -> list[str]:
    """The counters whose sum is the heap in use after a collection: all spaces but eden."""
    return [
        name
        for name, value in performance.values.items()
        if isinstance(value, int)
        and _USED.fullmatch(name)
        and performance.text(name.removesuffix("used") + "name") != "eden"
    ]


def left_in_eden(performance: PerfData) -> tuple[list[str], list[str], list[str]]:
    """The counters of eden's use, and of the old generation's use and capacity; none of other collectors.

    A full collection of Serial or Parallel leaves objects in eden if the old generation has no room for them.
    One of G1 leaves no eden.
    """
    eden = [
        name
        for name, value in performance.values.items()
        if isinstance(value, int)
        and _USED.fullmatch(name)
        and performance.text(name.removesuffix("used") + "name") == "eden"
    ]
    old = [
        name
        for name in spaces(performance)
        if name.startswith(_OLD) and performance.text(name.removesuffix("used") + "name") == "old"
    ]
    capacity = [name.removesuffix("used") + "capacity" for name in old]
    known = bool(eden and old) and all(name in performance.places for name in capacity)
    return (eden, old, capacity) if known else ([], [], [])


def read(performance: PerfData) -> dict[str, float]:
    """Gauges as docs/recording-format.md names them, without those that this JVM does not publish."""
    found: dict[str, float] = {}
    collections, old = 0, 0
    for name, value in performance.values.items():
        if not isinstance(value, int):
            continue
        if match := _COLLECTIONS.fullmatch(name):
            called = performance.text(f"{name.removesuffix('invocations')}name")
            kind = kind_of(int(match[1]), called, performance.vm_arguments)
            # A young collection of generational ZGC processes no references, so it frees no native memory.
            collections += value if family([called]) != GENERATIONAL_Z else 0
            old += value if kind != "young" else 0
            found.update({"collections": collections, "old-collections": old})
    if survivors := spaces(performance):
        found["heap-after-collection"] = sum(int(performance.values[name]) for name in survivors)
    since = _since_young_collection(performance)
    if since is not None:
        found["since-young-collection"] = since
    metaspace = performance.values.get("sun.gc.metaspace.used")
    if isinstance(metaspace, int) and collections:
        found["metaspace-used"] = metaspace
    # HotSpot counts classes from a shared archive separately.
    loaded, unloaded = (
        [count for name in names if isinstance(count := performance.values.get(f"java.cls.{name}"), int)]
        for names in (("loadedClasses", "sharedLoadedClasses"), ("unloadedClasses", "sharedUnloadedClasses"))
    )
    if loaded:
        found["classes"] = sum(loaded) - sum(unloaded)
        found["classes-unloaded"] = sum(unloaded)
    return found


def _since_young_collection(performance: PerfData) -> float | None:
    """Seconds since the last young-only collection began; None if there was none, or the time is unknown.

    HotSpot's ticks count from its start, which it notes by the wall clock.  A concurrent cycle of the whole
    heap begins before the counter says so, so this function ignores those collectors.
    """
    names = (
        *("sun.gc.collector.0.invocations", "sun.gc.collector.0.lastEntryTime"),
        *("sun.os.hrt.frequency", "sun.rt.createVmBeginTime"),
    )
    count, entry, frequency, start = (performance.values.get(name) for name in names)
    if not (isinstance(entry, int) and isinstance(frequency, int) and isinstance(start, int)):
        return None
    age = time.time() - start / 1000
    if not count or frequency <= 0 or not 0 <= entry / frequency <= age:
        return None  # somebody may have set the wall clock
    return age - entry / frequency
