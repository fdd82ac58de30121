"""What changed in the Java heap, between two recordings or two times of one, by what survived collections."""

from __future__ import annotations

from offheap.analysis.diff.diff import diff, diff_in_time
from offheap.analysis.diff.results import Diff
from offheap.analysis.java_heap.java_ranking import java_ranking
from offheap.analysis.java_heap.settled.settled_recording import settled_recording
from offheap.errors import UserError
from offheap.recording.model import Recording


def java_diff(
    old: Recording,
    new: Recording,
    *,
    per_second: bool = False,
    requests: tuple[float, float] | None = None,
    most: int | None = None,
    stacks: bool = False,
) -> Diff | None:
    """`diff` of the Java objects that survived the last collection of each; both are whole recordings.

    None: one of them follows no Java objects, or no collection ran.
    """
    before, after = settled_recording(old), settled_recording(new)
    if before is None or after is None:
        return None
    return diff(
        before,
        after,
        per_second=per_second,
        requests=requests,
        most=most,
        stacks=stacks,
        ranks=(lambda grouping: java_ranking(old, grouping), lambda grouping: java_ranking(new, grouping)),
    )


def java_diff_in_time(
    recording: Recording,
    start: float,
    end: float | None = None,
    *,
    per_second: bool = False,
    most: int | None = None,
    stacks: bool = False,
) -> Diff | None:
    """`diff_in_time` of Java objects.  A moment is that of the last collection until then.

    None: no Java objects, or no collection tells the two times apart.
    """
    settled = settled_recording(recording)
    if settled is None:
        return None
    until = None if end is None or end >= settled.info.duration_seconds else end
    try:
        return diff_in_time(settled, start, until, per_second=per_second, most=most, stacks=stacks)
    except UserError:
        return None
