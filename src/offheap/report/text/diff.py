"""What a diff says in words, on a terminal and on the page."""

from __future__ import annotations

from offheap.analysis.diff.results import Diff, Difference, Growth, GrowthChange, SiteChange
from offheap.quantities import PER_SECOND, format_duration, format_size

JAVA_OBJECTS = "Live Java objects"  # for `headline`, of a diff of Java heaps


def leaks_now(site: SiteChange) -> bool:
    """Whether it leaks in NEW alone."""
    return site.growth is not None and site.growth.change == "leaks"


def headline(diff: Diff, what: str = "Live malloc memory") -> str:
    """What leaks in NEW alone, then the changes of blocks (`what`) and of mappings, with their intervals."""
    sentences = []
    leaks, cured = diff.grows.get("leaks", 0), diff.grows.get("leaks no more", 0)
    if leaks:
        sentences.append(f"{_count(leaks)} in NEW and not in OLD.")
    if cured:
        sentences.append(f"{_count(cured)} in OLD and no longer in NEW.")
    sentences.append(_whole(diff, what, diff.malloc))
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
    if diff.unit or old.time is not None or not diff.lengths_differ:
        return ""
    return (
        f"OLD was recorded for {format_duration(old.seconds)}, NEW for {format_duration(new.seconds)}: "
        "--per second compares what they hold by second."
    )


def _signed(diff: Diff, amount: float) -> str:
    return f"{'+' if amount > 0 else ''}{_change(diff, amount)}"


def _change(diff: Diff, amount: float) -> str:
    return PER_SECOND.format(amount) if diff.unit == "second" else format_size(amount)


def _amount(diff: Diff, amount: float) -> str:
    """OLD or NEW: what is live at a moment is not divided by anything."""
    return _change(diff, amount) if diff.old.time is None else format_size(amount)
