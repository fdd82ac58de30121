"""Sites by live bytes, readable in 80 columns and in 40."""

from __future__ import annotations

from rich.console import Console

from offheap.analysis.java_heap.results import JavaHeapReport
from offheap.analysis.totals.stats import Stats
from offheap.analysis.totals.summary import Summary
from offheap.quantities import format_count, format_size
from offheap.report.terminal.recording.fields import print_recording, print_wrapped
from offheap.report.terminal.recording.java_heap import print_java_summary
from offheap.report.terminal.recording.stack import frame_pieces, print_stack
from offheap.report.text import wording
from offheap.report.text.lines import put
from offheap.report.text.namesakes import beside
from offheap.report.text.printable import printable


def print_summary(
    out: Console,
    result: Summary,
    stats: Stats,
    *,
    top: int = 20,
    full: bool = False,
    java: JavaHeapReport | None = None,
) -> None:
    """Sites by live bytes, one line each; `full` adds their stacks; those of the Java heap apart."""
    if java:
        put(out, ("Native memory", "bold underline"))
    print_wrapped(out, f"Live: {wording.live(result.live)}", "bold")
    put(out)
    put(out, (f"{'live':>10} {'share':>6} {'blocks':>10} {'allocated':>10}  site", "bold"))
    for held in result.held[:top]:
        site = held.site
        figures = (
            f"{format_size(site.live_bytes.estimate):>10}",
            f"{held.share:>6.1%}",
            f"{format_count(site.live_blocks.estimate):>10}",
            f"{format_size(site.allocated_bytes.estimate):>10}",
        )
        mapped = ("  mmap" if site.kind == "mmap" else "", "dim")
        apart = (f" {printable(beside(held.marks))}" if held.marks else "", "dim")
        put(out, " ".join(figures), "  ", *frame_pieces(held.blamed, full, mark=False), apart, mapped)
        if full:
            print_stack(out, site.stack, held.blamed, True, indent=11)
    if len(result.held) > top:
        rest = format_size(result.live_beyond(top))
        put(out, (f"{rest:>10}  in {len(result.held) - top} more sites (--top)", "dim"))
    put(out)
    if java:
        print_java_summary(out, java, top=top, full=full)
        put(out)
    print_recording(out, stats)
