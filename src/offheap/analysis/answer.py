"""The answer in words: is it leaking, what, how fast, how sure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from offheap import cxx_names
from offheap.analysis import frames
from offheap.analysis.limit import Room
from offheap.analysis.results import Suspect, Verdict
from offheap.quantities import format_duration, format_rate, format_size
from offheap.recording.model import Frame, Info


def answer(
    info: Info,
    suspects: Sequence[Suspect],
    live_bytes: Mapping[Verdict, float] | None = None,
    room: Room | None = None,
) -> str:
    """One or two sentences for the first screen of every report.

    With `live_bytes`, of all sites by verdict, `suspects` need only be those that leak or grow.
    With `room`, until when the leaks together have filled it.
    """
    leaks = [suspect for suspect in suspects if suspect.verdict == "leak"]
    growing = [suspect for suspect in suspects if suspect.verdict == "growing"]
    if leaks:
        worst = leaks[0]
        text = f"Leaking: {describe(worst)}; confidence {worst.confidence:.0%}."
        if len(leaks) > 1:
            rate = sum(suspect.growth_bytes_per_second.estimate for suspect in leaks[1:])
            more = "one more site leaks" if len(leaks) == 2 else f"{len(leaks) - 1} more sites leak"
            text += f" {more[0].upper()}{more[1:]}, {format_rate(rate)} together."
        return text + _until(leaks, room)
    over = f"in {format_duration(info.duration_seconds)}"
    if growing:
        return (
            f"Growing, and not shown to be a leak {over}: {describe(growing[0])}. "
            "A longer recording tells more."
        )
    if live_bytes is None:
        live_bytes = _live_bytes(suspects)
    if not live_bytes:
        return f"Nothing was recorded {over}: no sampled block was allocated."
    whole = sum(live_bytes.values())
    if live_bytes.get("cannot tell yet", 0.0) > 0.5 * whole:
        return f"Cannot tell yet: too little was seen {over}. Record longer, or with a smaller --interval."
    return f"No leak found {over}: no site's live memory grows beyond chance."


def _live_bytes(suspects: Sequence[Suspect]) -> dict[Verdict, float]:
    held: dict[Verdict, float] = {}
    for suspect in suspects:
        held[suspect.verdict] = held.get(suspect.verdict, 0.0) + suspect.site.live_bytes.estimate
    return held


def _until(leaks: Sequence[Suspect], room: Room | None) -> str:
    seconds = room.together([leak.growth_bytes_per_second for leak in leaks]) if room else None
    if room is None or seconds is None:
        return ""
    low, high = format_duration(seconds.low), format_duration(seconds.high) if seconds.high < inf else "never"
    about = f"about {format_duration(seconds.estimate)} ({low} to {high})"
    return f" At that rate {format_size(room.limit_bytes)} of memory are full in {about}."


def describe(suspect: Suspect) -> str:
    """`1.2 MiB/min through java.util.zip.Inflater.init, called by com.example.Foo.bar`."""
    rate = format_rate(suspect.growth_bytes_per_second.estimate)
    called = through(suspect.site.stack, suspect.blamed)
    return f"{rate} through {called}" if ", called by " in called else f"{rate} allocated by {called}"


def through(stack: Sequence[Frame], blamed: Frame) -> str:
    """`java.util.zip.Inflater.init, called by com.example.Foo.bar`; one name where the two are one."""
    inner = frames.boundary(stack)
    entry = short(stack[inner]) if inner is not None else short(blamed)
    return entry if entry == short(blamed) else f"{entry}, called by {short(blamed)}"


def short(frame: Frame) -> str:
    """The frame's name as a sentence can bear it."""
    return frame.name if frame.kind == "java" else cxx_names.short(frame.name)
