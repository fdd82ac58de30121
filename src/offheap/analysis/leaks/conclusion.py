"""What a recording says as a whole: one answer, for `leaks`, `check`, the page, the screen and the ticket.

A leak is a leak.  Growth of an application's site that is not shown to go on is growth, and so is growth of
the pages that blocks lie in (`reconcile`), which no site explains.  Without any there is no leak if what
the recording can exclude (`power`) is no more than a limit, and hardly any sample was lost; else it cannot
tell yet.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from offheap.analysis.leaks.reconcile import Level, beside, grew, unseen, why_no_site
from offheap.analysis.totals import totals
from offheap.analysis.verdicts.power import DEFAULT_LIMIT, Power, interval_for
from offheap.quantities import PER_MINUTE, RateUnit, format_duration, round_up_seconds

if TYPE_CHECKING:
    from offheap.analysis.leaks.leaks import Ranking
    from offheap.recording.model import Info, Recording

Kind = Literal["leak", "growing", "no leak", "cannot tell yet"]

# Growth shows within the same time again whether it goes on; `where` uses the same factor for a warm-up.
_TO_TELL_GROWTH = 2.0  # times the recording
_YOUTH = 60.0  # seconds of a process's life, in which nearly everything grows (evidence.py)
# Share of the samples.  `power` takes losses as even over all sites, but a full table loses what comes last.
_LOST = 0.01
_NO_TIME = 1e-3  # seconds: an imported file is one moment, and any recording is longer
_PATIENCE = 600.0  # seconds: if more are needed, finer sampling is better
per_minute = PER_MINUTE.format  # rates and limits alike, so that they can be compared at a glance
_LONGEST = 86400.0  # seconds: the longest recording that is advised to exclude a leak
_CATEGORY = "NMT category "  # begins the name of a frame of each stack of an imported NMT report
_NMT = " in what Native Memory Tracking counts, which lacks the memory of native libraries"
_NO_BIRTHS = "whether old blocks stay shows in a recording of offheap alone"


@dataclass(frozen=True, slots=True)
class Conclusion:
    """rank     of the site that decided: of the worst that leaks or grows; None without
    limit    bytes a second: the recording can tell if it excludes a leak of this rate
    seconds  how long a recording would tell; None: this one does, or time does not help
    level    pages that grow by more than the sites that leak or grow explain; they decide where no site does
    most     where no site does, the one whose live blocks grew most, in words
    lost     why it is not shown that nothing leaks, whatever the power: samples were lost; "" if few were
    beside   what grows by levels and is no leak of blocks, in words; "" if nothing does
    finer    the option that sets the sampling interval
    births   whether the recording has births of blocks; files of other tools mostly have none
    within   the part of the process's memory that the recording is about, in words; "": all of it
    """

    kind: Kind
    power: Power
    limit: float
    rank: int | None = None
    seconds: float | None = None
    level: Level | None = None
    most: str = ""
    beside: str = ""
    lost: str = ""
    finer: str = "--interval"
    births: bool = True
    within: str = ""


def conclude(ranked: Ranking, limit: float = DEFAULT_LIMIT, without: Collection[int] = ()) -> Conclusion:
    """`limit` in bytes a second; `without`: ranks (from 0) of sites that do not count."""
    lost = _lost(ranked)
    found = _conclude(ranked, limit, without)
    if lost and found.kind in ("no leak", "cannot tell yet"):
        found = replace(found, kind="cannot tell yet", seconds=None)
    recording = ranked.sites.recording
    births, within = recording.info.births, _NMT if _of_memory_tracking(recording) else ""
    return replace(found, lost=lost, finer=ranked.finer, births=births, within=within)


def _of_memory_tracking(recording: Recording) -> bool:
    """Whether all of it is what Native Memory Tracking counts: reports of the JVM that were imported."""
    if not recording.info.imported:
        return False
    stacks = (recording.stack(number) for number in range(1, len(recording.stack_kinds)))
    return all(any(frame.name.startswith(_CATEGORY) for frame in stack) for stack in stacks)


def _lost(ranked: Ranking) -> str:
    taken, lost = totals.samples(ranked.sites.recording), ranked.lost_samples
    if lost <= _LOST * taken:
        return ""
    why = "to record longer does not make up for them: offheap stats has why they were lost"
    return f"{lost:,} samples were lost beside {taken:,} recorded; {why}"


def _conclude(ranked: Ranking, limit: float, without: Collection[int]) -> Conclusion:
    power, info = ranked.power(without), ranked.sites.recording.info
    leaks = [
        place for place, verdict in enumerate(ranked.verdicts) if verdict == "leak" and place not in without
    ]
    growing = ranked.growing(without)
    level = ranked.level([*without, *leaks, *growing])
    other = beside(ranked.sites.recording.owners, ranked.owners, ranked.rate_unit)
    if not other and level is None:
        other = unseen(ranked.sites.recording, ranked.owners)
    if leaks:
        return Conclusion("leak", power, limit, leaks[0], None, level, beside=other)
    if growing:
        seconds = None if ranked.uncollected(growing[0]) else to_tell_growth(info)
        return Conclusion("growing", power, limit, growing[0], seconds, level, beside=other)
    if level:
        most = ranked.grew_most(without)
        return Conclusion("growing", power, limit, None, to_tell_growth(info), level, most, other)
    if not len(ranked):
        return Conclusion("cannot tell yet", power, limit, beside=other)
    if power.excludes(limit):
        return Conclusion("no leak", power, limit, beside=other)
    return Conclusion("cannot tell yet", power, limit, seconds=power.seconds_for(limit), beside=other)


def to_tell_growth(info: Info) -> float:
    """Seconds after which it shows whether what grows goes on."""
    return round_up_seconds(max(_TO_TELL_GROWTH * info.duration_seconds, _YOUTH - info.process_age))


def also(found: Conclusion, unit: RateUnit = PER_MINUTE) -> str:
    """Beside sites that leak or grow: what they do not explain, as sentences; "" if nothing."""
    sentences = []
    if found.level:
        sentences.append(f"{grew(found.level, unit)}, more than that explains")
    if found.beside:
        sentences.append(found.beside)
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in sentences)


def without_suspect(found: Conclusion) -> str:
    """A sentence where no site leaks or grows, and what grows beside native blocks."""
    also = f"; {found.beside} (offheap where has more)" if found.beside else ""
    if found.level:
        return f"Growing, and not shown to be a leak: {unexplained(found, found.level)}{also}."
    if found.kind == "no leak":
        seconds, rate = found.power.seconds, found.power.bytes_per_second
        found_in = f"No leak found in {format_duration(seconds)}{found.within}"
        return f"{found_in}: no site leaks more than {per_minute(rate)}{also}."
    return f"Cannot tell yet: {found.lost or _seen(found.power)}{also}."


def unexplained(found: Conclusion, level: Level) -> str:
    """Which pages grew, and why no site is named for it."""
    return f"{grew(level)}; {why_no_site(level, found.most)}"


def advice(found: Conclusion) -> str:
    """What to do where it cannot be told; "" where it can, or where time does not help."""
    if found.seconds is None:
        return ""
    if found.kind == "growing":
        text = _to_follow(found.seconds, found)
    else:
        text = record(found.seconds, found, _to_exclude(found))
    return f"{text[0].upper()}{text[1:]}."


def undecided(found: Conclusion) -> str:
    """`no leak above 7.1 MiB/min in 5.0 s; record 10 s more (15 s in all) to exclude one of 4.0 MiB/min`."""
    seconds = found.power.seconds_for(found.limit)
    return f"{_seen(found.power)}; {record(seconds, found, _to_exclude(found))}"


def to_follow_growth(info: Info, found: Conclusion) -> str:
    """`record 20 s more (40 s in all)`, however long that is: only time shows whether growth goes on."""
    return _to_follow(to_tell_growth(info), found)


def _to_follow(seconds: float, found: Conclusion) -> str:
    if found.births:
        return _more(seconds, found)
    # Without births no series of files shows a leak, however long it is.
    return f"{_more(seconds, found, ' to see whether it goes on')}; {_NO_BIRTHS}"


def record(seconds: float, found: Conclusion, purpose: str = "") -> str:
    """`record 20 s more (25 s in all)`, and, where that is long, the better way.

    seconds: in all; purpose: ` to ...`, or nothing
    """
    if _of_files(found):
        return _more(seconds, found, purpose)
    finer = _finer(found) if seconds > _PATIENCE and found.kind != "growing" else ""
    if seconds > _LONGEST:
        return (
            f"record {finer}{purpose}" if finer else f"no recording of {_whole(_LONGEST)} is enough{purpose}"
        )
    return f"{_more(seconds, found, purpose)}{f', or {finer}' if finer else ''}"


def _of_files(found: Conclusion) -> bool:
    """Whether a tool wrote files that each show one moment: nobody can record such a recording for longer."""
    return not found.births or found.power.seconds <= _NO_TIME


def _more(seconds: float, found: Conclusion, purpose: str = "") -> str:
    whole = round_up_seconds(seconds)
    if _of_files(found):
        if whole > _LONGEST:
            return f"no series of files over {_whole(_LONGEST)} is enough{purpose}"
        files = "a series of files, taken over" if found.power.seconds <= _NO_TIME else "files that cover"
        return f"import {files} {_whole(whole)} or more{purpose}"
    more = round_up_seconds(max(whole - found.power.seconds - 0.5, 1.0))
    text = (
        f"record {_whole(more)} more ({_whole(whole)} in all)" if more < whole else f"record {_whole(whole)}"
    )
    return f"{text}{purpose}"


def _finer(found: Conclusion) -> str:
    """`1 min with --interval 16KiB`: the better way than a long recording; "" if there is none."""
    power, limit = found.power, found.limit
    if not power.interval_bytes or limit <= 0:
        return ""
    within = round_up_seconds(max(power.seconds, _YOUTH))
    interval = interval_for(limit, within)
    if interval > power.interval_bytes / 2:
        return ""  # that is how it was recorded
    if interval:
        return f"{_whole(within)} with {found.finer} {interval / 1024:.0f}KiB"
    if found.finer != "--interval":
        return ""  # of Java objects there is no exact recording
    exact = replace(power, interval_bytes=0, existing_site=0.0).seconds_for(limit)
    return f"{_whole(max(within, exact))} with --exact" if exact <= _LONGEST else ""


def _seen(power: Power) -> str:
    if power.seconds <= _NO_TIME:
        return "one imported file shows no course of time"
    if math.isinf(power.bytes_per_second):
        return f"{format_duration(power.seconds)} are too short for any verdict"
    return f"no leak above {per_minute(power.bytes_per_second)} in {format_duration(power.seconds)}"


def _to_exclude(found: Conclusion) -> str:
    # The text before it mentions a leak, unless the time is too short for any.
    what = "one" if math.isfinite(found.power.bytes_per_second) else "a leak"
    return f" to exclude {what} of {per_minute(found.limit)}"


def _whole(seconds: float) -> str:
    """Whole seconds: what is advised was rounded."""
    return f"{seconds:.0f} s" if seconds < 60 else format_duration(seconds)
