"""Reports for people at a terminal, readable in 80 columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from offheap.analysis.results import Live, Suspect, Verdict
from offheap.analysis.stats import Stats
from offheap.analysis.summary import Summary
from offheap.analysis.tree import Node, Tree
from offheap.quantities import format_count, format_size
from offheap.recording.model import Frame
from offheap.report import wording
from offheap.report.text import printable

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
    """Standard output.  Too long a line is left to the terminal: a folded name cannot be searched."""
    return Console(soft_wrap=True, highlight=False, markup=False, emoji=False)


def print_leaks(
    out: Console,
    suspects: Sequence[Suspect],
    answer: str,
    stats: Stats,
    counts: Mapping[Verdict, int],
    *,
    everything: bool = False,
    full: bool = False,
    threads: bool = False,
) -> None:
    """The answer, these suspects, what else there is, what the recording could not see.

    `counts` has all sites by verdict; `everything` says that more of any verdict could be shown,
    else of those that leak or grow; `full` does not fold stacks, `threads` names the allocating threads.
    """
    out.print(_wrapped(printable(answer), "bold red" if counts.get("leak") else "bold"))
    for suspect in suspects:
        out.print()
        _print_suspect(out, suspect, full, threads)
    left = Counter(counts) - Counter(suspect.verdict for suspect in suspects)
    if left:
        out.print()
        others = ", ".join(f"{count} {verdict}" for verdict, count in left.items())
        cut = everything or "leak" in left or "growing" in left
        out.print(
            _wrapped(f"Not shown: {others} ({'--top N shows more' if cut else '--all shows them'})", "dim")
        )
    out.print()
    _print_recording(out, stats)


def print_summary(out: Console, result: Summary, stats: Stats, *, top: int = 20, full: bool = False) -> None:
    """Sites by live bytes, one line each; `full` adds their stacks."""
    out.print(_wrapped(f"Live: {wording.live(result.live)}", "bold"))
    out.print()
    out.print(Text(f"{'live':>10} {'share':>6} {'blocks':>10} {'allocated':>10}  site", "bold"))
    for held in result.held[:top]:
        site = held.site
        figures = (
            f"{format_size(site.live_bytes.estimate):>10}",
            f"{held.share:>6.1%}",
            f"{format_count(site.live_blocks.estimate):>10}",
            f"{format_size(site.allocated_bytes.estimate):>10}",
        )
        line = Text(" ".join(figures) + "  ")
        line.append_text(_frame(held.blamed, full, mark=False))
        if site.kind == "mmap":
            line.append("  mmap", "dim")
        out.print(line)
        if full:
            _print_stack(out, site.stack, held.blamed, True, indent=11)
    if len(result.held) > top:
        rest = sum(held.site.live_bytes.estimate for held in result.held[top:])
        out.print(Text(f"{format_size(rest):>10}  in {len(result.held) - top} more sites (--top)", "dim"))
    out.print()
    _print_recording(out, stats)


def print_tree(out: Console, result: Tree, stats: Stats, *, full: bool = False) -> None:
    """The call tree; a chain of single callers is not indented."""
    out.print(_wrapped(f"Live, callers first: {wording.live(result.live)}", "bold"))
    pending: list[tuple[Node, int]] = [(node, 0) for node in reversed(result.roots)]
    while pending:
        node, depth = pending.pop()
        line = Text(f"{format_size(node.live_bytes.estimate):>10} {node.share:>6.1%}  ")
        line.append("| " * min(depth, 20), "dim")
        line.append_text(_frame(node.frame, full))
        out.print(line)
        deeper = depth + (len(node.children) > 1)
        pending += [(child, deeper) for child in reversed(node.children)]
    out.print(Text(f"below {result.least_share:.2%} of live bytes: not shown (--least)", "dim"))
    out.print()
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
    _print_field(out, "live", wording.live(stats.live))
    _print_field(out, "allocated", wording.in_blocks(stats.allocated_bytes, stats.allocated_blocks))
    if any(stats.rss_bytes):
        first, last = stats.rss_bytes
        _print_field(out, "RSS", f"{format_size(first)} at first, {format_size(last)} at last")
    joined = f", {info.joined:,} with their Java frames" if info.java_version else ""
    _print_field(out, "samples", f"{stats.samples:,}{joined}; {wording.plural(stats.snapshots, 'snapshot')}")
    counts = (
        f"{stats.sites:,} sites, {stats.stacks:,} stacks, {stats.frames:,} frames, {stats.threads:,} threads"
    )
    _print_field(out, "names", f"{counts}, {stats.modules:,} modules")
    _print_gaps(out, stats)


def _print_suspect(out: Console, suspect: Suspect, full: bool, threads: bool) -> None:
    site = suspect.site
    head = Text(f"#{suspect.rank}  ", "bold")
    head.append(suspect.verdict.upper(), _STYLES[suspect.verdict])
    if round(100 * suspect.confidence):
        head.append(f"  confidence {suspect.confidence:.0%}")
    head.append(f"  {site.kind}", "dim")
    if suspect.blamed.kind == "jvm":
        head.append("  the JVM's own", "dim")
    out.print(head)
    _print_field(out, "growth", wording.rates(suspect.growth_bytes_per_second), 4)
    _print_field(out, "live", wording.held(site), 4)
    _print_field(out, "why", suspect.why, 4)
    if threads and site.threads:
        _print_field(out, "threads", ", ".join(site.threads), 4)
    _print_stack(out, site.stack, suspect.blamed, full, indent=4)


def _print_stack(out: Console, stack: Sequence[Frame], blamed: Frame, full: bool, indent: int) -> None:
    """Innermost first; `>` marks the frame to look at; the middle of a long stack is folded to a count."""
    marked = wording.marked(stack, blamed)
    left_out = range(0) if full else wording.folded(stack, blamed)
    margin = " " * indent
    for index, frame in enumerate(stack):
        if index in left_out:
            if index == left_out.start:
                out.print(Text(f"{margin}  ... {len(left_out)} more frames (--full)", "dim"))
            continue
        line = Text(f"{margin}{'> ' if index == marked else '  '}", "bold")
        line.append_text(_frame(frame, full))
        if index == marked:
            line.stylize("bold", len(margin))
        out.print(line)


def _frame(frame: Frame, full: bool, mark: bool = True) -> Text:
    text = Text()
    if mark:
        text.append(f"{frame.kind:<7} ", _KINDS[frame.kind])
    text.append(printable(wording.name(frame, full)))
    where = printable(wording.where(frame))
    if where:
        text.append(f"  {where}", "dim")
    if frame.inlined:
        text.append("  inlined", "dim")
    return text


def _print_recording(out: Console, stats: Stats) -> None:
    _print_field(out, "recording", f"{wording.process(stats.info)}; {wording.mode(stats.info)}")
    joined = f", {stats.info.joined:,} with their Java frames" if stats.info.java_version else ""
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
    margin = " " * indent
    lines = _lines(printable(value), 80 - indent - _LABEL)
    for index, line in enumerate(lines):
        text = Text(f"{margin}{'' if index else label:<{_LABEL}}", "dim")
        text.append(line, "not dim")
        out.print(text)


def _lines(value: str, width: int) -> list[str]:
    from textwrap import wrap

    return wrap(value, width, break_long_words=False, break_on_hyphens=False) or [""]


def _wrapped(value: str, style: str) -> Text:
    return Text("\n".join(_lines(value, 80)), style)


def _short_live(live: Live) -> str:
    malloc = f"malloc {format_size(live.malloc_bytes.estimate)}"
    if not live.mapped_bytes.estimate:
        return malloc
    return f"{malloc}, mapped {format_size(live.mapped_bytes.estimate)} of address space"
