"""Generational ZGC frees what a weak or phantom reference leads to only once it is old.

Its young collections process no references, and keep what a weak one of JNI leads to (JDK-8375615): garbage
that another collector frees, and native memory that a Cleaner frees, wait for a collection of the old
generation.  So of a younger object nothing is known, whatever ran.
"""

from __future__ import annotations

import re

import numpy as np

from offheap.recording.model import GENERATIONAL_Z, Collections, Info, Recording

# Young collections after which an object is old at the latest: MaxTenuringThreshold.  ZGC chooses fewer by
# what it finds (compute_tenuring_threshold in zGeneration.cpp), and does not tell how many.
_MOST_YOUNG = 15
_OPTIONS = ("java.tool.options", "jdk.java.options")  # properties: what variables add to the command line


def keeps_young_garbage(recording: Recording) -> bool:
    """Whether the JVM runs generational ZGC, by its counters, or else by its options."""
    known = recording.collections
    if known is not None and known.collector:
        return known.collector == GENERATIONAL_Z
    return _by_options(recording.info)


def options_of(info: Info) -> set[str]:
    """The options of the JVM, by its command line and by the variables that add to it."""
    added = (word for name in _OPTIONS for word in info.properties.get(name, "").split())
    return {*info.jvm_flags, *added}


def _by_options(info: Info) -> bool:
    """JDK 21 and 22 need a flag for it, 23 has a flag against it, and 24 has no other ZGC."""
    options = options_of(info)
    major = int(found[0]) if (found := re.match(r"\d+", info.java_version)) else 0
    if "-XX:+UseZGC" not in options:
        return False
    return major >= 24 or (
        "-XX:-ZGenerational" not in options and ("-XX:+ZGenerational" in options or major == 23)
    )


def of_promoted(known: Collections, *, causes_known: bool) -> Collections:
    """The collections of the old generation, each with the begin before which what it met was born.

    A full one promotes all objects first, if the causes are known.  Before another one, an object has to
    survive the young collections that promote it; a major collection begins with a young one.
    """
    old = [row for row, kind in enumerate(known.kinds) if kind != "young"]
    begun = known.begun.copy()
    for row in old:
        if known.kinds[row] != "full" or not causes_known:
            begun[row] = _promoted_by(known, float(known.begun[row]))
    chosen = np.array([row for row in old if begun[row] > -np.inf], np.int64)
    return Collections(
        since=known.since,
        kinds=tuple(known.kinds[row] for row in chosen.tolist()),
        begun=begun[chosen],
        ended=known.ended[chosen],
        counts=known.counts[chosen],
    )


def _promoted_by(known: Collections, time: float) -> float:
    """When an object is born that is old by this time; -inf: that is not known of any object."""
    earlier = np.flatnonzero(known.begun < time)
    order = earlier[np.argsort(-known.begun[earlier], kind="stable")]
    # A row's time is that of its last collection, so a row of several reaches further back than its time.
    counts = np.concatenate(([0], np.cumsum(known.counts[order])[:-1])) + 1 if len(order) else np.zeros(0)
    enough = np.flatnonzero(counts >= _MOST_YOUNG)
    return float(known.begun[order[enough[0]]]) if len(enough) else -np.inf
