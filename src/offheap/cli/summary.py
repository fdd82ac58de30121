"""`offheap summary`: live bytes by allocating site."""

from __future__ import annotations

import argparse

from offheap.cli.java_heap import add_java_heap, java_heap
from offheap.cli.leaks import positive
from offheap.cli.load import add_application, read

_MOST_SHOWN = 20  # sites, about a screen


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show the sites that hold live memory, the largest first."
    parser.epilog = """examples:
  offheap summary app.offheap
  offheap summary app.offheap --top 5 --full
"""
    parser.add_argument("recording", metavar="RECORDING", help="a recording, or a live file")
    parser.add_argument(
        "--top", type=positive, metavar="N", help=f"show at most N sites (default: {_MOST_SHOWN})"
    )
    parser.add_argument("-v", "--full", action="store_true", help="show each site's whole stack")
    add_application(parser)
    add_java_heap(parser)
    parser.add_argument(
        "--json", action="store_true", help="print JSON (schema offheap.summary/1), every site"
    )


def run(args: argparse.Namespace) -> int:
    from offheap.analysis.totals.summary import summary

    recording = read(args.recording, args.app)
    result, java = summary(recording), java_heap(recording, args.scale_to_heap)
    if args.json:
        from offheap.report.json import schemas
        from offheap.report.json.java_heap import java_summary

        print(
            schemas.dumps(schemas.summary(result, args.top, java_summary(java, args.top) if java else None))
        )
        return 0
    from offheap.analysis.totals.stats import stats
    from offheap.report.terminal.console import console
    from offheap.report.terminal.recording.summary import print_summary

    print_summary(console(), result, stats(recording), top=args.top or _MOST_SHOWN, full=args.full, java=java)
    return 0
