"""The JSON inside the HTML report: web/src/payload/payload.ts is its reader and names every field.

Columns instead of rows and numbers instead of repeated names: 20,000 stacks stay below 5 MB.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offheap import __version__
from offheap.analysis.java_heap.results import JavaHeapReport
from offheap.analysis.java_heap.settled_recording import with_java_objects
from offheap.analysis.leaks.answer import triggered
from offheap.analysis.leaks.conclusion import advice, also, conclude, without_suspect
from offheap.analysis.leaks.leaks import Ranking, ranking
from offheap.analysis.leaks.results import Suspect
from offheap.analysis.leaks.rss_beside_leak import rss_note
from offheap.analysis.owners.accounts import TITLES
from offheap.analysis.stacks.blame import short
from offheap.analysis.stacks.callbacks import callback
from offheap.analysis.stacks.folding import folds
from offheap.analysis.stacks.namesakes import apart
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.totals import totals as whole
from offheap.analysis.totals.call_graph import call_graph
from offheap.analysis.totals.downsampled_series import downsampled_site_series
from offheap.analysis.totals.stack_totals import StackTotals, stack_totals, thread_shares
from offheap.quantities import PER_MINUTE, RateUnit, rate_unit
from offheap.recording import masking
from offheap.recording.model import JAVA, MMAP, Frame, Info, OwnersOverTime, Recording
from offheap.report.callgraph.svg import svg
from offheap.report.html.estimates import estimate
from offheap.report.html.payload_java import java_heap
from offheap.report.html.payload_series import series

SCHEMA = "offheap.report-page/4"

# Sites after these are left out of the table, not of the flame graph; the page says how many there are.
# A site takes 250 to 600 bytes of the page: 1.2 MB at most, in a file that a mail can carry.
MOST_SUSPECTS = 2000
MOST_SNAPSHOTS = 2000
MOST_READINGS = 500
# A stack that more threads share is filed under those that hold most of it.
MOST_THREADS = 4

_KINDS = {0: "malloc", 1: "malloc", MMAP: "mmap", JAVA: "java"}


def payload(
    recording: Recording,
    suspects: Sequence[Suspect],
    limit_bytes: int | None = None,
    seconds_to_limit: Estimate | None = None,
    java: JavaHeapReport | None = None,
) -> dict[str, Any]:
    """Everything the page shows, in JSON's own types; quantities that JSON cannot write are None."""
    live_bytes, live_blocks = whole.live(recording)
    by_kind = whole.live_by_kind(recording)
    frames = Frames(recording.frames)
    everything = with_java_objects(recording)
    totals = stack_totals(everything)
    # The stacks that hold or ever allocated something; `place` is where each went.
    used = np.flatnonzero(totals.allocated_bytes > 0)
    place = np.full(len(totals.allocated_bytes), -1, np.int64)
    place[used] = np.arange(len(used))
    shown = list(suspects[:MOST_SUSPECTS])
    of_java = list(java.suspects[:MOST_SUSPECTS]) if java else []
    ranked = suspects if isinstance(suspects, Ranking) else ranking(recording)
    concluded = _conclusion(ranked)
    unit = _unit([*shown, *of_java])
    # The suspects that the headline is about.
    worst = [one for one in shown if one.verdict == shown[0].verdict in ("leak", "growing")]
    return {
        "schema": SCHEMA,
        "offheap_version": __version__,
        "info": info(recording.info),
        "live_bytes": estimate(live_bytes),
        "live_blocks": estimate(live_blocks),
        "malloc_bytes": estimate(by_kind.malloc_bytes),
        "mapped_bytes": estimate(by_kind.mapped_bytes),
        "rate_unit": {"seconds": unit.seconds, "name": unit.name},
        "rss_note": rss_note(recording, suspects),
        "conclusion": concluded,
        "limit_bytes": limit_bytes,
        "seconds_to_limit": estimate(seconds_to_limit) if seconds_to_limit else None,
        "stacks": _stacks(everything, totals, used),
        "series": series(everything, place),
        "threads": _threads(everything, place),
        "suspects": _suspects(everything, shown, frames, place),
        "suspect_count": len(suspects),
        "process": _process(recording, worst),
        "owners": _owners(recording.owners),
        "java_heap": {
            **java_heap(java, concluded["kind"]),
            "suspects": _suspects(everything, of_java, frames, place),
            "suspect_count": len(java.suspects),
        }
        if java
        else None,
        "call_graph": svg(call_graph(recording), standalone=False) if len(recording.live) else None,
        "frames": frames.columns(),  # last: suspects may have added to them
    }


