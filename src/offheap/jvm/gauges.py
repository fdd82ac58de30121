"""What hsperfdata counts that tells growth from garbage: collections, what they left, classes.

Names as of JDK 11 to 25, all collectors: generation 1 is the old one (the only one where there is one),
collector 0 goes over the young one alone, collectors 1 and 2 over all or the old one.  ZGC on JDK 11
counts no collections.  A JVM updates the spaces at the end of each; eden is sampled in between.
"""

from __future__ import annotations

import re

from offheap.jvm.hsperfdata import PerfData

_USED = re.compile(r"sun\.gc\.generation\.\d+\.space\.\d+\.used", re.ASCII)
_COLLECTIONS = re.compile(r"sun\.gc\.collector\.(\d+)\.invocations", re.ASCII)


def read(performance: PerfData) -> dict[str, float]:
    """Gauges as docs/recording-format.md names them; those that this JVM does not tell are left out."""
    found: dict[str, float] = {}
    spaces, collections, old = 0, 0, 0
    for name, value in performance.values.items():
        if not isinstance(value, int):
            continue
        if match := _COLLECTIONS.fullmatch(name):
            collections += value
            old += value if match[1] != "0" else 0
            found.update({"collections": collections, "old-collections": old})
        elif _USED.fullmatch(name) and performance.text(name.removesuffix("used") + "name") != "eden":
            spaces += value
            found["heap-after-collection"] = spaces
    metaspace = performance.values.get("sun.gc.metaspace.used")
    if isinstance(metaspace, int) and collections:
        found["metaspace-used"] = metaspace
    # Classes from a shared archive are counted apart.
    loaded, unloaded = (
        [count for name in names if isinstance(count := performance.values.get(f"java.cls.{name}"), int)]
        for names in (("loadedClasses", "sharedLoadedClasses"), ("unloadedClasses", "sharedUnloadedClasses"))
    )
    if loaded:
        found["classes"] = sum(loaded) - sum(unloaded)
        found["classes-unloaded"] = sum(unloaded)
    return found
