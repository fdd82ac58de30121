"""The call tree of what is live."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from offheap.analysis.totals.stats import Stats
from offheap.analysis.totals.tree import Node, Tree
from offheap.quantities import format_size
from offheap.report.terminal.recording.fields import print_recording, print_wrapped
from offheap.report.terminal.recording.stack import frame_pieces
from offheap.report.text import wording
from offheap.report.text.lines import put


def print_tree(
    out: Console, native: Tree | None, stats: Stats, *, full: bool = False, java: Tree | None = None
) -> None:
    """The call trees, of native memory and of the Java heap; a chain of single callers is not indented."""
    if native:
        _print_native(out, native, full)
    if java:
        _print_java(out, java, full)
    print_recording(out, stats)


def _print_native(out: Console, result: Tree, full: bool) -> None:
    print_wrapped(out, f"Live, callers first: {wording.live(result.live)}", "bold")
    _print_nodes(out, result.roots, full)
    of = "of malloc's or of mapped bytes" if result.live.mappings.high else "of live bytes"
    put(out, (f"below {result.least_share:.2%} {of}: not shown (--least)", "dim"))
    put(out)


def _print_java(out: Console, result: Tree, full: bool) -> None:
    live = wording.in_blocks(result.live.malloc_bytes, result.live.malloc_blocks, "objects")
    print_wrapped(out, f"Java heap, callers first: {live} survived the last collection", "bold")
    _print_nodes(out, result.roots, full)
    put(out, (f"below {result.least_share:.2%} of live bytes: not shown (--least)", "dim"))
    put(out)


def _print_nodes(out: Console, roots: Sequence[Node], full: bool) -> None:
    pending: list[tuple[Node, int]] = [(node, 0) for node in reversed(roots)]
    while pending:
        node, depth = pending.pop()
        figures = f"{format_size(node.malloc_bytes or node.mapped_bytes):>10} {node.share:>6.1%}  "
        more = f"  and {format_size(node.mapped_bytes)} mmap" if node.mapped_bytes else ""
        mapped = (more if node.malloc_bytes else "  mmap", "dim")
        put(out, figures, ("| " * min(depth, 20), "dim"), *frame_pieces(node.frame, full), mapped)
        deeper = depth + (len(node.children) > 1)
        pending += [(child, deeper) for child in reversed(node.children)]
