"""`offheap jemalloc`: runs a program under a profiling jemalloc, or takes a dump of a running JVM's."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from offheap.cli.import_ import bring_in
from offheap.cli.say import say
from offheap.cli.sweeping import sweep
from offheap.errors import UserError
from offheap.quantities import format_size, parse_size

if TYPE_CHECKING:
    from offheap.jemalloc.program import Profiled
    from offheap.report.json.other_tools import ProfiledProcess

_INTERVAL = 512 << 10  # bytes, jemalloc's own
_EVERY = 1 << 30  # bytes allocated: some seconds or minutes of a busy server


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Profile memory with jemalloc instead of the probe. jemalloc writes a sampled dump each time the "
        "program has allocated a certain amount; the JVM's perf map beside it names Java methods. "
        "When the program ends, `run` imports the dumps into a recording, and draws the call graph beside it."
    )
    parser.epilog = """examples:
  offheap jemalloc run -o app.offheap -- java -jar app.jar  writes app.svg, too
  offheap jemalloc run --interval 128KiB -o app.offheap -- bin/catalina.sh run
  offheap jemalloc dump 4711 -o dumps       a program that runs under jemalloc
  offheap import dumps/jeprof.4711.*.heap   a series of such dumps
"""
    actions = parser.add_subparsers(dest="action", metavar="run|dump", required=True)
    run_parser = actions.add_parser(
        "run", help="start a program under a profiling jemalloc", formatter_class=parser.formatter_class
    )
    run_parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="the recording to write (default PROGRAM-PID.offheap)",
    )
    run_parser.add_argument(
        "--interval",
        type=parse_size,
        default=_INTERVAL,
        metavar="SIZE",
        help="mean bytes between samples (default 512KiB); jemalloc takes powers of two",
    )
    run_parser.add_argument(
        "--dump-every",
        type=parse_size,
        default=_EVERY,
        metavar="SIZE",
        help="bytes allocated between dumps (default 1GiB); jemalloc takes powers of two",
    )
    run_parser.add_argument(
        "--library", type=Path, metavar="FILE", help="the libjemalloc.so to preload (default: the system's)"
    )
    run_parser.add_argument(
        "--json",
        action="store_true",
        help="print JSON at the end (schema offheap.jemalloc-run/1); the program prints to standard error",
    )
    run_parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")
    dump_parser = actions.add_parser(
        "dump", help="write a dump of a running JVM", formatter_class=parser.formatter_class
    )
    dump_parser.add_argument("process", metavar="PID|NAME", help="a PID, or part of a main class or jar name")
    dump_parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="the folder to write into (default: the current one)",
    )
    dump_parser.add_argument(
        "--force",
        action="store_true",
        help="load the probe although the container's memory limit leaves too little room",
    )
    dump_parser.add_argument(
        "--json", action="store_true", help="print JSON (schema offheap.jemalloc-dump/1)"
    )


def run(args: argparse.Namespace) -> int:
    sweep()
    return _dump(args) if args.action == "dump" else _run(args)


def _dump(args: argparse.Namespace) -> int:
    from offheap.inspect import discovery
    from offheap.jemalloc.request import dump

    pid = discovery.resolve(args.process)
    made = dump(pid, args.output, force=args.force)
    if args.json:
        from offheap.report.json import other_tools, schemas

        print(schemas.dumps(other_tools.dumped(pid, made.dump, made.perf_map, made.why)))
        return 0
    say(f"wrote {made.dump}" + (f" and {made.perf_map}" if made.perf_map else ""))
    if made.why:
        say(made.why)
    say(f"a later dump makes it a series; read them with: offheap import {made.dump.parent}/jeprof.*.heap")
    return 0


def _run(args: argparse.Namespace) -> int:
    from offheap.jemalloc import allocator, program
    from offheap.recording.storage.output import check_output
    from offheap.report.callgraph import svg
    from offheap.report.text.output import check

    command: Sequence[str] = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UserError("no command is given", "write it after --: offheap jemalloc run -- java -jar app.jar")
    if min(args.interval, args.dump_every) <= 0:
        raise UserError("--interval and --dump-every must be greater than 0", "give a size such as 512KiB")
    library = allocator.find(args.library)
    output = args.output or Path(f"{Path(command[0]).name}-{os.getpid()}.offheap")
    check_output(output)
    check(_picture(output), svg.MARK)
    folder = output.with_suffix(".jemalloc")
    interval, every = allocator.power_of_two(args.interval), allocator.power_of_two(args.dump_every)
    variables = allocator.variables(library, folder, interval, every)
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise UserError(f"cannot make {folder}: {error.strerror}", "choose another name with -o") from None
    say(
        f"{library}: a sample each {format_size(interval)}, "
        f"a dump each {format_size(every)} allocated, into {folder}"
    )
    profiled = program.run(command, variables, folder, sys.stderr.fileno() if args.json else None)
    made = _import(profiled, command, folder, output, quiet=args.json)
    if args.json:
        from offheap.report.json import other_tools, schemas

        print(schemas.dumps(other_tools.profiled(profiled.status, library, folder, made, profiled.problems)))
    return profiled.status


def _import(
    profiled: Profiled, command: Sequence[str], folder: Path, output: Path, quiet: bool
) -> list[ProfiledProcess]:
    """Makes a recording and a picture of each process of interest."""
    from offheap.jemalloc import dumps
    from offheap.report.json.other_tools import ProfiledProcess

    for problem in () if quiet else profiled.problems:
        say(problem)
    if not profiled.dumps:
        folder.rmdir()
        raise UserError(
            f"nothing was dumped: {command[0]} never loaded jemalloc, or was killed before its first dump",
            "it may be linked statically, set-user-ID, or against musl; --dump-every takes a smaller SIZE",
        )
    # The shell of a start script and its tools leave a dump each, too; the recording is of the JVM.
    chosen = sorted(
        profiled.jvms & profiled.dumps.keys() or profiled.dumps, key=lambda pid: -len(profiled.dumps[pid])
    )
    if not profiled.jvms:
        chosen = chosen[:1]
    made = []
    for place, pid in enumerate(chosen):
        its = output if place == 0 else output.with_name(f"{output.stem}-{pid}{output.suffix}")
        names = dumps.perf_map(folder, pid)
        names_or_none = names if names.exists() else None
        info = bring_in(profiled.dumps[pid], its, "jemalloc", None, names_or_none, quiet=quiet)
        picture = _draw(its, profiled.problems, quiet)
        made.append(ProfiledProcess(info, len(profiled.dumps[pid]), names_or_none, picture))
        if not quiet:
            say(f"now run: offheap leaks {its}")
    left = len(profiled.dumps) - len(chosen)
    if left:
        say(f"{folder} has dumps of {left} more processes of the program")
    return made


def _picture(recording: Path) -> Path:
    return recording.with_suffix(".svg")


def _draw(recording: Path, problems: list[str], quiet: bool) -> Path | None:
    """Draws the call graph beside the recording; a failure is a problem, as the recording exists already."""
    from offheap.analysis.totals.call_graph import call_graph
    from offheap.recording import load
    from offheap.report.callgraph import svg
    from offheap.report.text.output import put

    picture = _picture(recording)
    try:
        put(picture, svg.svg(call_graph(load(recording))), svg.MARK)
    except UserError as error:
        problems.append(error.what)
        if not quiet:
            say(error.what)
        return None
    if not quiet:
        say(f"drew the call graph in {picture}")
    return picture
