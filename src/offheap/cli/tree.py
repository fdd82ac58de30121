"""`offheap tree`: live bytes as a tree of callers."""

from __future__ import annotations

import argparse

from offheap.cli.java_heap import java_survivors
from offheap.cli.load import read
from offheap.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show live bytes as a tree of callers, the outermost first, Java and native joined."
    parser.epilog = """examples:
  offheap tree app.offheap
  offheap tree app.offheap --least 5%
  offheap tree app.offheap --java-heap
"""
    parser.add_argument("recording", metavar="RECORDING", help="a recording, or a live file")
    parser.add_argument(
        "--least",
        type=_share,
        default=0.01,
        metavar="SHARE",
        help="leave out functions that hold less than this share of live bytes (default: 1%%)",
    )
    parser.add_argument("-v", "--full", action="store_true", help="show whole names")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--native", action="store_true", help="show native memory alone")
    which.add_argument(
        "--java-heap",
        action="store_true",
        help="show the Java heap alone: objects that survived the last collection",
    )
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.tree/1)")


def run(args: argparse.Namespace) -> int:
    from offheap.analysis.totals.tree import tree

    recording = read(args.recording)
    survivors = None if args.native else java_survivors(recording)
    if args.java_heap and survivors is None:
        raise UserError("the recording has no Java objects", "record with --java-heap, or leave it out")
    java = None if survivors is None else tree(survivors, args.least)
    if args.json:
        from offheap.report.json import schemas

        print(schemas.dumps(schemas.tree(tree(recording, args.least), java)))
        return 0
    from offheap.analysis.totals.stats import stats
    from offheap.report.terminal.console import console
    from offheap.report.terminal.recording.tree import print_tree

    native = None if args.java_heap else tree(recording, args.least)
    print_tree(console(), native, stats(recording), full=args.full, java=java)
    return 0


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share (write 1% or 0.01)")
    return share
