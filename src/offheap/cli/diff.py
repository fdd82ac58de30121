"""`offheap diff`: the changes between two recordings, or between two times of one."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from offheap.cli.leaks import positive
from offheap.cli.load import add_application, read
from offheap.errors import UserError
from offheap.quantities import parse_duration

_MOST_SHOWN = 10
_MOST_IN_JSON = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Compare what two recordings hold at their ends, or one recording at two times: the sites and "
        "functions that are new, grown, shrunk or gone, each change with its 95 % interval, those beyond "
        "chance first.  Recordings of different builds match by the names of functions, not by lines."
    )
    parser.epilog = """examples:
  offheap diff release-1.offheap release-2.offheap
  offheap diff short.offheap long.offheap --per second
  offheap diff old.offheap new.offheap --per 120000,95000  requests served
  offheap diff app.offheap --from 5m --to 50m
  offheap diff old.offheap new.offheap -o diff.html        with a flame graph
"""
    parser.add_argument("old", metavar="OLD", help="a recording, or a live file")
    parser.add_argument(
        "new", metavar="NEW", nargs="?", help="another one (default: OLD itself, at two times)"
    )
    parser.add_argument(
        "--from",
        dest="start",
        type=parse_duration,
        metavar="TIME",
        help="first of two times of OLD, counted from its start",
    )
    parser.add_argument(
        "--to",
        dest="end",
        type=parse_duration,
        metavar="TIME",
        help="second of two times of OLD (default: its end)",
    )
    parser.add_argument(
        "--per",
        type=divisors,
        metavar="UNIT",
        help="compare by time (`second`) or by requests served (`OLD,NEW`)",
    )
    parser.add_argument(
        "--top", type=positive, metavar="N", help=f"show at most N of each (default: {_MOST_SHOWN})"
    )
    add_application(parser)
    parser.add_argument("--all", action="store_true", help="show changes that chance explains, too")
    parser.add_argument("-v", "--full", action="store_true", help="show whole stacks")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="write one HTML file with the sites and a differential flame graph",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help=f"print JSON (schema offheap.diff/1), at most {_MOST_IN_JSON} of each unless --top or --all",
    )


def run(args: argparse.Namespace) -> int:
    from offheap.analysis.diff.diff import diff, diff_in_time
    from offheap.analysis.diff.java_heap import java_diff, java_diff_in_time

    per_second = args.per == "second"
    requests = None if per_second else args.per
    if args.output and args.json:
        raise UserError("--json prints the diff and -o writes it as a page", "leave one of them out")
    page = args.output is not None
    if page:
        from offheap.recording.storage.output_name import refuse_other_format
        from offheap.report.html.page import MARK
        from offheap.report.text.output import check

        refuse_other_format(args.output, (".html", ".htm"), "a diff is written as HTML: name it .html")
        check(args.output, MARK)
    most = None if args.all and not args.top else args.top or _MOST_IN_JSON
    if args.new is None:
        if args.start is None:
            raise UserError(
                "one recording is given, and no time to compare it with",
                "give a second recording, or --from TIME",
            )
        if requests:
            raise UserError("--per OLD,NEW needs two recordings", "use --per second with --from and --to")
        recording = read(args.old, args.app)
        result = diff_in_time(recording, args.start, args.end, per_second=per_second, most=most, stacks=page)
        java = java_diff_in_time(
            recording, args.start, args.end, per_second=per_second, most=most, stacks=page
        )
    else:
        if args.start is not None or args.end is not None:
            raise UserError(
                "--from and --to compare two times of one recording, and two recordings are given",
                "leave NEW out, or the times",
            )
        old = read(args.old, args.app)
        new = read(args.new, args.app, beside=args.old)
        result = diff(old, new, per_second=per_second, requests=requests, most=most, stacks=page)
        java = java_diff(old, new, per_second=per_second, requests=requests, most=most, stacks=page)
    if page:
        from offheap.quantities import format_size
        from offheap.report.html import page as html
        from offheap.report.text.printable import printable

        size = html.write_diff(result, args.output, java)
        print(f"wrote {printable(str(args.output))} ({format_size(size)}): open it in a browser")
        return 0
    from offheap.report.json.diff import diff_json
    from offheap.report.terminal.recording import diff as report

    if args.json:
        from offheap.report.json import schemas

        print(schemas.dumps(diff_json(result, java)))
        return 0
    from offheap.report.terminal.console import console

    report.print_diff(
        console(), result, top=args.top or _MOST_SHOWN, everything=args.all, full=args.full, java=java
    )
    return 0


def divisors(text: str) -> str | tuple[float, float]:
    """Argument type of --per."""
    if text == "second":
        return text
    try:
        old, new = map(float, text.split(","))
        if not (0 < old < math.inf and 0 < new < math.inf):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither `second` nor two numbers above zero, such as 120000,95000"
        ) from None
    return old, new
