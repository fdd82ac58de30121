"""One suspect at a terminal: its verdict, its figures, its stack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console

from offheap.analysis.leaks.results import Suspect
from offheap.analysis.stacks.namesakes import Mark
from offheap.analysis.verdicts.verdict_reasons import Verdict
from offheap.quantities import RateUnit, format_duration
from offheap.report.terminal.recording.fields import print_field, print_wrapped
from offheap.report.terminal.recording.stack import print_stack
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


def print_suspect(
    out: Console, suspect: Suspect, unit: RateUnit, marks: Sequence[Mark], full: bool, threads: bool
) -> None:
    """`marks` tell it from others of its name; `full`: its whole stack; `threads`: their names."""
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


def print_left(
    out: Console, shown: Sequence[Suspect], counts: Mapping[Verdict, int], everything: bool
) -> None:
    """The sites that are not shown, by verdict; `everything`: more of any verdict could be."""
    left = Counter(counts) - Counter(suspect.verdict for suspect in shown)
    if left:
        put(out)
        others = ", ".join(f"{count} {verdict}" for verdict, count in left.items())
        cut = everything or "leak" in left or "growing" in left
        more = "--top N shows more" if cut else "--all shows them"
        print_wrapped(out, f"Not shown: {others} ({more})", "dim")
