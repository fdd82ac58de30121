"""What was recorded, in full, readable in 80 columns and in 40."""

from __future__ import annotations

from rich.console import Console

from offheap.analysis.totals.stats import Stats
from offheap.quantities import format_size
from offheap.report.terminal.recording.fields import print_field, print_gaps
from offheap.report.text import java_heap, wording


def print_stats(out: Console, stats: Stats) -> None:
    """What was recorded, in full."""
    info = stats.info
    print_field(out, "recording", info.path)
    print_field(out, "process", wording.process(info))
    if info.command_line:
        print_field(out, "command", " ".join(info.command_line))
    print_field(out, "recorded", wording.mode(info))
    if info.budget:
        print_field(out, "budget", wording.budget(info.budget, info.divisor_seconds))
    if info.java_heap:
        print_field(out, "Java heap", java_heap.followed(info.java_heap, info.divisor_seconds))
    if info.recorder:
        print_field(out, "recorder", wording.recorder(info))
    print_field(out, "live", wording.live(stats.live))
    print_field(out, "allocated", wording.in_blocks(stats.allocated_bytes, stats.allocated_blocks))
    if any(stats.rss_bytes):
        first, last = stats.rss_bytes
        print_field(out, "RSS", f"{format_size(first)} at first, {format_size(last)} at last")
    print_field(out, "samples", f"{wording.samples(stats)}; {wording.plural(stats.snapshots, 'snapshot')}")
    counts = (
        f"{stats.sites:,} sites, {stats.stacks:,} stacks, {stats.frames:,} frames, {stats.threads:,} threads"
    )
    print_field(out, "names", f"{counts}, {stats.modules:,} modules")
    print_gaps(out, stats)
