"""Native Memory Tracking's reports in its own layout (HotSpot's memReporter.cpp), External added."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from offheap.analysis.nmt.results import External, ExternalSite, Tracked
from offheap.jvm.texts.nmt import Category
from offheap.report.text.printable import printable

UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_INDENT = " " * 28
# What follows the categories: sites and maps in detail.
_AFTER = re.compile(r"^(?:Details:|Virtual memory map:|Memory file details)", re.MULTILINE)


def amount(size: int, scale: str) -> str:
    """As HotSpot writes it: rounded to the nearest, bytes without a unit."""
    unit = UNITS[scale]
    return f"{(size + unit // 2) // unit}{scale if unit > 1 else ''}"


def report(tracked: Tracked, scale: str, *, detail: bool = False) -> str:
    """The JVM's text as it is, with External behind its last category; of a recording External alone."""
    external = tracked.external
    lines = [*category(external.category, scale), *_retained(external, scale)]
    if not tracked.text:
        own = external.category
        total = f"Total: reserved={amount(own.reserved, scale)}, committed={amount(own.committed, scale)}"
        sites = _sites(external.sites, scale) if detail else ()
        return "\n".join(
            ["", "Native Memory Tracking:", "", total, "", *lines, *sites, *_notes(external), ""]
        )
    lines += [f"{_INDENT}(beyond the Total, which is the JVM's own)", *_notes(external)]
    text = "\n".join(map(_harmless, tracked.text.rstrip().split("\n"))) + "\n"
    match = _AFTER.search(text)
    at = match.start() if match else len(text)
    added = "\n".join(lines)
    return f"{text[:at].rstrip()}\n\n{added}\n\n{text[at:]}".rstrip() + "\n"


def _harmless(line: str) -> str:
    """A line of the JVM's, who names libraries, or of who poses as one; it sets tabs itself."""
    return "\t".join(map(printable, line.split("\t")))


def diff(before: Tracked, after: Tracked, scale: str) -> str:
    """As `VM.native_memory summary.diff`: what is now, and by how much it changed."""
    reserved = _changed(before.reserved, after.reserved, scale)
    committed = _changed(before.committed, after.committed, scale)
    lines = ["", "Native Memory Tracking:", "", f"Total: reserved={reserved}, committed={committed}"]
    for pair in _pairs(before, after):
        if any(amount(one.reserved, scale)[0] != "0" for one in pair):
            lines += ["", *category_diff(*pair, scale)]
    lines += ["", *category_diff(before.external.category, after.external.category, scale)]
    return "\n".join([*lines, *_notes(after.external), ""])


def category(one: Category, scale: str) -> Iterator[str]:
    """The lines of a category, as JDK 25 prints them."""
    yield _head(one.name, amount(one.reserved, scale), amount(one.committed, scale))
    if one.malloc:
        peak = ""
        if one.malloc_peak is not None and one.malloc_peak_count is not None:
            most = f" (peak={amount(one.malloc_peak, scale)} #{one.malloc_peak_count})"
            peak = " (at peak)" if one.malloc_peak <= one.malloc else most
        yield f"{_INDENT}(malloc={amount(one.malloc, scale)} tag={one.name} #{one.malloc_count}){peak}"
    if one.mmap_reserved:
        sizes = amount(one.mmap_reserved, scale), amount(one.mmap_committed, scale)
        yield f"{_INDENT}(mmap: reserved={sizes[0]}, committed={sizes[1]})"


def category_diff(old: Category, new: Category, scale: str) -> Iterator[str]:
    """The same with changes behind the values; what did not change has none."""
    yield _head(
        new.name,
        _changed(old.reserved, new.reserved, scale),
        _changed(old.committed, new.committed, scale),
    )
    if old.malloc or new.malloc:
        count = f"#{new.malloc_count}" + _sign(new.malloc_count - old.malloc_count)
        yield f"{_INDENT}(malloc={_changed(old.malloc, new.malloc, scale)} {count})"
    if old.mmap_reserved or new.mmap_reserved:
        reserved = _changed(old.mmap_reserved, new.mmap_reserved, scale)
        committed = _changed(old.mmap_committed, new.mmap_committed, scale)
        kind = "stack" if new.name == "Thread" else "mmap"
        yield f"{_INDENT}({kind}: reserved={reserved}, committed={committed})"
    if old.arena or new.arena:
        yield f"{_INDENT}(arena={_changed(old.arena, new.arena, scale)})"
    if old.overhead or new.overhead:
        yield f"{_INDENT}(tracking overhead={_changed(old.overhead, new.overhead, scale)})"


def _head(name: str, reserved: str, committed: str) -> str:
    return f"-{printable(name):>26} (reserved={reserved}, committed={committed})"


def _pairs(before: Tracked, after: Tracked) -> Iterator[tuple[Category, Category]]:
    for name in dict.fromkeys([*after.categories, *before.categories]):
        none = Category(name)
        yield before.categories.get(name, none), after.categories.get(name, none)


def _changed(old: int, new: int, scale: str) -> str:
    unit = UNITS[scale]
    # HotSpot rounds both and subtracts, so that what is shown adds up.
    change = (new + unit // 2) // unit - (old + unit // 2) // unit
    return amount(new, scale) + (_sign(change) + (scale if unit > 1 else "") if change else "")


def _sign(change: int) -> str:
    return f" {change:+d}" if change else ""


def _retained(external: External, scale: str) -> Iterator[str]:
    if external.retained is not None:
        yield f"{_INDENT}(beside it free and kept by malloc={amount(external.retained, scale)})"


def _sites(sites: Iterable[ExternalSite], scale: str) -> Iterator[str]:
    yield from ("", "Details:")
    for site in sites:
        yield ""
        yield from (f"[{printable(name)}]" for name in site.frames)
        kind = "malloc" if site.kind == "malloc" else "mmap: reserved"
        yield f"{_INDENT} ({kind}={amount(site.bytes, scale)} tag=External #{site.blocks})"


def _notes(external: External) -> Iterator[str]:
    yield from (f"({sentence})" for sentence in external.missing)
