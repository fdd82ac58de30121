"""What changed between two recordings, or between two times of one: by site and by function."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from offheap.analysis.diff.comparison import ComparedSide, Comparison
from offheap.analysis.diff.growth_changes import Rank, growth_changes, growths
from offheap.analysis.diff.results import Diff, Side
from offheap.analysis.diff.stack_changes import stack_changes
from offheap.analysis.sites.matching import match
from offheap.analysis.totals import stack_totals_at
from offheap.errors import UserError
from offheap.quantities import format_duration
from offheap.recording.model import Recording

# A moment is typed as a report prints it, rounded: so far beyond the end it still means the end.
_ROUNDED_UP, _ROUNDED_SECONDS = 1.001, 0.01


def diff(
    old: Recording,
    new: Recording,
    *,
    per_second: bool = False,
    requests: tuple[float, float] | None = None,
    most: int | None = None,
    stacks: bool = False,
    ranks: tuple[Rank, Rank] | None = None,
) -> Diff:
    """Compare the ends of two recordings, of one build or of two: sites and functions match by name.

    `per_second` divides each side by its seconds, `requests` by the requests served in each.  `most`: how
    many sites and functions to return, None: all.  `stacks`: return every stack, too.  `ranks`: how
    the sites of each are ranked, None: as native memory.
    """
    seconds = [recording.info.divisor_seconds for recording in (old, new)]
    divisors = list(requests) if requests else seconds if per_second else [1.0, 1.0]
    matching = match((old, new))
    before, after = (
        ComparedSide(
            recording,
            Side(recording.info, None, duration),
            matching.sites[index],
            matching.functions[index],
            matching.wrappers[index],
            divisor=divisor,
            live=stack_totals_at.live_at_end(recording),
            allocated=stack_totals_at.allocated_until(recording),
            nearby=(duration / 2, np.inf),
            at_end=True,
        )
        for index, (recording, duration, divisor) in enumerate(
            zip((old, new), seconds, divisors, strict=True)
        )
    )
    old_growth, new_growth = (
        growths(
            recording,
            matching.sites[index],
            matching.site_count,
            requests and requests[index],
            ranks and ranks[index],
            by_its_own=index == 0,
        )
        for index, recording in enumerate((old, new))
    )
    # By second: who ran longer holds more of what grows.
    held = [
        np.bincount(moment.sites, moment.live.bytes, matching.site_count) / duration
        for moment, duration in zip((before, after), seconds, strict=True)
    ]
    comparison = Comparison(
        before,
        after,
        matching.site_count,
        matching.function_count,
        kept=None,
        divisor=1.0,
        growth=growth_changes(old_growth, new_growth, held[1] - held[0]),
    )
    unit: Literal["", "second", "request"] = "request" if requests else "second" if per_second else ""
    return _result(comparison, unit, most, stacks)


def diff_in_time(
    recording: Recording,
    start: float,
    end: float | None = None,
    *,
    per_second: bool = False,
    most: int | None = None,
    stacks: bool = False,
) -> Diff:
    """Compare two moments of one recording, in seconds since its start; `end` None: its end.

    What was live at a moment is known by the last snapshot until then, whose time the result gives.
    UserError when the moments are not in the recording, in the wrong order, or not told apart by a snapshot.
    """
    duration = recording.info.duration_seconds
    stop = duration if end is None else end
    if stop > duration * _ROUNDED_UP + _ROUNDED_SECONDS or not 0 <= start < stop:
        raise UserError(
            f"there is nothing from {format_duration(start)} to {format_duration(stop)} "
            f"in a recording of {format_duration(duration)}",
            "give --from and --to within it, the earlier one first",
        )
    times = recording.process["time"]
    late = end is not None and bool((times > stop).any())
    first, last = (float(times[times <= moment].max(initial=0.0)) for moment in (start, stop))
    # Two moments after the same snapshot would show that nothing changed, which nobody knows.
    if (start > 0 and not first) or (late and first == last):
        between = f"between {format_duration(start)} and {format_duration(stop)}"
        following = float(times[times > first].min(initial=duration))
        raise UserError(
            f"no snapshot was taken {between if first else f'until {format_duration(start)}'}",
            f"the next is at {format_duration(following)}: choose times around it",
        )
    start, stop = first, last if late else stop
    until = stop if late else np.inf
    matching = match((recording,))
    near = (stop - start) / 4
    before, after = (
        ComparedSide(
            recording,
            Side(recording.info, moment, moment),
            matching.sites[0],
            matching.functions[0],
            matching.wrappers[0],
            divisor=1.0,
            live=stack_totals_at.live_at(recording, last)
            if last < np.inf
            else stack_totals_at.live_at_end(recording),
            allocated=stack_totals_at.allocated_until(recording, last),
            nearby=(moment - near, min(moment + near, stop)),
            at_end=last == np.inf,
        )
        for moment, last in ((start, start), (stop, until))
    )
    kept = stack_totals_at.kept(recording, start, stop if late else None)
    comparison = Comparison(
        before,
        after,
        matching.site_count,
        matching.function_count,
        kept,
        divisor=stop - start if per_second else 1.0,
    )
    return _result(comparison, "second" if per_second else "", most, stacks)


def _result(
    comparison: Comparison, unit: Literal["", "second", "request"], most: int | None, stacks: bool
) -> Diff:
    result = comparison.result(unit, most)
    if not stacks:
        return result
    return replace(result, stacks=stack_changes(comparison.old, comparison.new, comparison.function_count))
