"""The Java heap of a recording, readable in 80 columns and in 40."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from offheap.analysis.java_heap.answer import answer as java_answer
from offheap.analysis.java_heap.results import ClassTotal, JavaHeapReport
from offheap.analysis.stacks.namesakes import apart
from offheap.quantities import format_count, format_size
from offheap.report.terminal.recording.fields import print_field, print_wrapped
from offheap.report.terminal.recording.stack import frame_pieces, print_stack
from offheap.report.terminal.recording.suspect import print_left, print_suspect
from offheap.report.text import java_heap as words
from offheap.report.text.lines import put
from offheap.report.text.namesakes import beside
from offheap.report.text.printable import printable


def print_java_leaks(
    out: Console,
    report: JavaHeapReport,
    *,
    top: int = 10,
    classes: int = words.CLASSES,
    everything: bool = False,
    full: bool = False,
    threads: bool = False,
) -> None:
    """The answer, the suspects, the books, the largest classes, and what the figures leave out."""
    put(out, ("Java heap", "bold underline"))
    counts = report.suspects.counts()
    print_wrapped(out, java_answer(report), "bold red" if counts["leak"] else "bold")
    shown = report.suspects[: top if everything else min(top, report.suspicious)]
    marks = apart([one.site for one in shown], [one.blamed for one in shown])
    for suspect, its in zip(shown, marks, strict=True):
        put(out)
        print_suspect(out, suspect, report.suspects.rate_unit, its, full, threads)
    print_left(out, shown, counts, everything)
    if report.state != "followed":
        return
    put(out)
    print_java_books(out, report)
    print_classes(out, report.classes, classes)


def print_java_books(out: Console, report: JavaHeapReport) -> None:
    """What is live, what is not known to be, and how both compare with the heap."""
    if live := words.live(report):
        print_field(out, "heap", live)
    if why := words.books(report):
        print_field(out, "", why)
    if young := words.uncollected(report):
        print_field(out, "younger", young)
    for index, sentence in enumerate(report.coverage):
        print_field(out, "" if index else "not seen", sentence)


def print_classes(out: Console, classes: Sequence[ClassTotal], most: int) -> None:
    """A row a class, most live bytes first."""
    if not classes or not most:
        return
    put(out)
    rows = [words.class_figures(one) for one in classes[:most]]
    room = max(len("live"), *(len(live) for live, _, _ in rows))
    put(out, (f"{'live':>{room}} {'objects':>9} {'younger':>10}  class", "bold"))
    for one, (live, objects, young) in zip(classes, rows, strict=False):
        put(out, f"{live:>{room}} {objects:>9} {young:>10}  {printable(one.name)}")
    if len(classes) > most:
        put(out, (f"{'':>{room}} {'':>9} {'':>10}  {len(classes) - most} more (--classes N)", "dim"))


def print_java_summary(out: Console, report: JavaHeapReport, *, top: int = 20, full: bool = False) -> None:
    """Sites of the Java heap by live bytes, one line each; `full` adds their stacks."""
    put(out, ("Java heap", "bold underline"))
    if report.state != "followed":
        print_wrapped(out, java_answer(report), "bold")
        return
    held = report.largest(top)
    marks = apart([one.site for one in held], [one.blamed for one in held])
    put(out, (f"{'live':>10} {'share':>6} {'objects':>10} {'allocated':>10}  site", "bold"))
    for suspect, its in zip(held, marks, strict=True):
        site = suspect.site
        figures = (
            f"{format_size(site.live_bytes.estimate):>10}",
            f"{report.share(suspect):>6.1%}",
            f"{format_count(site.live_blocks.estimate):>10}",
            f"{format_size(site.allocated_bytes.estimate):>10}",
        )
        told = (f" {printable(beside(its))}" if its else "", "dim")
        made = (f"  new {printable(suspect.object_class)}", "dim")
        put(out, " ".join(figures), "  ", *frame_pieces(suspect.blamed, full, mark=False), told, made)
        if full:
            print_stack(out, site.stack, suspect.blamed, True, indent=11)
    if len(report.suspects) > top:
        put(out, (f"{'':>10}  {len(report.suspects) - top} more sites (--top)", "dim"))
    put(out)
    print_java_books(out, report)
