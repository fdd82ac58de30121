"""`offheap export`: a recording in another program's format."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from offheap.cli.load import add_application, read
from offheap.errors import UserError

if TYPE_CHECKING:
    from offheap.formats.exported.formats import Format

# As formats/exported names them: the module is loaded with a recording only.
_NAMES = (
    "pprof",
    "otlp",
    "collapsed",
    "speedscope",
    "firefox",
    "heaptrack",
    "jemalloc",
    "mtrace-summary",
    "chrome-trace",
    "csv",
    "json",
    "parquet",
)
_VALUES = ("inuse_space", "inuse_objects", "alloc_space", "alloc_objects")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write a recording in another program's format. Figures are totals of live and of allocated memory, "
        "not samples; live Java objects are those that survived the last collection."
    )
    parser.epilog = """examples:
  offheap export app.offheap --format pprof       for go tool pprof app.pb.gz
  offheap export app.offheap --format collapsed -o - | flamegraph.pl > app.svg
  offheap export app.offheap --format speedscope  for www.speedscope.app
  offheap export app.offheap --format heaptrack   for heaptrack_gui
  offheap export app.offheap --format parquet     one row a stack, for DuckDB
  offheap export app.offheap --format mtrace-summary -o -   unfreed, by caller
"""
    parser.add_argument("recording", metavar="RECORDING", help="a recording, or a live file")
    parser.add_argument(
        "--format", required=True, choices=_NAMES, metavar="FORMAT", help=f"one of {', '.join(_NAMES)}"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the file to write; `-` is standard output (default: RECORDING with the format's suffix)",
    )
    parser.add_argument(
        "--value",
        choices=_VALUES,
        metavar="VALUE",
        help=f"the one number a stack of collapsed: one of {', '.join(_VALUES)} "
        "(default: inuse_space, live bytes)",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--native", action="store_true", help="native memory alone")
    which.add_argument("--java-heap", action="store_true", help="the Java heap alone")
    add_application(parser)
    parser.add_argument(
        "--json", action="store_true", help="print the name and size of the file as JSON (offheap.exported/1)"
    )


def run(args: argparse.Namespace) -> int:
    from offheap.formats.exported.content.samples import Side
    from offheap.formats.exported.formats import FORMATS

    chosen = FORMATS[args.format]
    if args.json and args.output == "-":
        raise UserError(
            "--json prints the name of the file, and -o - prints the file", "leave one of them out"
        )
    output = _output(args, chosen)
    _refuse_what_it_does_not_take(args, chosen)
    recording = read(args.recording, args.app)
    if args.java_heap and recording.java is None:
        raise UserError("the recording has no Java objects", "record with --java-heap, or leave it out")
    side: Side = "native" if args.native else "java" if args.java_heap else "both"
    content = chosen.write(recording, side, args.value or "inuse_space")
    if output is None:
        sys.stdout.buffer.write(content)
        return 0
    from offheap.quantities import format_size
    from offheap.report.text.output import put_bytes
    from offheap.report.text.printable import printable

    size = put_bytes(output, content)
    if args.json:
        from offheap.report.json import other_tools, schemas

        print(schemas.dumps(other_tools.exported(output.resolve(), args.format, size)))
        return 0
    print(
        f"offheap: wrote {printable(str(output))}, {format_size(size)}, for {chosen.about}", file=sys.stderr
    )
    return 0


def _refuse_what_it_does_not_take(args: argparse.Namespace, chosen: Format) -> None:
    if args.value and "value" not in chosen.takes:
        raise UserError(f"{args.format} has all values, or none of them", "leave out --value")
    if (args.native or args.java_heap) and "side" not in chosen.takes:
        raise UserError(f"{args.format} has figures of the whole process", "leave out --native, --java-heap")


def _output(args: argparse.Namespace, chosen: Format) -> Path | None:
    """None: standard output."""
    from offheap.report.text.output import check, refuse_special

    if args.output == "-":
        if chosen.binary and sys.stdout.isatty():
            raise UserError(
                f"{args.format} is binary, and standard output is a terminal", "write it to a file"
            )
        return None
    if args.output:
        output = Path(args.output)
    else:
        source = Path(os.path.abspath(args.recording))  # of `.` the folder's own name
        output = Path(source.name.removesuffix(".offheap") + chosen.suffix)
    refuse_special(output)
    check(output)
    return output
