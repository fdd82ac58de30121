"""What changed, for people at a terminal of 80 columns."""

from __future__ import annotations

from textwrap import wrap

from rich.console import Console
from rich.text import Text

from offheap.analysis.diff.results import Change, Diff, Difference, Side
from offheap.analysis.stacks.blame import short, through
from offheap.analysis.stacks.frames import class_of
from offheap.quantities import format_count, format_duration
from offheap.recording.model import Frame
from offheap.report.text import wording
from offheap.report.text.diff import JAVA_OBJECTS, _amount, _signed, grows_text, headline, hint, leaks_now
from offheap.report.text.printable import place, printable
from offheap.report.text.width import width

_STYLES: dict[Change, str] = {
    "new": "bold red",
    "grown": "red",
    "shrunk": "green",
    "gone": "bold green",
    "same": "dim",
}
_ORDER: tuple[Change, ...] = ("new", "grown", "shrunk", "gone")
_MARGIN = " " * 8


def print_diff(
    out: Console,
    diff: Diff,
    *,
    top: int = 10,
    everything: bool = False,
    full: bool = False,
    java: Diff | None = None,
) -> None:
    """The change of the whole, the sites that changed beyond chance, and their functions; Java objects apart.

    Shown are the first `top` of each; `everything` adds those that chance explains, `full` shows stacks.
    """
    if java:
        out.print(Text("Native memory", "bold underline"))
    _print_changes(out, diff, (headline(diff), hint(diff)), top, everything, full)
    if java:
        out.print()
        out.print(Text("Java heap", "bold underline"))
        _print_changes(out, java, (headline(java, JAVA_OBJECTS), ""), top, everything, full)
    out.print()
    for label, side in (("old", diff.old), ("new", diff.new)):
        out.print(_wrapped(f"{label}  {_side(side)}", "dim"))


def _print_changes(
    out: Console, diff: Diff, words: tuple[str, str], top: int, everything: bool, full: bool
) -> None:
    head, beware = words
    whole = diff.malloc.change
    worse = whole.low > 0 or diff.grows.get("leaks")
    out.print(_wrapped(head, "bold red" if worse else "bold green" if whole.high < 0 else "bold"))
    counts = [f"{diff.changed[change]} {change}" for change in _ORDER if diff.changed.get(change)]
    line = f"Sites: {', '.join(counts) or 'none changed beyond chance'}"
    if diff.by_chance:
        line += f"; {format_count(diff.by_chance)} within what chance explains"
        line += "" if everything else " (--all shows them)"
    out.print(_wrapped(f"{line}.", ""))
    if beware:
        out.print(_wrapped(beware, "yellow"))

    sites = [site for site in diff.sites if everything or site.significant]
    for site in sites[:top]:
        out.print()
        out.print(_figures(diff, site.change, site.significant, site.live_bytes))
        made = class_of(site.stack)
        kind = f"new {made}" if made else "mmap" if site.kind == "mmap" else ""
        out.print(_named(through(site.stack, site.blamed), site.blamed, kind))
        if site.growth and site.growth.change:
            out.print(
                Text(f"{_MARGIN}{grows_text(diff, site.growth)}", "bold red" if leaks_now(site) else "")
            )
        if full:
            for frame in site.stack:
                line = f"{_MARGIN}  {wording.kind(frame):<7} {short(frame)}"
                out.print(Text(printable(f"{line}  {place(frame)}".rstrip()), "dim"))
    _print_more(out, len(sites), top, "site")

    functions = [function for function in diff.functions if everything or function.significant]
    if functions:
        out.print()
        out.print(Text("Functions, with all that they call", "bold"))
        for function in functions[:top]:
            out.print(_figures(diff, function.change, function.significant, function.live_bytes))
            out.print(_named(short(function.function), function.function, "", function.others))
        _print_more(out, len(functions), top, "function")


def _figures(diff: Diff, change: Change, significant: bool, live: Difference) -> Text:
    line = Text(
        f"{change if change == 'same' else change.upper():<8}", _STYLES[change] if significant else "dim"
    )
    line.append(f"{_signed(diff, live.change.estimate):>12}", "bold" if significant else "")
    if live.change.low != live.change.high:
        line.append(f" ({_signed(diff, live.change.low)} to {_signed(diff, live.change.high)})", "dim")
    line.append(f"  {_amount(diff, live.old.estimate)} -> {_amount(diff, live.new.estimate)}")
    return line


def _named(name: str, blamed: Frame, kind: str, others: int = 0) -> Text:
    line = Text(f"{_MARGIN}{printable(name)}")
    where = printable(place(blamed))
    if where:
        line.append(f"  {where}", "dim")
    if kind:
        line.append(f"  {printable(kind)}", "dim")
    if others:
        line.append(f"  and {others} in the same stacks", "dim")
    return line


def _print_more(out: Console, count: int, top: int, what: str) -> None:
    if count > top:
        out.print(Text(f"{_MARGIN}{count - top} more {what}{'s'[: count - top > 1]} (--top N)", "dim"))


def _side(side: Side) -> str:
    info = side.info
    java = f"Java {info.java_version}" if info.java_version else "no JVM"
    main_class = [info.main_class] if info.main_class else []
    parts = [info.path, f"pid {info.pid}", java, *main_class, wording.sampling(info)]
    when = "at" if side.time is not None else "for"
    return printable(f"{', '.join(parts)}, {when} {format_duration(side.seconds)}")


def _wrapped(text: str, style: str) -> Text:
    return Text(
        "\n".join(wrap(printable(text), width(), break_long_words=False, break_on_hyphens=False)), style
    )
