"""`offheap where`: every byte of RSS and its owner."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from offheap.cli import where_all
from offheap.cli.load import add_application
from offheap.errors import UserError
from offheap.quantities import format_duration, format_size, parse_duration, parse_positive_duration

if TYPE_CHECKING:
    from offheap.analysis.owners.heap_growth import HeapGrowth


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Split the RSS of a running JVM by owner: Java heap, metaspace, code cache, thread stacks, direct "
        "buffers, malloc, libraries, mapped files ...  Needs no probe, no restart and no debugger, and never "
        "stops the process.  It asks the JVM a few cheap questions over its attach mechanism, whose thread "
        "costs the JVM 0.1 to 0.4 MiB the first time.  With --watch, and for a recording, it says what "
        "grows: the rate of every owner with its interval, a verdict, and what to run next."
    )
    parser.epilog = """examples:
  offheap where 4711
  offheap where 4711 --watch 10m        what grows; Ctrl-C ends it early
  offheap where app.offheap             the same for a recording
  offheap where 4711 --tree             owners, their parts, and the addresses
  offheap where 4711 --histogram 30s    which classes grow in the Java heap
  offheap where --all                   a line for each JVM of this machine
  offheap where --all --serve :9404     the same for Prometheus, on loopback
  offheap where shop -v                 each thread, file and NMT category
  offheap where 4711 --no-attach        ask the JVM nothing, read /proc only
  offheap where 4711 --json | jq '.owners[] | {owner, bytes}'
