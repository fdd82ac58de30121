"""The suspects of a recording, readable in 80 columns and in 40."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console

from offheap.analysis.java_heap.results import JavaHeapReport
from offheap.analysis.leaks.results import Suspect
from offheap.analysis.stacks.namesakes import Mark
from offheap.analysis.totals.stats import Stats
from offheap.analysis.verdicts.verdict_reasons import Verdict
from offheap.quantities import RateUnit
from offheap.report.terminal.recording.fields import print_recording, print_wrapped
from offheap.report.terminal.recording.java_heap import print_java_leaks
from offheap.report.terminal.recording.suspect import print_left, print_suspect
from offheap.report.text import java_heap as words
from offheap.report.text.lines import put


def print_leaks(
    out: Console,
    suspects: Sequence[Suspect],
    answer: str,
    stats: Stats,
    counts: Mapping[Verdict, int],
    unit: RateUnit,
    *,
    everything: bool = False,
    full: bool = False,
    threads: bool = False,
    namesakes: Sequence[Sequence[Mark]] = (),
    note: str = "",
    java: JavaHeapReport | None = None,
    compared: str = "",
    top: int = 10,
    classes: int = words.CLASSES,
) -> None:
    """The answer, these suspects, what else there is, the Java heap, what the recording could not see.

    `counts` has all sites by verdict; `unit` is that of the answer's rates, and so of all; `everything`
    says that more of any verdict could be shown, else of those that leak or grow; `full` does not fold
    stacks, `threads` names the allocating threads, `namesakes` has of each suspect what tells it from
    others of its name; `note` is what RSS did beside a leak; `compared` says which of native memory and
    the Java heap leaks; of the Java heap at most `top` sites and `classes` classes are shown.
    """
    if java:
        if compared:
            print_wrapped(out, compared, "bold red")
            put(out)
        put(out, ("Native memory", "bold underline"))
    print_wrapped(out, answer, "bold red" if counts.get("leak") else "bold")
    if note:
        print_wrapped(out, f"{note}.", "")
    for index, suspect in enumerate(suspects):
        put(out)
        print_suspect(out, suspect, unit, namesakes[index] if namesakes else (), full, threads)
    print_left(out, suspects, counts, everything)
    put(out)
    if java:
        print_java_leaks(
            out, java, top=top, classes=classes, everything=everything, full=full, threads=threads
        )
        put(out)
    print_recording(out, stats)
