"""The Java heap's growth by class, for people."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from offheap.analysis.owners.heap_growth import HeapGrowth
from offheap.quantities import format_duration, format_size
from offheap.report.text.printable import printable

_MOST = 12


def print_growth(out: Console, found: HeapGrowth, pid: int) -> None:
    """The classes that grew most, direct buffers, and what to do next."""
    sign = "-" if found.growth < 0 else "+"
    out.print()
    out.print(
        Text(
            f"Java heap: {format_size(found.live)} of live objects, {sign}{format_size(abs(found.growth))} "
            f"in {format_duration(found.seconds)}",
            "bold",
        )
    )
    if found.classes:
        out.print(Text(f"{'objects':>12}{'more':>10}{'bytes':>12}{'more':>12}  class", "bold"))
    for one in found.classes[:_MOST]:
        line = f"{one.instances:>12,}{one.more_instances:>+10,}{format_size(one.bytes):>12}"
        out.print(Text(f"{line}{'+' + format_size(one.more_bytes):>12}  {printable(one.name)}"))
    direct = found.direct
    text = f"direct buffers: {direct.buffers:,} objects, {direct.owning:,} own memory"
    if direct.bytes is not None:
        text += f"; with Unsafe and FFM {format_size(direct.bytes)} in {direct.blocks:,} blocks"
    out.print(text)
    out.print(found.why)
    if found.dump:
        out.print(f"  jcmd {pid} GC.heap_dump /tmp/heap.hprof    then open it with Eclipse MAT or VisualVM")
    out.print(
        Text(f"two full collections and walks of the heap took the JVM {format_duration(found.pause)}", "dim")
    )
