"""malloc's memory from inside, for people: two sentences, and the tables of `offheap where -v`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from offheap.analysis.native_heap.block_sizes import known_as
from offheap.analysis.native_heap.results import NativeHeap, Trimmed
from offheap.quantities import format_duration, format_size
from offheap.report.text.printable import printable
from offheap.report.text.width import width
from offheap.report.text.wording import plural

_MOST_SIZES, _MOST_ARENAS = 12, 12


def sentences(heap: NativeHeap) -> Iterator[str]:
    """Who has the blocks, and what is kept."""
    whose = "blocks of libraries, not the JVM's" if heap.told_apart else "blocks of the JVM and of libraries"
    most = heap.sizes[0] if heap.sizes else None
    text = f"{heap.external.blocks:,} {whose}: {format_size(heap.external.bytes)}"
    if most:
        known = known_as(most)
        text += (
            f"; the largest: {format_size(most.bytes)} {'is' if most.blocks == 1 else 'are'} "
            f"{plural(most.blocks, 'chunk')} of {most.size:,} bytes" + (f", as {known} are" if known else "")
        )
    yield text
    yield (
        f"{format_size(heap.free_resident)} are free and kept in {plural(len(heap.arenas), 'arena')}; "
        f"trimming gives back {format_size(heap.trimmable)}"
        + (f"; {heap.coverage:.0%} of malloc's memory was walked" if heap.coverage < 1 else "")
    )


def print_tables(out: Console, heap: NativeHeap) -> None:
    """The sizes that hold most, and the arenas that keep most."""
    whose = "libraries' blocks" if heap.told_apart else "all blocks"
    out.print()
    out.print(Text(f"{whose + ' by size':<24}{'blocks':>10}{'bytes':>12}{'in memory':>12}", "bold"))
    for size in heap.sizes[:_MOST_SIZES]:
        known = known_as(size)
        out.print(
            Text(
                f"{f'chunks of {size.size:,}':<24}{size.blocks:>10,}"
                f"{format_size(size.bytes):>12}{format_size(size.resident):>12}"
                + (f"  {known.partition(' (')[0]}" if known else "")
            )
        )
    left = heap.smaller_sums(_MOST_SIZES)
    if left.count:
        figures = f"{left.blocks:>10,}{format_size(left.bytes):>12}{format_size(left.resident):>12}"
        out.print(Text(f"{f'{left.count:,} other sizes':<24}{figures}"))
    out.print()
    heads = f"{'size':>12}{'free':>12}{'kept':>12}{'trimmable':>12}"
    out.print(Text(f"{'arena':<24}{heads}", "bold"))
    for arena in heap.arenas[:_MOST_ARENAS]:
        sizes = (arena.size, arena.free, arena.free_resident, arena.trimmable)
        out.print(Text(f"{arena.name:<24}" + "".join(f"{format_size(size):>12}" for size in sizes)))
    if len(heap.arenas) > _MOST_ARENAS:
        out.print(Text(f"and {len(heap.arenas) - _MOST_ARENAS} more (--json has them all)", "dim"))
    print_remedies(out, heap)


def print_remedies(out: Console, heap: NativeHeap) -> None:
    """What would return malloc's free memory to the system."""
    out.print()
    out.print(Text("what would give it back", "bold"))
    for remedy in heap.remedies:
        bound = "at most " if remedy.at_most else ""
        out.print(Text(f"{bound + format_size(remedy.bytes):>18}  {remedy.name}"))
        for line in textwrap.wrap(remedy.why, width() - 20, break_long_words=False, break_on_hyphens=False):
            out.print(Text(f"{'':20}{line}", "dim"))


def print_trim(out: Console, trimmed: Trimmed) -> None:
    """Before and after, and what is still kept by which arena."""
    out.print(Text(f"trimmed {printable(trimmed.name)} (pid {trimmed.pid}) by {trimmed.how}", "bold"))
    out.print()
    rows = [("RSS", trimmed.rss_before, trimmed.rss_after)]
    if trimmed.before and trimmed.after:
        rows.append(("free, kept by malloc", trimmed.before.free_resident, trimmed.after.free_resident))
        rows.append(("of that on whole pages", trimmed.before.trimmable, trimmed.after.trimmable))
    out.print(Text(f"{'':<24}{'before':>12}{'after':>12}{'change':>12}", "bold"))
    for name, before, after in rows:
        change = f"{'-' if after < before else '+'}{format_size(abs(after - before))}"
        out.print(Text(f"{name:<24}{format_size(before):>12}{format_size(after):>12}{change:>12}"))
    out.print()
    if trimmed.before and trimmed.after:
        out.print("What is still kept shares its pages with blocks in use, or lies behind them.")
    else:
        out.print("What malloc keeps cannot be told: run offheap as root, or with CAP_SYS_PTRACE.")
    out.print(f"It took {format_duration(trimmed.seconds)}; the program went on in the meantime.")
