"""Reports for people at a terminal, readable in 80 columns and in 40."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console

from offheap.analysis.leaks.results import Suspect
from offheap.analysis.sites.results import Live
from offheap.analysis.stacks.blame import position
from offheap.analysis.stacks.folding import folds
from offheap.analysis.stacks.namesakes import Mark
from offheap.analysis.totals.stats import Stats
from offheap.analysis.totals.summary import Summary
from offheap.analysis.totals.tree import Node, Tree
from offheap.analysis.verdicts.verdict_reasons import Verdict
from offheap.quantities import RateUnit, format_count, format_duration, format_size
from offheap.recording.model import Frame
from offheap.report.text import wording
from offheap.report.text.lines import Piece, put
from offheap.report.text.namesakes import beside
from offheap.report.text.printable import printable
from offheap.report.text.width import output, width

_LABEL = 11  # columns

_STYLES: dict[Verdict, str] = {
    "leak": "bold red",
    "growing": "bold yellow",
    "cannot tell yet": "cyan",
    "steady": "green",
    "startup": "green",
    "freed": "green",
}
_KINDS = {"native": "blue", "java": "green", "jvm": "magenta", "kernel": "yellow", "unknown": "red"}


def console() -> Console:
    """Standard output.  Lines are broken between words alone: a folded name cannot be searched."""
    return Console(file=output(), soft_wrap=True, highlight=False, markup=False, emoji=False)


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
    _print_wrapped(out, answer, "bold red" if counts.get("leak") else "bold")
    if note:
        _print_wrapped(out, f"{note}.", "")
    for index, suspect in enumerate(suspects):
        put(out)
        _print_suspect(out, suspect, unit, namesakes[index] if namesakes else (), full, threads)
    left = Counter(counts) - Counter(suspect.verdict for suspect in suspects)
    if left:
        put(out)
        others = ", ".join(f"{count} {verdict}" for verdict, count in left.items())
        cut = everything or "leak" in left or "growing" in left
        more = "--top N shows more" if cut else "--all shows them"
        _print_wrapped(out, f"Not shown: {others} ({more})", "dim")
    put(out)
    _print_recording(out, stats)


def print_summary(out: Console, result: Summary, stats: Stats, *, top: int = 20, full: bool = False) -> None:
    """Sites by live bytes, one line each; `full` adds their stacks."""
    _print_wrapped(out, f"Live: {wording.live(result.live)}", "bold")
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
        put(out, " ".join(figures), "  ", *_frame(held.blamed, full, mark=False), apart, mapped)
        if full:
            _print_stack(out, site.stack, held.blamed, True, indent=11)
    if len(result.held) > top:
        rest = sum(held.site.live_bytes.estimate for held in result.held[top:])
        put(out, (f"{format_size(rest):>10}  in {len(result.held) - top} more sites (--top)", "dim"))
    put(out)
    _print_recording(out, stats)


def print_tree(out: Console, result: Tree, stats: Stats, *, full: bool = False) -> None:
    """The call tree; a chain of single callers is not indented."""
    _print_wrapped(out, f"Live, callers first: {wording.live(result.live)}", "bold")
    pending: list[tuple[Node, int]] = [(node, 0) for node in reversed(result.roots)]
    while pending:
        node, depth = pending.pop()
        figures = f"{format_size(node.malloc_bytes or node.mapped_bytes):>10} {node.share:>6.1%}  "
        more = f"  and {format_size(node.mapped_bytes)} mmap" if node.mapped_bytes else ""
        mapped = (more if node.malloc_bytes else "  mmap", "dim")
        put(out, figures, ("| " * min(depth, 20), "dim"), *_frame(node.frame, full), mapped)
        deeper = depth + (len(node.children) > 1)
        pending += [(child, deeper) for child in reversed(node.children)]
    of = "of malloc's or of mapped bytes" if result.live.mappings.high else "of live bytes"
    put(out, (f"below {result.least_share:.2%} {of}: not shown (--least)", "dim"))
    put(out)
    _print_recording(out, stats)


def print_stats(out: Console, stats: Stats) -> None:
    """What was recorded, in full."""
    info = stats.info
    _print_field(out, "recording", info.path)
    _print_field(out, "process", wording.process(info))
    if info.command_line:
        _print_field(out, "command", " ".join(info.command_line))
    _print_field(out, "recorded", wording.mode(info))
    if info.budget:
        _print_field(out, "budget", wording.budget(info.budget))
    if info.recorder:
        _print_field(out, "recorder", wording.recorder(info))
    _print_field(out, "live", wording.live(stats.live))
    _print_field(out, "allocated", wording.in_blocks(stats.allocated_bytes, stats.allocated_blocks))
    if any(stats.rss_bytes):
        first, last = stats.rss_bytes
        _print_field(out, "RSS", f"{format_size(first)} at first, {format_size(last)} at last")
    joined = f", {info.joined:,} with Java frames" if info.java_version else ""
    _print_field(out, "samples", f"{stats.samples:,}{joined}; {wording.plural(stats.snapshots, 'snapshot')}")
    counts = (
        f"{stats.sites:,} sites, {stats.stacks:,} stacks, {stats.frames:,} frames, {stats.threads:,} threads"
    )
    _print_field(out, "names", f"{counts}, {stats.modules:,} modules")
    _print_gaps(out, stats)


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
        _print_field(out, "site", f"{wording.name(suspect.blamed)} {beside(marks)}", 4)
    _print_field(out, "growth", wording.rates(suspect.growth_bytes_per_second, unit), 4)
    if suspect.seconds_to_limit:
        _print_field(
            out, "limit", f"reached in {wording.amount(suspect.seconds_to_limit, format_duration)}", 4
        )
    _print_field(out, "live", wording.held(site), 4)
    _print_field(out, "why", suspect.why, 4)
    if suspect.next:
        _print_field(out, "next", suspect.next, 4)
    if threads and site.threads:
        _print_field(out, "threads", ", ".join(site.threads), 4)
    _print_stack(out, site.stack, suspect.blamed, full, indent=4)


def _print_stack(out: Console, stack: Sequence[Frame], blamed: Frame, full: bool, indent: int) -> None:
    """Innermost first; `>` marks the frame to look at; what a long stack leaves out is a line a run."""
    marked = position(stack, blamed)
    left_out = {} if full else {fold.start: fold for fold in folds(stack, blamed)}
    margin = " " * indent
    resume = 0
    for index, frame in enumerate(stack):
        if index in left_out:
            put(out, (f"{margin}  {printable(left_out[index].text)} (--full)", "dim"))
            resume = left_out[index].stop
        if index < resume:
            continue
        if index == marked:
            put(
                out, margin, ("> ", "bold"), *((text, f"bold {style}") for text, style in _frame(frame, full))
            )
        else:
            put(out, margin, "  ", *_frame(frame, full))


def _frame(frame: Frame, full: bool, mark: bool = True) -> list[Piece]:
    pieces = [(f"{frame.kind:<7} ", _KINDS[frame.kind])] if mark else []
    pieces.append((printable(wording.name(frame, full)), ""))
    where = printable(wording.where(frame))
    if where or frame.inlined:
        pieces.append((f"{'  ' if where else ''}{where}{'  inlined' if frame.inlined else ''}", "dim"))
    return pieces


def _print_recording(out: Console, stats: Stats) -> None:
    _print_field(out, "recording", f"{wording.process(stats.info)}; {wording.mode(stats.info)}")
    joined = f", {stats.info.joined:,} with Java frames" if stats.info.java_version else ""
    _print_field(
        out,
        "seen",
        f"live {_short_live(stats.live)}; {format_size(stats.allocated_bytes.estimate)} allocated "
        f"in {wording.plural(stats.sites, 'site')}; {wording.plural(stats.samples, 'sample')}{joined}",
    )
    _print_gaps(out, stats)


def _print_gaps(out: Console, stats: Stats) -> None:
    _print_field(out, "lost", "; ".join(stats.losses) or "nothing")
    for index, sentence in enumerate(stats.coverage):
        _print_field(out, "" if index else "not seen", sentence)


def _print_field(out: Console, label: str, value: str, indent: int = 0) -> None:
    for index, line in enumerate(_lines(value, width() - indent - _LABEL)):
        put(out, (f"{' ' * indent}{'' if index else label:<{_LABEL}}", "dim"), line)


def _lines(value: str, room: int) -> list[str]:
    from textwrap import wrap

    return wrap(printable(value), room, break_long_words=False, break_on_hyphens=False) or [""]


def _print_wrapped(out: Console, value: str, style: str) -> None:
    for line in _lines(value, width()):
        put(out, (line, style))


def _short_live(live: Live) -> str:
    malloc = f"malloc {format_size(live.malloc_bytes.estimate)}"
    if not live.mapped_bytes.estimate:
        return malloc
    return f"{malloc}, mapped {format_size(live.mapped_bytes.estimate)} of address space"
