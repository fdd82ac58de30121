"""`offheap leaks`: suspects, each with a verdict, a confidence and its stack."""

from __future__ import annotations

import argparse

from offheap.cli.reading import read


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
    parser.add_argument("--top", type=positive, metavar="N", help="show at most N suspects (default: 10)")
    parser.add_argument("--all", action="store_true", help="show every site, whatever its verdict")
    parser.add_argument("-v", "--full", action="store_true", help="show whole stacks and whole names")
    parser.add_argument("--threads", action="store_true", help="name the threads that allocated")
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.leaks/1), every site")


def run(args: argparse.Namespace) -> int:
    from offheap.analysis.answer import answer
    from offheap.analysis.leaks import suspects

    recording = read(args.recording)
    found = suspects(recording)
    words = answer(recording.info, found)
    if args.json:
        from offheap.report import json

        print(json.dumps(json.leaks(recording.info, found[: args.top], words)))
        return 0
    from offheap.analysis.stats import stats
    from offheap.report import terminal

    terminal.print_leaks(
        terminal.console(),
        found,
        words,
        stats(recording),
        top=args.top or (len(found) if args.all else 10),
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
