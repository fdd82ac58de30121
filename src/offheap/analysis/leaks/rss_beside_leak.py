"""Why a leak verdict holds although RSS did not grow, from the recording's own figures.

RSS counts pages that are in memory, a verdict counts blocks that were not freed.  The two differ where
another owner shrinks meanwhile, where malloc fills pages that it had kept, or where what was asked for is
not touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from offheap.analysis.leaks.results import Suspect
from offheap.analysis.leaks.touched_bytes import requested_and_touched
from offheap.analysis.owners.accounts import TITLES
from offheap.quantities import format_size, rate_unit
from offheap.recording.model import OwnersOverTime, Recording

# If RSS grew by less than this share of what leaked, the report gives a reason.
_EXPECTED = 0.5
# An owner that shrank by less than this share of what leaked is not a reason.
_MATERIAL = 0.1
_MOST_NAMED = 3
_MOST_COUNTED = 100  # suspects: what more of them hold is little beside these
_BLOCKS = ("malloc", "jvm-malloc", "direct-buffers")  # owners of the pages that blocks lie in


def rss_note(recording: Recording, suspects: Sequence[Suspect]) -> str:
    """What RSS did beside those that a headline is about: of `suspects`, by rank, as bad as the first.

    How fast both grow where that differs, and why RSS did not grow, where it did not.
    """
    first = suspects[0].verdict if len(suspects) else ""
    some = [one for one in suspects[:_MOST_COUNTED] if one.verdict in ("leak", "growing")]
    worst = [one for one in some if one.verdict == first]
    unit = rate_unit(one.growth_bytes_per_second.estimate for one in some)
    parts = requested_and_touched(recording, worst, unit), rss_beside_leak(recording, worst)
    return ". ".join(filter(None, parts))


def rss_beside_leak(recording: Recording, suspects: Iterable[Suspect]) -> str:
    """What RSS did while these sites kept their blocks, and why it did not grow as they did; "" if it did.

    `suspects`: those that the headline is about.
    """
    some = list(suspects)
    kept = sum(suspect.site.live_bytes.estimate for suspect in some)
    known = recording.process["rss_bytes"][recording.process["rss_bytes"] > 0].astype(np.float64)
    if len(known) < 2 or kept <= 0:
        return ""
    first, last = float(known[0]), float(known[-1])
    if last - first >= _EXPECTED * kept:
        return ""
    moved = f"from {format_size(first)} to {format_size(last)}"
    if format_size(first) == format_size(last):
        did = f"RSS stayed at {format_size(last)}"
    elif last < first:
        did = f"RSS fell by {format_size(first - last)} in the same time, {moved}"
    else:
        did = f"RSS rose by only {format_size(last - first)} in the same time, {moved}"
    return (
        f"{did}: {_reason(recording.owners, kept, all(s.site.kind == 'mmap' for s in some))}. "
        f"The verdict holds all the same: it counts blocks, of which {format_size(kept)} were allocated "
        "while this was recorded and not freed"
    )


def _reason(over: OwnersOverTime, kept: float, mapped: bool) -> str:
    if len(over.times) < 2:
        return "who holds RSS was not recorded, so what shrank or was not touched is not known"
    change = dict(zip(over.names, (over.bytes[-1] - over.bytes[0]).tolist(), strict=True))
    titles = {str(owner): title for owner, title in TITLES.items()}
    grown = sum(change.get(name, 0.0) for name in _BLOCKS)
    given_back = not mapped and grown < -_MATERIAL * kept
    shrunk = sorted(
        (by, name)
        for name, by in change.items()
        if by < -_MATERIAL * kept and not (given_back and name in _BLOCKS)
    )[:_MOST_NAMED]
    reasons = [f"{titles.get(name, name)} shrank by {format_size(-by)}" for by, name in shrunk]
    if given_back:
        # Other blocks than the leak's: these are counted, and alive.
        reasons.insert(
            0, f"malloc's pages shrank by {format_size(-grown)}, since other blocks were freed and given back"
        )
        return ", and ".join(reasons)
    if mapped:
        reasons.append("a mapping counts in RSS only where it is touched")
        return ", and ".join(reasons)
    if grown >= _EXPECTED * kept:
        reasons.append(f"malloc's pages grew by {format_size(grown)}")
    else:
        more = f"grew by only {format_size(grown)}" if grown > 0 else "did not grow"
        reasons.append(f"malloc's pages {more}: blocks lie where others were freed, or are not touched yet")
    return ", and ".join(reasons)