"""
    parser.add_argument(
        "process",
        nargs="?",
        default="",
        metavar="PID|NAME|RECORDING",
        help="a PID, part of a main class or jar name, or a recording",
    )
    parser.add_argument(
        "--watch",
        type=parse_duration,
        metavar="TIME",
        help="measure repeatedly for TIME, then judge what grows",
    )
    parser.add_argument(
        "--every",
        type=parse_duration,
        metavar="TIME",
        help="time between measurements of --watch (default: TIME/60, between 1s and 30s)",
    )
    parser.add_argument(
        "-v", "--full", action="store_true", help="show what each owner's memory is made of, by name"
    )
    parser.add_argument(
        "--tree", action="store_true", help="drill down: owners, names, and the addresses behind them"
    )
    parser.add_argument("--no-attach", action="store_true", help="ask the JVM nothing; read /proc only")
    parser.add_argument(
        "--exact",
        action="store_true",
        help="walk every malloc block, not only the first of each arena; takes seconds for millions",
    )
    parser.add_argument(
        "--detail",
        action="store_true",
        help="also ask for the collector's tables and NMT's details, which cost the JVM about 5 MiB once",
    )
    parser.add_argument(
        "--histogram",
        type=parse_positive_duration,
        nargs="?",
        const=10.0,
        metavar="TIME",
        help="also show which Java classes grow within TIME (default 10s); runs two full collections",
    )
    parser.add_argument(
        "--no-histogram",
        dest="histogram",
        action="store_const",
        const=None,
        help="no class histogram (default); the last of the two options counts",
    )
    parser.add_argument("--all", action="store_true", help="one line for each JVM of this machine")
    parser.add_argument(
        "--serve",
        type=where_all.address,
        metavar="[HOST]:PORT",
        help="serve the owners as OpenMetrics until Ctrl-C, on loopback unless HOST says otherwise",
    )
    add_application(parser)
    parser.add_argument("--json", action="store_true", help="print JSON (schema offheap.where/1)")


def run(args: argparse.Namespace) -> int:
    if args.detail and args.no_attach:
        raise UserError("--detail asks the JVM and --no-attach forbids it", "give one of them")
    if args.exact and (args.watch is not None or args.all or args.serve):
        raise UserError("--exact measures once", "leave out --watch, --all and --serve")
    if args.every is not None and args.watch is None:
        raise UserError("--every is the time between measurements of --watch", "add --watch 10m")
    if args.watch == 0 or args.every == 0:
        raise UserError("a time must be greater than 0", "give a time such as 10m")
    if args.process and args.all:
        raise UserError("--all covers every JVM", f"leave out --all or {args.process}")
    if args.histogram is not None and (args.watch is not None or args.all or args.serve or args.no_attach):
        raise UserError(
            "--histogram measures one JVM twice", "leave out --watch, --all, --serve and --no-attach"
        )
    if args.tree and (args.watch is not None or args.all or args.serve):
        raise UserError("--tree shows one measurement", "leave out --watch, --all and --serve")
    if args.app and (args.all or args.serve):
        raise UserError("--app is for a recording", "leave it out, or --all and --serve")
    if args.all or args.serve:
        return where_all.run(args)
    if not args.process:
        raise UserError("no process is given", "give a PID, a name or a recording, or --all")
    from offheap.cli.load import process_or_recording
    from offheap.probe.live_files import stale_files

    meant = process_or_recording(args.process)
    if isinstance(meant, Path):
        return _recording(args)
    stale_files.sweep()
    if args.app:
        raise UserError(
            "--app names the application in stacks, and a process has none here",
            "leave it out, or give a recording",
        )
    return _over_time(args, meant) if args.watch is not None else _once(args, meant)


def _once(args: argparse.Namespace, pid: int) -> int:
    from offheap.inspect.process import inspect_process

    growth = _heap_growth(pid, args.histogram) if args.histogram is not None else None
    accounts = inspect_process(pid, attach=not args.no_attach, detail=args.detail, exact=args.exact)
    if args.json:
        from offheap.report.json import where as accounts_json
        from offheap.report.json.heap_growth import heap_growth_json
        from offheap.report.json.schemas import dumps

        document = accounts_json.where(accounts)
        print(dumps({**document, "histogram": heap_growth_json(growth)} if growth else document))
        return 0
    from offheap.report.terminal.console import console
    from offheap.report.terminal.process import heap_growth, where_tree
    from offheap.report.terminal.process import where as accounts_text

    out = console()
    accounts_text.print_where(out, accounts, full=args.full)
    if args.tree:
        where_tree.print_tree(out, accounts)
    if growth:
        heap_growth.print_growth(out, growth, pid)
    return 0


def _heap_growth(pid: int, seconds: float) -> HeapGrowth:
    from offheap.cli.progress import ProgressLine
    from offheap.inspect.histograms import compare_histograms

    with ProgressLine(f"watching the Java heap of PID {pid}") as progress:

        def say(classes: int) -> None:
            progress.say(f"{classes:,} classes, again in {format_duration(seconds)}")

        return compare_histograms(pid, seconds, say)


def _over_time(args: argparse.Namespace, pid: int) -> int:
    from offheap.analysis.owners.verdict import judge
    from offheap.cli.progress import ProgressLine
    from offheap.inspect.over_time import RssReading, inspect_over_time
    from offheap.launch.ending import interruptible

    with interruptible() as interrupted, ProgressLine(f"watching PID {pid}") as progress:

        def on_reading(age: float, now: RssReading) -> None:
            whole = f"{format_duration(age)} of {format_duration(args.watch)}"
            progress.say(f"{whole}, RSS {format_size(now.accounts.memory.rss)}")

        inspected = inspect_over_time(
            pid,
            args.watch,
            every=args.every,
            attach=not args.no_attach,
            detail=args.detail,
            stop=lambda: bool(interrupted),
            on_reading=on_reading,
        )
    if inspected.ended == "exited":
        print(f"offheap: PID {pid} ended; the figures cover the time until then", file=sys.stderr)
    found = judge(inspected.over, pid=pid, loaders=inspected.loaders)
    accounts = inspected.accounts
    if args.json:
        from offheap.report.json import owners as owners_json
        from offheap.report.json import where as accounts_json
        from offheap.report.json.schemas import dumps

        print(
            dumps(
                owners_json.with_growth(accounts_json.where(accounts), found, inspected.over, inspected.ended)
            )
        )
        return 0
    from offheap.report.terminal.console import console
    from offheap.report.terminal.process import owners as owners_text
    from offheap.report.terminal.process import where as accounts_text

    out = console()
    if args.full:
        accounts_text.print_where(out, accounts, full=True)
        out.print()
    version = f", Java {accounts.java_version}" if accounts.java_version else ""
    owners_text.print_growth(out, found, f"{accounts.name} (pid {pid}{version})")
    for sentence in accounts.missing:
        owners_text.print_fact(out, "not told", sentence)
    return 0


def _recording(args: argparse.Namespace) -> int:
    from offheap.analysis.leaks.leaks import ranking
    from offheap.analysis.leaks.owners_with_blocks import owners_with_blocks
    from offheap.analysis.owners.verdict import judge
    from offheap.cli.load import read

    for name in ("watch", "detail", "no_attach"):
        if getattr(args, name):
            option = "--" + name.replace("_", "-")
            raise UserError(f"{option} is for a running process, {args.process} is a file", "leave it out")
    recording = read(args.process, args.app)
    over, info = recording.owners, recording.info
    if not len(over.times) and info.imported:
        raise UserError(
            f"{args.process} was imported from {info.imported}, which does not tell who owns RSS",
            f"its own memory: offheap leaks {args.process}",
        )
    if not len(over.times):
        raise UserError(
            f"{args.process} does not hold the owners of RSS: it is a live file, an older offheap made it, "
            "or no reading was taken",
            f"while the process runs, use offheap where {info.pid}",
        )
    found = judge(over, pid=info.pid if info.ended == "recording" else None)
    found = owners_with_blocks(found, ranking(recording))
    if args.json:
        from offheap.report.json import owners as owners_json
        from offheap.report.json.schemas import dumps

        print(dumps(owners_json.with_growth(owners_json.recorded(info, found), found, over, info.ended)))
        return 0
    from offheap.report.terminal.console import console
    from offheap.report.terminal.process import owners as owners_text

    version = f", Java {info.java_version}" if info.java_version else ""
    owners_text.print_growth(console(), found, f"{info.main_class} (pid {info.pid}{version})")
    return 0
