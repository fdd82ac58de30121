"""`offheap stats`: the recorded data, their time, and the losses."""

from __future__ import annotations

import argparse

from offheap.cli.load import read


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show what a recording holds, what it lost, and what it could not see."
    parser.epilog = """examples:
  offheap stats app.offheap
  offheap stats app.offheap --json | jq .recording.lost
"""
    parser.add_argument("recording", metavar="RECORDING", help="a recording, or a live file")
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.stats/1)")


def run(args: argparse.Namespace) -> int:
    from offheap.analysis.totals.stats import stats

    result = stats(read(args.recording))
    if args.json:
        from offheap.report.json import schemas
        from offheap.report.json.java_heap import java_sampling

        print(schemas.dumps(schemas.stats(result, java_sampling(result.info.java_heap))))
        return 0
    from offheap.report.terminal.console import console
    from offheap.report.terminal.recording.stats import print_stats

    print_stats(console(), result)
    return 0
