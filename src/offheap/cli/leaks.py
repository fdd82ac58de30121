"""`offheap leaks`: suspects, each with a verdict, a confidence and its stack."""

from __future__ import annotations

import argparse
import itertools
import sys

from offheap.cli.reading import read

_MOST_IN_JSON = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Name the sites whose old blocks survive and whose live bytes grow, the worst first. "
        "Reads a recording, or the live file of a process that is being recorded."
    )
    parser.epilog = """examples:
  offheap leaks app.offheap
  offheap leaks app.offheap --all --full
  offheap leaks app.offheap --json | jq '.suspects[] | select(.verdict == "leak")'
"""
    parser.add_argument("recording", metavar="RECORDING", help="a recording, or a live file")
    parser.add_argument(
        "--top", type=positive, metavar="N", help="at most N suspects (default: 10, with --json 200)"
    )
    parser.add_argument("--all", action="store_true", help="every site, whatever its verdict")
    parser.add_argument("-v", "--full", action="store_true", help="show whole stacks and whole names")
    parser.add_argument("--threads", action="store_true", help="name the threads that allocated")
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.leaks/1)")


def run(args: argparse.Namespace) -> int:
    from offheap.analysis.answer import answer
    from offheap.analysis.leaks import ranking

    recording = read(args.recording)
    found = ranking(recording)
    counts = found.counts()
    suspicious = counts["leak"] + counts["growing"]
    words = answer(recording.info, found[:suspicious], found.live_bytes())
    if args.json:
        from offheap.analysis.totals import live_by_kind
        from offheap.report import json

        listed = itertools.islice(found, args.top) if args.all else found.notable(args.top or _MOST_IN_JSON)
        head = json.leaks(recording.info, words, counts, live_by_kind(recording))
        sys.stdout.writelines(json.stream(head, suspects=map(json.suspect, listed)))
        return 0
    from offheap.analysis.stats import stats
    from offheap.report import terminal

    most = args.top or (len(found) if args.all else 10)
    terminal.print_leaks(
        terminal.console(),
        found[: most if args.all else min(most, suspicious)],
        words,
        stats(recording, found.sites.grouping),
        counts,
        everything=args.all,
        full=args.full,
        threads=args.threads,
    )
    return 0


def positive(text: str) -> int:
    """Argument type of --top."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)
