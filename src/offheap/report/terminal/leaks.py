"""The suspects of a recording, readable in 80 columns and in 40."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console

from offheap.analysis.leaks.results import Suspect
from offheap.analysis.stacks.namesakes import Mark
from offheap.analysis.totals.stats import Stats
from offheap.analysis.verdicts.verdict_reasons import Verdict
from offheap.quantities import RateUnit, format_duration
from offheap.report.terminal.fields import print_field, print_recording, print_wrapped
from offheap.report.terminal.stack import print_stack
from offheap.report.text import wording
from offheap.report.text.lines import put
from offheap.report.text.namesakes import beside

_STYLES: dict[Verdict, str] = {
    "leak": "bold red",
    "growing": "bold yellow",
    "cannot tell yet": "cyan",
    "steady": "green",
    "startup": "green",
    "freed": "green",
}


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
) -> None:
    """The answer, these suspects, what else there is, what the recording could not see.

    `counts` has all sites by verdict; `unit` is that of the answer's rates, and so of all; `everything`
    says that more of any verdict could be shown, else of those that leak or grow; `full` does not fold
    stacks, `threads` names the allocating threads, `namesakes` has of each suspect what tells it from
    others of its name; `note` is what RSS did beside a leak.
    """
    print_wrapped(out, answer, "bold red" if counts.get("leak") else "bold")
    if note:
        print_wrapped(out, f"{note}.", "")
    for index, suspect in enumerate(suspects):
        put(out)
        _print_suspect(out, suspect, unit, namesakes[index] if namesakes else (), full, threads)
    left = Counter(counts) - Counter(suspect.verdict for suspect in suspects)
    if left:
        put(out)
        others = ", ".join(f"{count} {verdict}" for verdict, count in left.items())
        cut = everything or "leak" in left or "growing" in left
        more = "--top N shows more" if cut else "--all shows them"
        print_wrapped(out, f"Not shown: {others} ({more})", "dim")
    put(out)
    print_recording(out, stats)


def _print_suspect(
    out: Console, suspect: Suspect, unit: RateUnit, marks: Sequence[Mark], full: bool, threads: bool
) -> None:
    site = suspect.site
    sure = f"  confidence {suspect.confidence:.0%}" if round(100 * suspect.confidence) else ""
    whose = "  the JVM's own" if suspect.blamed.kind == "jvm" else ""
    put(
        out,
        (f"#{suspect.rank}  ", "bold"),
        (suspect.verdict.upper(), _STYLES[suspect.verdict]),
        (sure, "bold"),
        (f"  {site.kind}{whose}", "dim"),
    )
    if marks:
        print_field(out, "site", f"{wording.name(suspect.blamed)} {beside(marks)}", 4)
    print_field(out, "growth", wording.rates(suspect.growth_bytes_per_second, unit), 4)
    if suspect.seconds_to_limit:
        print_field(
            out, "limit", f"reached in {wording.amount(suspect.seconds_to_limit, format_duration)}", 4
        )
    print_field(out, "live", wording.held(site), 4)
    print_field(out, "why", suspect.why, 4)
    if suspect.next:
        print_field(out, "next", suspect.next, 4)
    if threads and site.threads:
        print_field(out, "threads", ", ".join(site.threads), 4)
    print_stack(out, site.stack, suspect.blamed, full, indent=4)
