"""`offheap report`: one self-contained HTML file, or a summary fit for a ticket."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from offheap.cli.load import add_application
from offheap.errors import UserError
from offheap.quantities import parse_size

if TYPE_CHECKING:
    from offheap.analysis.leaks.leaks import Ranking
    from offheap.recording.model import Recording

_FORMATS = {
    ".html": "html",
    ".htm": "html",
    ".md": "md",
    ".markdown": "md",
    ".json": "json",
    ".txt": "txt",
    ".svg": "svg",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write one HTML file that shows who leaks, what grew, and where live memory was allocated. "
        "It holds all it needs, so it can be mailed or attached to a ticket, and opens without a network. "
        "As md, txt or json it is a summary of a page: the answer, the suspects, the first three stacks. "
        "As svg it is a picture of live memory by calls, functions as boxes, callers above what they call."
    )
    parser.epilog = (
        "examples:\n"
        "  offheap report app.offheap                     writes app.html\n"
        "  offheap report app.offheap --open              and shows it in the browser\n"
        "  offheap report app.offheap -o leak.md          or .html, .json, .txt\n"
        "  offheap report app.offheap -o calls.svg        the call graph, as a picture\n"
        "  offheap report app.offheap --limit 2GiB        say when 2 GiB will be full\n"
        "  offheap report app.offheap --format md -o - | gh issue create -t leak -F -\n"
    )
    parser.add_argument("recording", metavar="RECORDING", type=Path, help="a recording or a live file")
    parser.add_argument(
        "--format",
        choices=("html", "md", "json", "txt", "svg"),
        help="default: by the suffix of --output, else html",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="where to write, - is standard output; default: the recording's name with the format's suffix",
    )
    parser.add_argument(
        "--limit",
        type=parse_size,
        metavar="SIZE",
        help="say when the leaks fill SIZE of memory (default: the container's limit)",
    )
    add_application(parser)
    parser.add_argument("--open", action="store_true", help="open the HTML file in the browser")
    parser.add_argument("--json", action="store_true", help="print the name and size of the report as JSON")


def run(args: argparse.Namespace) -> int:
    from offheap import recording
    from offheap.analysis.leaks.leaks import ranking
    from offheap.analysis.stacks.packages import with_application
    from offheap.quantities import format_size
    from offheap.recording.allowance import ceiling
    from offheap.recording.storage.output_name import refuse_other_format
    from offheap.report.html.browser import show
    from offheap.report.text.output import check, put
    from offheap.report.text.printable import printable

    to_stdout = args.output is not None and str(args.output) == "-"
    if to_stdout and args.json:
        raise UserError(
            "--json prints the name of the report, and -o - prints the report", "leave one of them out"
        )
    if args.limit == 0:
        raise UserError("--limit must be greater than 0", "give a size such as 2GiB")
    kind = args.format or _by_suffix(None if to_stdout else args.output)
    if args.open and (kind != "html" or to_stdout):
        raise UserError("--open shows an HTML file in the browser", "leave it out, or write a .html")
    output = args.output or Path(f"{args.recording.resolve().stem}.{kind}")
    if not to_stdout:
        endings = [ending for ending, its in _FORMATS.items() if its == kind]
        refuse_other_format(
            output, endings, "name a file .html, .md, .json, .txt or .svg, the formats of a report"
        )
        check(output)
    with ceiling(args.recording):
        loaded = recording.load(args.recording)
    loaded = with_application(loaded, args.app or ())
    ranked = ranking(loaded, args.limit)
    text, mark = _written(kind, loaded, ranked)
    if to_stdout:
        # Both are UTF-8, regardless of the terminal's encoding.
        if kind in ("html", "svg"):
            sys.stdout.buffer.write(text.encode("utf-8"))
        else:
            sys.stdout.write(text)
        return 0
    size = put(output, text, mark)
    if args.json:
        import json

        print(
            json.dumps(
                {
                    "schema": "offheap.report/1",
                    "path": str(output.resolve()),
                    "bytes": size,
                    "verdict": ranked[0].verdict if ranked else None,
                }
            )
        )
    else:
        print(
            f"wrote {printable(str(output))} ({format_size(size)})"
            + (": open it in a browser" if kind == "html" and not args.open else "")
        )
    sys.stdout.flush()  # the path first: a browser may be slow to start
    unopened = show(output) if args.open else ""
    if unopened:
        print(f"offheap: {unopened}: open {printable(str(output.resolve()))} yourself", file=sys.stderr)
    return 0


def _by_suffix(output: Path | None) -> str:
    if output is None:
        return "html"
    return _FORMATS.get(output.suffix.lower(), "html")


def _written(kind: str, loaded: Recording, ranked: Ranking) -> tuple[str, str]:
    """The report, and the text that identifies such a report."""
    if kind == "svg":
        from offheap.analysis.totals.call_graph import call_graph
        from offheap.report.callgraph import svg

        return svg.svg(call_graph(loaded)), svg.MARK
    from offheap.cli.java_heap import java_heap

    java = java_heap(loaded)
    if kind == "html":
        from offheap.analysis.page.recording_page import recording_page
        from offheap.report.html import page

        limit = ranked.room.limit_bytes if ranked.room else None
        shown = recording_page(loaded, ranked, limit, ranked.seconds_to_limit(), java)
        return page.render(shown), page.MARK
    from offheap.analysis.leaks.ticket import ticket
    from offheap.report.json import schemas as json
    from offheap.report.ticket import markdown, plain
    from offheap.report.ticket import ticket as report

    found = ticket(loaded, ranked)
    if kind == "json":
        return json.dumps(report.value(found, java)) + "\n", report.SCHEMA
    return (markdown if kind == "md" else plain).write(report.document(found, java)), report.TITLE
