"""The JSON inside the HTML report: web/src/payload/payload.ts is its reader and names every field.

Columns instead of rows and numbers instead of repeated names: 20,000 stacks stay below 5 MB.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from offheap import __version__
from offheap.analysis.leaks.answer import triggered
from offheap.analysis.leaks.conclusion import advice, without_suspect
from offheap.analysis.owners.accounts import TITLES
from offheap.analysis.page.recording_page import Integers, PageSites, ProcessOverTime, RecordingPage, spread
from offheap.analysis.stacks.blame import short
from offheap.analysis.stacks.callbacks import callback
from offheap.analysis.stacks.folding import folds
from offheap.recording import masking
from offheap.recording.model import JAVA, MMAP, Frame, Info, OwnersOverTime
from offheap.report.callgraph.svg import svg
from offheap.report.html.estimates import estimate
from offheap.report.html.payload_java import java_heap
from offheap.report.html.payload_series import series

SCHEMA = "offheap.report-page/4"

# Readings in the chart of owners: about as many as a screen has columns.
MOST_READINGS = 500

_KINDS = {0: "malloc", 1: "malloc", MMAP: "mmap", JAVA: "java"}


def payload(page: RecordingPage) -> dict[str, Any]:
    """Everything the page shows, in JSON's own types; quantities that JSON cannot write are None."""
    frames = Frames(page.recording.frames)
    place = page.places()
    return {
        "schema": SCHEMA,
        "offheap_version": __version__,
        "info": info(page.recording.info),
        "live_bytes": estimate(page.live_bytes),
        "live_blocks": estimate(page.live_blocks),
        "malloc_bytes": estimate(page.by_kind.malloc_bytes),
        "mapped_bytes": estimate(page.by_kind.mapped_bytes),
        "rate_unit": {"seconds": page.rate_unit.seconds, "name": page.rate_unit.name},
        "rss_note": page.rss_note,
        "conclusion": _conclusion(page),
        "limit_bytes": page.limit_bytes,
        "seconds_to_limit": estimate(page.seconds_to_limit) if page.seconds_to_limit else None,
        "stacks": _stacks(page),
        "series": series(page.series, place),
        "threads": _threads(page, place),
        "suspects": _suspects(page.table, frames, place),
        "suspect_count": page.table.count,
        "process": _process(page.process),
        "owners": _owners(page.recording.owners),
        "java_heap": {
            **java_heap(page.java),
            "suspects": _suspects(page.java.table, frames, place),
            "suspect_count": page.java.table.count,
        }
        if page.java
        else None,
        "call_graph": svg(page.call_graph, standalone=False) if page.call_graph else None,
        "frames": frames.columns(),  # last: suspects may have added to them
    }


def _conclusion(page: RecordingPage) -> dict[str, Any]:
    """What the headline says; `place` of the suspect that it is about, None without one."""
    found = page.conclusion
    return {
        "kind": found.kind,
        "place": found.rank,
        "without_suspect": without_suspect(found),
        "also": page.also,
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


def _stacks(page: RecordingPage) -> dict[str, Any]:
    recording, totals, used = page.everything, page.totals, page.used
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


def _threads(page: RecordingPage, place: Integers) -> dict[str, Any]:
    shares = page.threads
    return {
        "name": page.everything.threads,
        "stack": place[shares.stack].tolist(),
        "thread": shares.thread.tolist(),
        "live_bytes": _whole(shares.live_bytes),
    }


def _suspects(table: PageSites, frames: Frames, place: Integers) -> list[dict[str, Any]]:
    over_time = table.over_time
    result = []
    for number, suspect in enumerate(table.suspects):
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
                    {"how": mark.how, "frame": frames.number(mark.frame)} for mark in table.namesakes[number]
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
                "live_error": _errors(over_time.live_error[number]),
                "allocated_error": _errors(over_time.allocated_error[number]),
            }
        )
    return result


def _callback(stack: Sequence[Frame]) -> str:
    inside = callback(stack)
    return inside.name if inside else ""


def folded(stack: Sequence[Frame], blamed: Frame) -> list[list[int | str]]:
    """What a short view of the stack leaves out: start, stop and the words that stand for it."""
    return [[fold.start, fold.stop, fold.text] for fold in folds(stack, blamed)]


def _errors(errors: Any) -> list[float]:
    """None at all where everything is exact."""
    return [float(f"{error:.4g}") for error in errors.tolist()] if errors.any() else []


def _process(process: ProcessOverTime) -> dict[str, Any]:
    malloc, mapped = process.others + process.suspected
    malloc_suspected, mapped_suspected = process.suspected
    return {
        "time": [round(float(time), 3) for time in process.time],
        "rss_bytes": process.rss_bytes.tolist(),
        "malloc_bytes": _whole(malloc),
        "malloc_suspected": _whole(malloc_suspected),
        "mapped_bytes": _whole(mapped),
        "mapped_suspected": _whole(mapped_suspected),
    }


def _owners(owners: OwnersOverTime) -> dict[str, Any]:
    readings = spread(len(owners.times), MOST_READINGS)
    titles = {str(owner): title for owner, title in TITLES.items()}
    return {
        "time": [round(float(time), 3) for time in owners.times[readings]],
        "name": [titles.get(name, name) for name in owners.names],
        "bytes": [_whole(column[readings]) for column in owners.bytes.T],
        "rss_bytes": _whole(owners.rss[readings]),
    }


def _whole(numbers: Any) -> list[int]:
    return [round(number) for number in numbers.tolist()]


def _figures(numbers: Any) -> list[float]:
    return [float(f"{number:.6g}") for number in numbers.tolist()]
