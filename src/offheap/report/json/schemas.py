"""The JSON that tools may rely on: docs/json.md describes it, schema by schema.

A quantity whose upper end is not known is null there; bytes and blocks are whole numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, get_args

from offheap.analysis.leaks.answer import headline
from offheap.analysis.leaks.conclusion import Conclusion
from offheap.analysis.leaks.results import Suspect
from offheap.analysis.sites.results import Live, Site
from offheap.analysis.stacks.namesakes import Mark, apart
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.totals.stats import Stats, lost_samples
from offheap.analysis.totals.summary import Summary
from offheap.analysis.totals.tree import Node, Tree
from offheap.analysis.verdicts.power import BLOCK_BYTES, PROBABILITY
from offheap.analysis.verdicts.verdict_reasons import Verdict
from offheap.recording.model import Budget, Frame, Info
from offheap.report.text.namesakes import beside

Value = dict[str, Any]

_MOST_TRIGGERS = 10  # of an agent's callback: it may have been called anywhere


def dumps(value: Value) -> str:
    """Indented, one key a line; not a number other than JSON's."""
    return json.dumps(value, indent=2, allow_nan=False)


def stream(value: Value, **lists: Iterable[Value]) -> Iterator[str]:
    """The text piece by piece, with `lists` as last keys: an item a line, and never all in memory."""
    text = dumps(value)
    if not lists:
        yield f"{text}\n"
        return
    yield text.removesuffix("\n}")
    for name, items in lists.items():
        yield f',\n  "{name}": ['
        separator = ""
        for item in items:
            # Without an indent Python encodes in C, ten times as fast.
            yield f"{separator}\n    {json.dumps(item, allow_nan=False)}"
            separator = ","
        yield "\n  ]" if separator else "]"
    yield "\n}\n"


def leaks(
    info: Info,
    answer: str,
    found: Conclusion,
    counts: Mapping[Verdict, int],
    live: Live,
    limit_bytes: int | None = None,
    seconds_to_limit: Estimate | None = None,
    rss_note: str = "",
    java_heap: Value | None = None,
) -> Value:
    """offheap.leaks/1 but for its last key, "suspects", a list of `suspect`.

    `counts`: how many sites got each verdict, whether they are listed or not; `limit_bytes` of memory,
    if one is known, and when all leaks together reach it; `java_heap`: None where it was not recorded.
    """
    return {
        "schema": "offheap.leaks/1",
        "recording": recording(info),
        "answer": answer,
        "power": power(found),
        "verdicts": verdicts(counts),
        **by_kind(live),
        "limit_bytes": limit_bytes,
        "seconds_to_limit": seconds(seconds_to_limit),
        "rss_note": rss_note,
        "java_heap": java_heap,
    }


def suspects(listed: Iterable[Suspect]) -> Iterator[Value]:
    """All of "suspects", each told from others of its name in the list."""
    shown = list(listed)
    return map(suspect, shown, namesakes(shown))


def namesakes(shown: Sequence[Suspect]) -> list[tuple[Mark, ...]]:
    """For each of these the marks that tell it from others of its name among them."""
    return apart([one.site for one in shown], [one.blamed for one in shown])


def marked(value: Suspect, marks: Sequence[Mark]) -> str:
    """`java.util.zip.Inflater.<init>, called by com.example.Feed.open ← com.example.Prices.load`."""
    return f"{headline(value)} {beside(marks)}" if marks else headline(value)


