"""The JSON inside the HTML page of a diff: web/src/payload/diff-payload.ts reads it and names every field."""

from __future__ import annotations

from typing import Any

from offheap import __version__
from offheap.analysis.diff.results import Diff, Difference, Side
from offheap.analysis.stacks.namesakes import apart
from offheap.report.html.estimates import estimate
from offheap.report.html.payload import Frames, folded, info
from offheap.report.text.diff import JAVA_OBJECTS, grows_text, headline, hint, leaks_now

SCHEMA = "offheap.diff-page/5"

# Sites after these are left out of the table, not of the flame graph.
MOST_SITES = 2000


def payload(diff: Diff, java: Diff | None = None) -> dict[str, Any]:
    """Everything the page shows; both diffs must have their stacks."""
    frames = Frames(())
    return {
        "schema": SCHEMA,
        "offheap_version": __version__,
        "hint": hint(diff),
        "unit": diff.unit,
        "old": _side(diff.old),
        "new": _side(diff.new),
        "live_bytes": _difference(diff.live_bytes),
        "malloc_bytes": _difference(diff.malloc),
        **_memory(diff, headline(diff), frames),
        "java_heap": _memory(java, headline(java, JAVA_OBJECTS), frames) if java else None,
        "frames": frames.columns(),  # last: sites may have added to them
    }


def _memory(diff: Diff, head: str, frames: Frames) -> dict[str, Any]:
    """The sites and the stacks of native memory, or of the Java heap."""
    return {**_sites(diff, head, frames), "stacks": _stacks(diff, frames)}


def _stacks(diff: Diff, frames: Frames) -> dict[str, Any]:
    stacks = diff.stacks
    if stacks is None:
        raise ValueError("the diff was made without its stacks")
    functions = [frames.number(frame) for frame in stacks.functions]
    return {
        "kind": list(stacks.kinds),
        "frames": [[functions[function] for function in path] for path in stacks.paths],
        "old_bytes": [_figures(each) for each in stacks.old_bytes],
        "new_bytes": [_figures(each) for each in stacks.new_bytes],
    }


def _sites(diff: Diff, head: str, frames: Frames) -> dict[str, Any]:
    shown = diff.changed_sites[:MOST_SITES]
    return {
        "headline": head.replace(" -> ", " \u2192 "),
        "changed": dict(diff.changed),
        "by_chance": diff.by_chance,
        "site_count": len(diff.changed_sites),
        "sites": [
            {
                "rank": site.rank,
                "change": site.change,
                "significant": site.significant,
                "kind": site.kind,
                "blamed": frames.number(site.blamed),
                "apart": [{"how": mark.how, "frame": frames.number(mark.frame)} for mark in marks],
                "stack": [frames.number(frame) for frame in site.stack],
                "folds": folded(site.stack, site.blamed),
                "live_bytes": _difference(site.live_bytes),
                "live_blocks": _difference(site.live_blocks),
                "allocated_bytes": _difference(site.allocated_bytes),
                "grows": grows_text(diff, site.growth).replace(" -> ", " \u2192 ")
                if site.growth and site.growth.change
                else "",
                "leaks": leaks_now(site),
            }
            for site, marks in zip(shown, apart(shown, [site.blamed for site in shown]), strict=True)
        ],
    }


def _side(side: Side) -> dict[str, Any]:
    return {"time": side.time, "seconds": round(side.seconds, 3), "info": info(side.info)}


def _difference(difference: Difference) -> dict[str, Any]:
    return {name: estimate(getattr(difference, name)) for name in ("old", "new", "change")}


def _figures(number: float) -> float:
    return float(f"{number:.6g}")
