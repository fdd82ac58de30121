"""The answer in words: is it leaking, what, how fast, how sure."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from offheap.analysis.leaks.conclusion import advice, also, conclude, without_suspect
from offheap.analysis.stacks import jvm_structures
from offheap.analysis.stacks.blame import short, through
from offheap.analysis.stacks.callbacks import callback
from offheap.quantities import RateUnit, format_duration, format_size

if TYPE_CHECKING:
    # The diff names frames as the answer does, and need not load what judges leaks.
    from offheap.analysis.leaks.leaks import Ranking
    from offheap.analysis.leaks.results import Suspect


def answer(ranked: Ranking) -> str:
    """One or two sentences for the first screen of every report.

    Where the recording knows a limit of memory, until when the leaks together have filled it.
    """
    found = conclude(ranked)
    if found.kind == "leak" and found.rank is not None:
        worst, leaks = ranked[found.rank], ranked.growths("leak")
        text = f"Leaking: {describe(worst, ranked.rate_unit)}; confidence {worst.confidence:.0%}."
        if len(leaks) > 1:
            rate = sum(growth.estimate for growth in leaks[1:])
            more = "one more site leaks" if len(leaks) == 2 else f"{len(leaks) - 1} more sites leak"
            text += f" {more[0].upper()}{more[1:]}, {ranked.rate_unit.format(rate)} together."
        if ranked.uncollected(found.rank):
            text += f" {ranked.waits}"
        return " ".join(filter(None, (text + _until(ranked), also(found, ranked.rate_unit))))
    over = f"in {format_duration(ranked.sites.recording.info.duration_seconds)}"
    if found.kind == "growing" and found.rank is not None:
        what, mend = describe(ranked[found.rank], ranked.rate_unit), advice(found) or ranked.waits
        text = f"Growing, and not shown to be a leak {over}: {what}. {mend}"
        return " ".join(filter(None, (text, also(found, ranked.rate_unit))))
    if not len(ranked):
        return f"Nothing was recorded {over}: no sampled {ranked.thing} was allocated."
    return " ".join(filter(None, (without_suspect(found), advice(found))))


def _until(ranked: Ranking) -> str:
    room, seconds = ranked.room, ranked.seconds_to_limit()
    if room is None or seconds is None:
        return ""
    low, high = format_duration(seconds.low), format_duration(seconds.high) if seconds.high < inf else "never"
    about = f"about {format_duration(seconds.estimate)} ({low} to {high})"
    return f" At that rate {format_size(room.limit_bytes)} of memory are full in {about}."


def describe(suspect: Suspect, unit: RateUnit) -> str:
    """Rate and who: `1.2 MiB/min through java.util.zip.Inflater.<init>, called by com.example.Foo.bar`."""
    rate = unit.format(suspect.growth_bytes_per_second.estimate)
    what = suspect.object_class or jvm_structures.name(suspect.site.stack)
    rate += f" of {what}" if what else ""
    return f"{rate} {'allocated by' if suspect.called is None else 'through'} {headline(suspect)}"


def headline(suspect: Suspect) -> str:
    """`java.util.zip.Inflater.<init>, called by com.example.Foo.bar`; of an agent, also its trigger."""
    return ", ".join(filter(None, (through(suspect.site.stack, suspect.blamed), triggered(suspect))))


def triggered(suspect: Suspect) -> str:
    """`triggered by allocations in com.example.Foo.bar and 3 others`; "" of what is no agent's callback."""
    inside = callback(suspect.site.stack) if suspect.triggers else None
    if inside is None:
        return ""
    first, *more = suspect.triggers
    others = f" and {len(more)} other{'' if len(more) == 1 else 's'}" if more else ""
    return f"triggered by {'allocations' if inside.of_allocation else 'what ran'} in {short(first)}{others}"
