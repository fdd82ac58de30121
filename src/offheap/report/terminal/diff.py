"""What changed, for people at a terminal of 80 columns and as JSON."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from rich.console import Console
from rich.text import Text

from offheap.analysis.diff.results import Change, Diff, Difference, Growth, GrowthChange, Side, SiteChange
from offheap.analysis.stacks.blame import short, through
from offheap.quantities import PER_SECOND, format_count, format_duration, format_size
from offheap.recording.model import Frame
from offheap.report.json import schemas
from offheap.report.text import wording
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
_GROWS: tuple[GrowthChange, ...] = ("leaks", "leaks no more", "faster", "slower")
_MARGIN = " " * 8


def print_diff(
    out: Console, diff: Diff, *, top: int = 10, everything: bool = False, full: bool = False
) -> None:
    """The change of the whole, the sites that changed beyond chance, and their functions.

    Shown are the first `top` of each; `everything` adds those that chance explains, `full` shows stacks.
    """
    whole = diff.malloc.change
    worse = whole.low > 0 or diff.grows.get("leaks")
    out.print(_wrapped(headline(diff), "bold red" if worse else "bold green" if whole.high < 0 else "bold"))
    counts = [f"{diff.changed[change]} {change}" for change in _ORDER if diff.changed.get(change)]
    line = f"Sites: {', '.join(counts) or 'none changed beyond chance'}"
    if diff.by_chance:
        line += f"; {format_count(diff.by_chance)} within what chance explains"
        line += "" if everything else " (--all shows them)"
    out.print(_wrapped(f"{line}.", ""))
    beware = hint(diff)
    if beware:
        out.print(_wrapped(beware, "yellow"))

    sites = [site for site in diff.sites if everything or site.significant]
    for site in sites[:top]:
        out.print()
        out.print(_figures(diff, site.change, site.significant, site.live_bytes))
        out.print(_named(through(site.stack, site.blamed), site.blamed, site.kind == "mmap"))
        if site.growth and site.growth.change:
            out.print(
                Text(f"{_MARGIN}{grows_text(diff, site.growth)}", "bold red" if leaks_now(site) else "")
            )
        if full:
            for frame in site.stack:
                line = f"{_MARGIN}  {frame.kind:<7} {short(frame)}"
                out.print(Text(printable(f"{line}  {place(frame)}".rstrip()), "dim"))
    _print_more(out, len(sites), top, "site")

    functions = [function for function in diff.functions if everything or function.significant]
    if functions:
        out.print()
        out.print(Text("Functions, with all that they call", "bold"))
        for function in functions[:top]:
            out.print(_figures(diff, function.change, function.significant, function.live_bytes))
            out.print(_named(short(function.function), function.function, False, function.others))
        _print_more(out, len(functions), top, "function")
    out.print()
    for label, side in (("old", diff.old), ("new", diff.new)):
        out.print(_wrapped(f"{label}  {_side(side)}", "dim"))


def value(diff: Diff) -> dict[str, Any]:
    """offheap.diff/1."""
    return {
        "schema": "offheap.diff/1",
        "old": _side_value(diff.old),
        "new": _side_value(diff.new),
        "per": diff.unit or None,
        "live_bytes": _difference(diff.live_bytes),
        "malloc_bytes": _difference(diff.malloc),
        "mapped_bytes": _difference(diff.mapped),
        "grows": {kind: diff.grows.get(kind, 0) for kind in _GROWS},
        "changed": {change: diff.changed.get(change, 0) for change in _ORDER},
        "within_chance": diff.by_chance,
        "sites": [
            {
                "rank": site.rank,
                "change": site.change,
                "significant": site.significant,
                "kind": site.kind,
                "live_bytes": _difference(site.live_bytes),
                "live_blocks": _difference(site.live_blocks),
                "allocated_bytes": _difference(site.allocated_bytes),
                "growth": _growth(site.growth),
                "blamed": schemas.frame(site.blamed),
                "stack": [schemas.frame(frame) for frame in site.stack],
            }
            for site in diff.sites
        ],
        "functions": [
            {
                "rank": function.rank,
                "change": function.change,
                "significant": function.significant,
                "function": schemas.frame(function.function),
                "others": function.others,
                "live_bytes": _difference(function.live_bytes),
            }
            for function in diff.functions
        ],
    }


def leaks_now(site: SiteChange) -> bool:
    """Whether it leaks in NEW alone."""
    return site.growth is not None and site.growth.change == "leaks"


def headline(diff: Diff) -> str:
    """What leaks in NEW alone, then the changes of malloc's blocks and of mappings, with their intervals."""
    sentences = []
    leaks, cured = diff.grows.get("leaks", 0), diff.grows.get("leaks no more", 0)
    if leaks:
        sentences.append(f"{_count(leaks)} in NEW and not in OLD.")
    if cured:
        sentences.append(f"{_count(cured)} in OLD and no longer in NEW.")
    sentences.append(_whole(diff, "Live malloc memory", diff.malloc))
    if diff.mapped.old.estimate or diff.mapped.new.estimate:
        sentences.append(_whole(diff, "Mapped address space", diff.mapped))
    return " ".join(sentences)


