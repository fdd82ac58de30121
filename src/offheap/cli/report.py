"""`offheap report`: one self-contained HTML file."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write one HTML file that shows who leaks, what grew, and where live memory was allocated. "
        "It holds all it needs, so it can be mailed or attached to a ticket, and opens without a network."
    )
    parser.epilog = (
        "examples:\n"
        "  offheap report app.offheap                     writes app.html\n"
        "  offheap report app.offheap -o leak.html\n"
    )
    parser.add_argument("recording", metavar="RECORDING", type=Path, help="a recording or a live file")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="where to write; default: the recording's name, .html",
    )
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")


def run(args: argparse.Namespace) -> int:
    from offheap import recording
    from offheap.analysis.leaks import ranking
    from offheap.quantities import format_size
    from offheap.report import html

    output = args.output or Path(Path(args.recording).resolve().stem + ".html")
    loaded = recording.load(args.recording)
    ranked = ranking(loaded)
    size = html.write(loaded, ranked, output)
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
        print(f"wrote {output} ({format_size(size)}): open it in a browser")
    return 0
