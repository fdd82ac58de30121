"""`offheap leaks`: suspects, each with a verdict, a confidence and its stack."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from dataclasses import replace
from pathlib import Path

from offheap.cli.java_heap import add_java_heap, java_heap
from offheap.cli.load import add_application, read
from offheap.cli.say import say
from offheap.errors import UserError
from offheap.quantities import parse_size

_MOST_SHOWN = 10
_MOST_IN_JSON = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Name the sites whose old blocks survive and whose live bytes grow, the worst first. "
        "Reads a recording, or the live file of a process that is being recorded."
    )
    parser.epilog = """examples:
  offheap leaks app.offheap
  offheap leaks app.offheap --all --full
  offheap leaks app.offheap --limit 2GiB           when will 2 GiB be full?
  offheap leaks app.offheap --json | jq '.suspects[] | {verdict, why}'
"""
    parser.add_argument("recording", metavar="RECORDING", help="a recording, or a live file")
    parser.add_argument(
        "--top",
        type=positive,
        metavar="N",
        help=f"show at most N suspects (default {_MOST_SHOWN}; {_MOST_IN_JSON} with --json)",
    )
    parser.add_argument("--all", action="store_true", help="show every site, whatever its verdict")
    parser.add_argument("-v", "--full", action="store_true", help="show whole stacks and whole names")
    parser.add_argument("--threads", action="store_true", help="name the threads that allocated")
    parser.add_argument(
        "--limit",
        type=parse_size,
        metavar="SIZE",
        help="say when the leaks fill SIZE of memory (default: the container's limit)",
    )
    add_application(parser)
    parser.add_argument(
        "--gc",
        action="store_true",
        help="with a live file: run a full garbage collection in the JVM and judge what survives it",
    )
    add_java_heap(parser)
    parser.add_argument(
        "--classes",
        type=positive,
        metavar="N",
        help="show the N classes of the Java heap that hold most (default 5; all with --json)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.leaks/1)")


def run(args: argparse.Namespace) -> int:
    from offheap.analysis.java_heap.conclusion import compared
    from offheap.analysis.leaks.answer import answer
    from offheap.analysis.leaks.conclusion import conclude
    from offheap.analysis.leaks.leaks import ranking
    from offheap.analysis.leaks.rss_beside_leak import rss_note

    if args.limit == 0:
        raise UserError("--limit must be greater than 0", "give a size such as 2GiB")
    survived = args.gc and _collected(args.recording)
    recording = read(args.recording, args.app)
    if survived:
        recording = replace(recording, info=replace(recording.info, after_collection=True))
    found = ranking(recording, args.limit)
    counts = found.counts()
    suspicious = counts["leak"] + counts["growing"]
    words, note = answer(found), rss_note(recording, found)
    java = java_heap(recording, args.scale_to_heap)
    if args.json:
        from offheap.analysis.totals.totals import live_by_kind
        from offheap.report.json import schemas
        from offheap.report.json.java_heap import java_leaks

        listed = itertools.islice(found, args.top) if args.all else found.notable(args.top or _MOST_IN_JSON)
        limit = found.room.limit_bytes if found.room else None
        concluded = conclude(found)
        head = schemas.leaks(
            recording.info,
            words,
            concluded,
            counts,
            live_by_kind(recording),
            limit,
            found.seconds_to_limit(),
            note,
            java_leaks(java, args.classes, None if args.all and not args.top else args.top or _MOST_IN_JSON)
            if java
            else None,
        )
        sys.stdout.writelines(schemas.stream(head, suspects=schemas.suspects(listed)))
        return 0
    from offheap.analysis.stacks.namesakes import apart
    from offheap.analysis.totals.stats import stats
    from offheap.report.terminal.console import console
    from offheap.report.terminal.recording.leaks import print_leaks
    from offheap.report.text.java_heap import CLASSES

    most = args.top or (len(found) if args.all else _MOST_SHOWN)
    shown = found[: most if args.all else min(most, suspicious)]
    print_leaks(
        console(),
        shown,
        words,
        stats(recording, found.sites.grouping),
        counts,
        found.rate_unit,
        everything=args.all,
        full=args.full,
        threads=args.threads,
        namesakes=apart([one.site for one in shown], [one.blamed for one in shown]),
        note=note,
        java=java,
        compared=compared(conclude(found).kind, java) if java else "",
        top=args.top or (len(java.suspects) if java and args.all else _MOST_SHOWN),
        classes=args.classes or CLASSES,
    )
    return 0


def _collected(path: str) -> bool:
    """Whether the process that writes this live file has collected its garbage for this command."""
    from offheap.launch.ending import collect
    from offheap.probe.live_files.live_file import LiveFile
    from offheap.probe.live_files.recorded_process import find

    mend = "give the live file of one that is, or record with `offheap attach --gc`"
    if os.path.isdir(path):
        raise UserError(f"--gc: {path} is not the live file of a recorded process", mend)
    with LiveFile(Path(path)) as live_file:
        pid = find(live_file.header)
    if pid is None:
        raise UserError(f"--gc: the process of {path} has ended", mend)
    return collect(pid, say)


def positive(text: str) -> int:
    """Argument type of --top."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)
