"""`offheap symbolize`: completes a recording's native names on another machine."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from offheap.errors import UserError

if TYPE_CHECKING:
    from offheap.rewriting.symbolize import NamedFrames
    from offheap.symbols.debuginfod import Debuginfod

_FROM_ENVIRONMENT = ""
_MOST_LISTED = 20  # modules without names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Name the native frames that had no symbols on the recorded machine. Symbols come from files with "
        "the build-id of the recorded module: below --sysroot, in debug folders, then on debuginfod "
        "servers. The result is a new recording, written whole or not at all."
    )
    parser.epilog = """examples:
  offheap symbolize app.offheap             with the libraries of this machine
  offheap symbolize app.offheap --sysroot /mnt/image --debug build/symbols
  offheap symbolize app.offheap --debuginfod https://debuginfod.debian.net
  offheap symbolize app.offheap --debuginfod     the servers of $DEBUGINFOD_URLS
"""
    parser.add_argument(
        "recording", metavar="RECORDING", help="a recording, complete or of a killed recorder"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="OUT",
        help="the new recording (default: RECORDING-symbolized.offheap)",
    )
    parser.add_argument(
        "--sysroot",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="the file system of the recorded machine or image (default: /)",
    )
    parser.add_argument(
        "--debug",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="a folder of libraries and debug files, beside /usr/lib/debug; may be given several times",
    )
    parser.add_argument(
        "--debuginfod",
        nargs="?",
        const=_FROM_ENVIRONMENT,
        metavar="URL",
        help="a server to ask; offheap sends the build-ids of modules that lack names or lines. Without URL: "
        "the servers of DEBUGINFOD_URLS (default: none)",
    )
    parser.add_argument("--insecure", action="store_true", help="allow debuginfod servers without TLS")
    parser.add_argument(
        "--perf-map",
        type=Path,
        metavar="FILE",
        help="names of generated code of the recorded process: a perf map (jcmd PID Compiler.perfmap), or a "
        "jitdump (jit-PID.dump)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.symbolize/1)")


def run(args: argparse.Namespace) -> int:
    from offheap.recording.allowance import ceiling
    from offheap.recording.storage.output import check_output
    from offheap.report.text.printable import printable
    from offheap.rewriting import content as contents
    from offheap.rewriting.symbolize import symbolize
    from offheap.symbols import Symbolizer
    from offheap.symbols.by_build_id import ByBuildId
    from offheap.symbols.generated.generated_code import GeneratedCode

    source = Path(args.recording)
    output = args.output or source.with_name(f"{source.name.removesuffix('.offheap')}-symbolized.offheap")
    if not args.sysroot.is_dir():
        raise UserError(f"{args.sysroot} is not a folder", "give the root of a file system")
    folders = [ByBuildId(folder) for folder in args.debug]
    generated = GeneratedCode(args.perf_map) if args.perf_map else None
    check_output(output)
    with contextlib.ExitStack() as stack:
        servers = _servers(args, stack)
        finders = [folder.find for folder in folders] + ([servers.find] if servers else [])
        stack.enter_context(ceiling(source))
        content = contents.read(source)
        names = stack.enter_context(
            contextlib.closing(
                Symbolizer(
                    root=args.sysroot,
                    debug_directories=(*args.debug, Path("/usr/lib/debug")),
                    finders=finders,
                )
            )
        )
        outcome = symbolize(content, names, generated)
        contents.write(content, output)
    problems = list(servers.problems) if servers else []
    if args.json:
        _print_json(outcome, output, problems)
        return 0
    for problem in problems:
        print(f"offheap: {printable(problem)}", file=sys.stderr)
    _print(outcome)
    print(f"offheap: wrote {printable(str(output))}", file=sys.stderr)
    return 0


def _servers(args: argparse.Namespace, stack: contextlib.ExitStack) -> Debuginfod | None:
    if args.debuginfod is None:
        return None
    from offheap.symbols import debuginfod

    text = args.debuginfod
    if text == _FROM_ENVIRONMENT:
        text = os.environ.get(debuginfod.VARIABLE, "")
        if not text.strip():
            raise UserError(f"{debuginfod.VARIABLE} is not set", "give --debuginfod https://HOST")
    urls = debuginfod.servers(text, insecure=args.insecure)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="offheap-debuginfod-")))
    return debuginfod.Debuginfod(urls, folder, insecure=args.insecure)


def _print_json(outcome: NamedFrames, output: Path, problems: list[str]) -> None:
    from offheap.report.json import other_tools, schemas

    missing = [
        {"path": one.path, "build_id": one.build_id, "frames": one.frames, "why": one.why}
        for one in outcome.missing
    ]
    counts = outcome.named, outcome.unnamed, outcome.located
    print(schemas.dumps(other_tools.symbolized(output, *counts, missing, problems)))


def _print(outcome: NamedFrames) -> None:
    from offheap.report.text.printable import printable

    print(f"named {outcome.named:,} of {outcome.unnamed:,} frames that had no name")
    if outcome.located:
        print(f"found file and line of {outcome.located:,} frames that had a name")
    if outcome.missing:
        print("still without names:")
    for one in outcome.missing[:_MOST_LISTED]:
        why = f" ({one.why})" if one.why else " (its symbols lack these addresses)"
        print(printable(f"  {one.build_id or 'no build-id'}  {one.path}, frames: {one.frames:,}{why}"))
    if len(outcome.missing) > _MOST_LISTED:
        print(f"  and {len(outcome.missing) - _MOST_LISTED:,} modules more")