def grows_text(diff: Diff, growth: Growth) -> str:
    """How a site grows in both, and how surely otherwise: a line below its figures."""
    what: dict[GrowthChange, str] = {
        "leaks": "leaks in NEW, not in OLD",
        "leaks no more": "leaks in OLD, not in NEW",
        "faster": "grows faster in NEW",
        "slower": "grows slower in NEW",
        "": "growth",
    }
    rate = growth.rate
    change = f"{_per(diff, rate.change.low, True)} to {_per(diff, rate.change.high, True)}"
    sides = f"{_per(diff, rate.old.estimate)} -> {_per(diff, rate.new.estimate)}"
    return f"{what[growth.change]}: {sides} ({change})"


def _count(sites: int) -> str:
    return "1 site leaks" if sites == 1 else f"{sites} sites leak"


def _whole(diff: Diff, what: str, whole: Difference) -> str:
    change = whole.change
    per = " per request" if diff.unit == "request" else ""
    states = f"{_amount(diff, whole.old.estimate)} -> {_amount(diff, whole.new.estimate)}"
    if change.low <= 0 <= change.high:
        interval = f"{_signed(diff, change.low)} to {_signed(diff, change.high)}"
        return f"{what}{per}: no change beyond chance ({interval}): {states}."
    verb = "grew" if change.estimate > 0 else "shrank"
    signs = (change.low, change.high) if change.estimate > 0 else (-change.high, -change.low)
    amount = f"{_change(diff, abs(change.estimate))} ({_change(diff, signs[0])} to {_change(diff, signs[1])})"
    return f"{what}{per} {verb} by {amount}: {states}."


def _per(diff: Diff, rate: float, signed: bool = False) -> str:
    """A rate of growth: by request where the diff is by request, else by second."""
    plus = "+" if signed and rate > 0 else ""
    if diff.unit == "request":
        return f"{plus}{format_size(rate)} a request"
    return f"{plus}{PER_SECOND.format(rate)}"


def hint(diff: Diff) -> str:
    """What to beware of in these figures, or nothing."""
    old, new = diff.old, diff.new
    if diff.unit or old.time is not None or 0.9 < old.seconds / max(new.seconds, 1e-3) < 1.1:
        return ""
    return (
        f"OLD was recorded for {format_duration(old.seconds)}, NEW for {format_duration(new.seconds)}: "
        "--per second compares what they hold by second."
    )


def _figures(diff: Diff, change: Change, significant: bool, live: Difference) -> Text:
    line = Text(
        f"{change if change == 'same' else change.upper():<8}", _STYLES[change] if significant else "dim"
    )
    line.append(f"{_signed(diff, live.change.estimate):>12}", "bold" if significant else "")
    if live.change.low != live.change.high:
        line.append(f" ({_signed(diff, live.change.low)} to {_signed(diff, live.change.high)})", "dim")
    line.append(f"  {_amount(diff, live.old.estimate)} -> {_amount(diff, live.new.estimate)}")
    return line


def _named(name: str, blamed: Frame, mapped: bool, others: int = 0) -> Text:
    line = Text(f"{_MARGIN}{printable(name)}")
    where = printable(place(blamed))
    if where:
        line.append(f"  {where}", "dim")
    if mapped:
        line.append("  mmap", "dim")
    if others:
        line.append(f"  and {others} in the same stacks", "dim")
    return line


def _print_more(out: Console, count: int, top: int, what: str) -> None:
    if count > top:
        out.print(Text(f"{_MARGIN}{count - top} more {what}{'s'[: count - top > 1]} (--top N)", "dim"))


def _signed(diff: Diff, amount: float) -> str:
    return f"{'+' if amount > 0 else ''}{_change(diff, amount)}"


def _change(diff: Diff, amount: float) -> str:
    return PER_SECOND.format(amount) if diff.unit == "second" else format_size(amount)


def _amount(diff: Diff, amount: float) -> str:
    """OLD or NEW: what is live at a moment is not divided by anything."""
    return _change(diff, amount) if diff.old.time is None else format_size(amount)


def _side(side: Side) -> str:
    info = side.info
    java = f"Java {info.java_version}" if info.java_version else "no JVM"
    main_class = [info.main_class] if info.main_class else []
    parts = [info.path, f"pid {info.pid}", java, *main_class, wording.sampling(info)]
    when = "at" if side.time is not None else "for"
    return printable(f"{', '.join(parts)}, {when} {format_duration(side.seconds)}")


def _side_value(side: Side) -> dict[str, Any]:
    return {"time": side.time, "seconds": round(side.seconds, 3), "recording": schemas.recording(side.info)}


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "old": schemas.quantity(difference.old, 3),
        "new": schemas.quantity(difference.new, 3),
        "change": schemas.quantity(difference.change, 3),
    }


def _growth(growth: Growth | None) -> dict[str, Any] | None:
    if growth is None:
        return None
    return {
        "change": growth.change or None,
        "verdicts": {"old": growth.old, "new": growth.new},
        "bytes": _difference(growth.rate),
    }


def _wrapped(text: str, style: str) -> Text:
    return Text(
        "\n".join(wrap(printable(text), width(), break_long_words=False, break_on_hyphens=False)), style
    )
