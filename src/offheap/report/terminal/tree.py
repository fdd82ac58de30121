"""The call tree of what is live."""

from __future__ import annotations

from rich.console import Console

from offheap.analysis.totals.stats import Stats
from offheap.analysis.totals.tree import Node, Tree
from offheap.quantities import format_size
from offheap.report.terminal.fields import print_recording, print_wrapped
from offheap.report.terminal.stack import frame_pieces
from offheap.report.text import wording
from offheap.report.text.lines import put


def print_tree(out: Console, result: Tree, stats: Stats, *, full: bool = False) -> None:
    """The call tree; a chain of single callers is not indented."""
    print_wrapped(out, f"Live, callers first: {wording.live(result.live)}", "bold")
    pending: list[tuple[Node, int]] = [(node, 0) for node in reversed(result.roots)]
    while pending:
        node, depth = pending.pop()
        figures = f"{format_size(node.malloc_bytes or node.mapped_bytes):>10} {node.share:>6.1%}  "
        more = f"  and {format_size(node.mapped_bytes)} mmap" if node.mapped_bytes else ""
        mapped = (more if node.malloc_bytes else "  mmap", "dim")
        put(out, figures, ("| " * min(depth, 20), "dim"), *frame_pieces(node.frame, full), mapped)
        deeper = depth + (len(node.children) > 1)
        pending += [(child, deeper) for child in reversed(node.children)]
    of = "of malloc's or of mapped bytes" if result.live.mappings.high else "of live bytes"
    put(out, (f"below {result.least_share:.2%} {of}: not shown (--least)", "dim"))
    put(out)
    print_recording(out, stats)