def _unit(suspects: Sequence[Suspect]) -> RateUnit:
    """As Ranking.rate_unit has it, of suspects that were taken out of one."""
    rates = [one.growth_bytes_per_second.estimate for one in suspects if one.verdict in ("leak", "growing")]
    return rate_unit(rates) if rates else PER_MINUTE


def _conclusion(ranked: Ranking) -> dict[str, Any]:
    """What the headline says; `place` of the suspect that it is about, None without one."""
    found = conclude(ranked)
    return {
        "kind": found.kind,
        "place": found.rank,
        "without_suspect": without_suspect(found),
        "also": also(found, ranked.rate_unit),
        "advice": advice(found),
    }


class Frames:
    """The recording's frames by number, and those that only a suspect has (a judged or missing one)."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        self._frames = list(frames)
        self._numbers = {frame: number for number, frame in enumerate(frames)}

    def number(self, frame: Frame) -> int:
        number = self._numbers.setdefault(frame, len(self._frames))
        if number == len(self._frames):
            self._frames.append(frame)
        return number

    def columns(self) -> dict[str, Any]:
        strings: dict[str, int] = {"": 0}

        def column(texts: Iterable[str]) -> list[int]:
            return [strings.setdefault(text, len(strings)) for text in texts]

        frames = self._frames
        shown = [short(frame) for frame in frames]
        return {
            "name": [frame.name for frame in frames],
            # As the terminal folds it; 0: it is not folded.
            "short": column(
                "" if name == frame.name else name for name, frame in zip(shown, frames, strict=True)
            ),
            "kind": [frame.kind for frame in frames],
            "module": column(frame.module for frame in frames),
            "file": column(frame.file for frame in frames),
            "line": [frame.line for frame in frames],
            "inlined": [int(frame.inlined) for frame in frames],
            "strings": list(strings),
        }


def info(info: Info) -> dict[str, Any]:
    fields = asdict(info)
    # The page shows neither, and an age that is not known is infinite: JSON has no word for that.
    del fields["properties"], fields["process_age"]
    if not info.arguments_kept:
        # Only a recording that was built in memory; what is read from a file is masked already.
        fields["command_line"] = masking.arguments(info.command_line)
        fields["jvm_flags"] = masking.arguments(info.jvm_flags)
    return fields


def _stacks(recording: Recording, totals: StackTotals, used: NDArray[np.int64]) -> dict[str, Any]:
    flat, offsets = recording.stack_frames.tolist(), recording.stack_offsets.tolist()
    kinds = recording.stack_kinds[used].tolist()
    return {
        "kind": [_KINDS.get(kind, "malloc") for kind in kinds],
        "frames": [flat[offsets[stack] : offsets[stack + 1]] for stack in used.tolist()],
        "live_bytes": _whole(totals.live_bytes[used]),
        "live_blocks": _figures(totals.live_blocks[used]),
        "allocated_bytes": _whole(totals.allocated_bytes[used]),
        "allocated_blocks": _figures(totals.allocated_blocks[used]),
    }


def _threads(recording: Recording, place: NDArray[np.int64]) -> dict[str, Any]:
    shares = thread_shares(recording, MOST_THREADS)
    return {
        "name": recording.threads,
        "stack": place[shares.stack].tolist(),
        "thread": shares.thread.tolist(),
        "live_bytes": _whole(shares.live_bytes),
    }


def _suspects(
    recording: Recording, suspects: Sequence[Suspect], frames: Frames, place: NDArray[np.int64]
) -> list[dict[str, Any]]:
    over_time = downsampled_site_series(recording, [suspect.site for suspect in suspects])
    namesakes = apart([suspect.site for suspect in suspects], [suspect.blamed for suspect in suspects])
    result = []
    for number, suspect in enumerate(suspects):
        site, part = suspect.site, suspect.site.part_shown
        stacks = place[list(site.stacks)]
        result.append(
            {
                "rank": suspect.rank,
                "verdict": suspect.verdict,
                "confidence": round(suspect.confidence, 4),
                "kind": site.kind,
                "why": suspect.why,
                "next": suspect.next,
                "blamed": frames.number(suspect.blamed),
                "called": frames.number(suspect.called) if suspect.called else None,
                "callback": _callback(site.stack),
                "triggered": triggered(suspect),
                "folds": folded(site.stack, suspect.blamed),
                "apart": [
                    {"how": mark.how, "frame": frames.number(mark.frame)} for mark in namesakes[number]
                ],
                "stack": [frames.number(frame) for frame in site.stack],
                "stacks": stacks[stacks >= 0].tolist(),
                "threads": list(site.threads),
                "live_bytes": estimate(site.live_bytes),
                "live_blocks": estimate(site.live_blocks),
                "part_shown": {
                    "live_bytes": estimate(part.live_bytes),
                    "live_blocks": estimate(part.live_blocks),
                }
                if part
                else None,
                "old_bytes": estimate(suspect.old_bytes),
                "growth_bytes_per_second": estimate(suspect.growth_bytes_per_second),
                "births": _whole(over_time.births[number]),
                "live_error": _errors(over_time.live_variance[number]),
                "allocated_error": _errors(over_time.allocated_variance[number]),
            }
        )
    return result


def _callback(stack: Sequence[Frame]) -> str:
    inside = callback(stack)
    return inside.name if inside else ""


def folded(stack: Sequence[Frame], blamed: Frame) -> list[list[int | str]]:
    """What a short view of the stack leaves out: start, stop and the words that stand for it."""
    return [[fold.start, fold.stop, fold.text] for fold in folds(stack, blamed)]


def _errors(variances: Any) -> list[float]:
    """Standard errors; none at all where everything is exact."""
    return [float(f"{error:.4g}") for error in np.sqrt(variances).tolist()] if variances.any() else []


def _process(recording: Recording, worst: Sequence[Suspect]) -> dict[str, Any]:
    rows = recording.process[_spread(len(recording.process), MOST_SNAPSHOTS)]
    # Two series: the address space that a JVM reserves would hide what malloc holds.
    mapped = recording.stack_kinds == MMAP
    suspected = np.zeros(len(mapped), np.bool_)
    suspected[[stack for suspect in worst for stack in suspect.site.stacks]] = True
    held = whole.live_over_time(recording, 2 * mapped + suspected, 4, rows["time"])
    return {
        "time": [round(float(time), 3) for time in rows["time"]],
        "rss_bytes": rows["rss_bytes"].tolist(),
        "malloc_bytes": _whole(held[0] + held[1]),
        "malloc_suspected": _whole(held[1]),
        "mapped_bytes": _whole(held[2] + held[3]),
        "mapped_suspected": _whole(held[3]),
    }


def _owners(owners: OwnersOverTime) -> dict[str, Any]:
    readings = _spread(len(owners.times), MOST_READINGS)
    titles = {str(owner): title for owner, title in TITLES.items()}
    return {
        "time": [round(float(time), 3) for time in owners.times[readings]],
        "name": [titles.get(name, name) for name in owners.names],
        "bytes": [_whole(column[readings]) for column in owners.bytes.T],
        "rss_bytes": _whole(owners.rss[readings]),
    }


def _spread(count: int, most: int) -> NDArray[np.int64]:
    """Indices of at most so many of `count`: a screen has fewer columns; first and last always stay."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def _whole(numbers: Any) -> list[int]:
    return [round(number) for number in numbers.tolist()]


def _figures(numbers: Any) -> list[float]:
    return [float(f"{number:.6g}") for number in numbers.tolist()]