def suspect(value: Suspect, marks: Sequence[Mark] = ()) -> Value:
    """One of "suspects"; `marks` tell it from others of its name."""
    return {
        "rank": value.rank,
        "verdict": value.verdict,
        "confidence": round(value.confidence, 3),
        "why": value.why,
        "kind": value.site.kind,
        "live_bytes": quantity(value.site.live_bytes),
        "live_blocks": quantity(value.site.live_blocks),
        "old_bytes": quantity(value.old_bytes),
        "allocated_bytes": quantity(value.site.allocated_bytes),
        "allocated_blocks": quantity(value.site.allocated_blocks),
        "growth_bytes_per_second": quantity(value.growth_bytes_per_second, 3),
        "seconds_to_limit": seconds(value.seconds_to_limit),
        "waits_for_gc": value.waits_for_gc,
        "headline": marked(value, marks),
        "next": value.next,
        "blamed": frame(value.blamed),
        "called": frame(value.called) if value.called else None,
        "triggers": [frame(trigger) for trigger in value.triggers[:_MOST_TRIGGERS]],
        "threads": list(value.site.threads),
        "stack": stack(value.site),
        "paths": [
            {
                "live_bytes": quantity(path.live_bytes),
                "live_blocks": quantity(path.live_blocks),
                "inner": [frame(inner) for inner in path.inner],
            }
            for path in value.site.paths
        ],
    }


def summary(result: Summary, top: int | None = None, java_heap: Value | None = None) -> Value:
    """offheap.summary/1; `java_heap`: None where it was not recorded."""
    return {
        "schema": "offheap.summary/1",
        "recording": recording(result.info),
        "live_bytes": quantity(result.live_bytes),
        "live_blocks": quantity(result.live_blocks),
        **by_kind(result.live),
        "allocated_bytes": quantity(result.allocated_bytes),
        "sites": [
            {
                "kind": held.site.kind,
                "share": round(held.share, 4),
                "live_bytes": quantity(held.site.live_bytes),
                "live_blocks": quantity(held.site.live_blocks),
                "allocated_bytes": quantity(held.site.allocated_bytes),
                "allocated_blocks": quantity(held.site.allocated_blocks),
                "blamed": frame(held.blamed),
                "threads": list(held.site.threads),
                "stack": stack(held.site),
            }
            for held in result.held[:top]
        ],
        "java_heap": java_heap,
    }


def tree(result: Tree, java: Tree | None = None) -> Value:
    """offheap.tree/1; `java`: of the objects that survived the last collection."""
    return {
        "schema": "offheap.tree/1",
        "recording": recording(result.info),
        "live_bytes": quantity(result.live_bytes),
        **by_kind(result.live),
        "least_share": result.least_share,
        "nodes": _nodes(result.roots),
        "java_heap": {
            "live_bytes": quantity(java.live.malloc_bytes),
            "live_objects": quantity(java.live.malloc_blocks),
            "nodes": _nodes(java.roots),
        }
        if java
        else None,
    }


def stats(result: Stats, java_heap: Value | None = None) -> Value:
    """offheap.stats/1; `java_heap`: None where Java objects were not requested."""
    return {
        "schema": "offheap.stats/1",
        "recording": recording(result.info),
        "live_bytes": quantity(result.live_bytes),
        "live_blocks": quantity(result.live_blocks),
        **by_kind(result.live),
        "allocated_bytes": quantity(result.allocated_bytes),
        "allocated_blocks": quantity(result.allocated_blocks),
        "samples": result.samples,
        "joined_samples": result.info.joined,
        "sites": result.sites,
        "stacks": result.stacks,
        "frames": result.frames,
        "threads": result.threads,
        "modules": result.modules,
        "snapshots": result.snapshots,
        "rss_bytes": {"first": result.rss_bytes[0], "last": result.rss_bytes[1]}
        if any(result.rss_bytes)
        else None,
        "losses": list(result.losses),
        "jvm_flags": list(result.info.jvm_flags),
        "command_line": list(result.info.command_line),
        "java_heap": java_heap,
    }


def power(found: Conclusion) -> Value:
    """The object under "power": what the recording can exclude, and the length of a recording that tells."""
    return {
        "conclusion": found.kind,
        "bytes_per_second": _number(found.power.bytes_per_second, 3),
        "new_site_bytes_per_second": _number(found.power.new_site, 3),
        "existing_site_bytes_per_second": _number(found.power.existing_site, 3),
        "block_bytes": round(BLOCK_BYTES),
        "probability": PROBABILITY,
        "limit_bytes_per_second": _number(found.limit, 3),
        "needs_seconds": None if found.seconds is None else _number(found.seconds, 0),
        "unexplained": {
            "owner": found.level.kind,
            "growth_bytes_per_second": quantity(found.level.rate, 3),
            "live_blocks_growth_bytes_per_second": _number(found.level.blocks, 3),
            "seconds": round(found.level.seconds, 3),
        }
        if found.level
        else None,
        "beside": found.beside,
    }


