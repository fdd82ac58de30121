"""`offheap nmt`: Native Memory Tracking's own report, with external memory as one more category."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offheap.analysis.nmt.results import Tracked

_SCALES = {"b": "B", "k": "KB", "kb": "KB", "m": "MB", "mb": "MB", "g": "GB", "gb": "GB"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print Native Memory Tracking's report as jcmd does, plus the category that it lacks: External, the "
        "memory that libraries took with malloc and mmap.  The JVM must run with "
        "-XX:NativeMemoryTracking.  For a recording, print External; with --detail, by call path."
    )
    parser.epilog = """examples:
  offheap nmt 4711
  offheap nmt 4711 --detail --scale MB
  offheap nmt 4711 -o before.json       keep it as a baseline; later:
  offheap nmt 4711 --diff before.json   what changed, as summary.diff prints it
  offheap nmt app.offheap --detail      external call sites with their stacks
"""
    parser.add_argument(
        "process",
        metavar="PID|NAME|RECORDING",
        help="a PID, part of a main class or jar name, or a recording",
    )
    parser.add_argument("--detail", action="store_true", help="show call sites and the map of virtual memory")
    parser.add_argument(
        "--diff", metavar="BASELINE", help="show changes since a file of -o, jcmd's output, or a recording"
    )
    parser.add_argument("--scale", type=_scale, default="KB", metavar="KB", help="B, KB (default), MB or GB")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="save the report for a later --diff"
    )
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.nmt/1), in bytes")


def run(args: argparse.Namespace) -> int:
    from offheap.cli.load import process_or_recording
    from offheap.errors import UserError
    from offheap.inspect import nmt_report
    from offheap.probe.live_files import stale_files
    from offheap.report.json import nmt as nmt_json
    from offheap.report.json.schemas import dumps
    from offheap.report.terminal.process import nmt as nmt_text
    from offheap.report.text.width import output

    if args.diff and args.detail:
        raise UserError("--diff compares categories, not call sites", "give --diff or --detail")
    if args.output:
        from offheap.recording.storage.output_name import refuse_other_format
        from offheap.report.text.output import check, private

        refuse_other_format(args.output, (".json",), "a baseline is JSON: name it .json")
        check(args.output)
    before = (_kept(args.diff) or nmt_report.of_file(Path(args.diff))) if args.diff else None
    meant = process_or_recording(args.process)
    if isinstance(meant, Path):
        tracked = _recording(args.process)
    else:
        stale_files.sweep()
        tracked = nmt_report.of_process(meant, detail=args.detail, scale=args.scale)
    if args.output:
        try:
            with open(args.output, "w", encoding="utf-8", opener=private) as file:
                file.write(dumps(nmt_json.nmt(tracked)) + "\n")
        except OSError as error:
            raise UserError(f"cannot write {args.output}: {error.strerror}", "give another -o") from None
    if args.json:
        print(dumps(nmt_json.nmt(tracked)))
    elif before:
        print(nmt_text.diff(before, tracked, args.scale), file=output())
    else:
        print(nmt_text.report(tracked, args.scale, detail=args.detail), file=output())
    return 0


def _kept(path: str) -> Tracked | None:
    """The report of a recording or live file; None when the path is neither."""
    return _recording(path) if Path(path).is_dir() or path.endswith(".live") else None


def _recording(path: str) -> Tracked:
    from offheap.analysis.nmt import external as nmt_external
    from offheap.analysis.nmt.results import Tracked
    from offheap.cli.load import read

    recording = read(path)
    external = nmt_external.of_recording(recording)
    return Tracked(recording.info.pid, recording.info.main_class, {}, external)


def _scale(text: str) -> str:
    scale = _SCALES.get(text.lower())
    if scale is None:
        raise argparse.ArgumentTypeError(f"{text!r} is none of B, KB, MB, GB")
    return scale