def verdicts(counts: Mapping[Verdict, int]) -> Value:
    """How many sites got each verdict; a verdict without sites has 0."""
    return {verdict: counts.get(verdict, 0) for verdict in get_args(Verdict)}


def recording(info: Info) -> Value:
    """The object under "recording" of every schema."""
    return {
        "path": info.path,
        "pid": info.pid,
        "java_version": info.java_version,
        "main_class": info.main_class,
        "mode": info.mode,
        "interval_bytes": info.interval_bytes,
        "budget": _budget(info.budget),
        "recorder": {"cpu_seconds": info.recorder.cpu_seconds, "rss_bytes": info.recorder.rss_bytes}
        if info.recorder
        else None,
        "start": datetime.fromtimestamp(info.start, timezone.utc).isoformat(timespec="milliseconds"),
        "duration_seconds": round(info.duration_seconds, 3),
        "entry": info.entry,
        "ended": info.ended,
        "probe_version": info.probe_version,
        "lost": {"samples": lost_samples(info), **info.lost},
        "coverage": list(info.coverage),
    }


def _budget(budget: Budget | None) -> Value | None:
    if budget is None:
        return None
    return {
        "cpu_share": round(budget.share, 6),
        "spent_share": _number(budget.spent_share, 6),
        "cpu_seconds": round(budget.cpu_seconds, 3),
        "spent_seconds": round(budget.spent_seconds, 6),
        "interval_bytes": {
            "least": budget.least_interval_bytes,
            "greatest": budget.greatest_interval_bytes,
            "last": budget.last_interval_bytes,
        },
    }


def by_kind(live: Live) -> Value:
    """The keys that tell malloc's blocks from mappings."""
    return {
        "malloc_bytes": quantity(live.malloc_bytes),
        "malloc_blocks": quantity(live.malloc_blocks),
        "mapped_bytes": quantity(live.mapped_bytes),
        "mappings": quantity(live.mappings),
    }


def quantity(value: Estimate, digits: int | None = None) -> Value:
    """{"estimate", "low", "high"}: whole numbers, or rounded to `digits`."""
    return {
        "estimate": _number(value.estimate, digits),
        "low": _number(value.low, digits),
        "high": _number(value.high, digits),
    }


def frame(value: Frame) -> Value:
    """One frame; "" and 0 are what is not known."""
    return {
        "name": value.name,
        "kind": value.kind,
        "module": value.module,
        "file": value.file,
        "line": value.line,
        "inlined": value.inlined,
    }


def stack(site: Site) -> list[Value]:
    """The site's stack, outermost last."""
    return [frame(value) for value in site.stack]


def seconds(value: Estimate | None) -> Value | None:
    return quantity(value, 0) if value else None


def _number(value: float, digits: int | None) -> float | None:
    return round(value, digits) if math.isfinite(value) else None


def _nodes(roots: Sequence[Node]) -> list[Value]:
    """Nodes outermost first, each with the index of its parent: a nested tree would be as deep as the stack,
    deeper than most JSON readers go."""
    rows: list[Value] = []
    pending: list[tuple[Node, int | None]] = [(node, None) for node in reversed(roots)]
    while pending:
        node, parent = pending.pop()
        row = {
            "parent": parent,
            "live_bytes": quantity(node.live_bytes),
            "mapped_bytes": round(node.mapped_bytes),
            "live_blocks": round(node.live_blocks),
            "share": round(node.share, 4),
            "frame": frame(node.frame),
        }
        pending += [(child, len(rows)) for child in reversed(node.children)]
        rows.append(row)
    return rows
